package firehosefaults

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/engine/stream"
	proto "github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/store/firehosestore"
)

// pdsLog is the log of a producer in the same program: records of a length and
// an id in a file. A power cut takes what was not synced. Any goroutine.
type pdsLog struct {
	mu     sync.Mutex
	file   *os.File
	end    uint64 // position: bytes that were written
	synced uint64
	off    bool // the power is off
}

func openLog(t *testing.T, path string) *pdsLog {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &pdsLog{file: f, end: uint64(end), synced: uint64(end)}
}

// write appends a record and returns the position behind it.
func (l *pdsLog) write(id string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return 0, io.ErrClosedPipe
	}
	record := append(binary.BigEndian.AppendUint32(nil, uint32(len(id))), id...)
	if _, err := l.file.Write(record); err != nil {
		return 0, err
	}
	l.end += uint64(len(record))
	return l.end, nil
}

// sync is the SyncLog of the producer.
func (l *pdsLog) sync() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return 0, io.ErrClosedPipe
	}
	if err := l.file.Sync(); err != nil {
		return 0, err
	}
	l.synced = l.end
	return l.synced, nil
}

// cut turns the power off: nothing is synced any more, and what was not is gone.
func (l *pdsLog) cut(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = true
	if err := l.file.Truncate(int64(l.synced)); err != nil {
		t.Fatal(err)
	}
}

// survivors reads the ids that are in a log after a power cut.
func survivors(t *testing.T, path string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for len(b) > 0 {
		n := binary.BigEndian.Uint32(b)
		ids[string(b[4:4+n])] = true
		b = b[4+n:]
	}
	return ids
}

// pds is one life of such a producer, with one subscriber of its ring.
type pds struct {
	*proto.Producer
	log   *pdsLog
	store *firehosestore.Store
	ring  *stream.Ring
	pin   *stream.Pin
	next  stream.Pos // of the subscriber
	seen  []item
}

func startPDS(t *testing.T, dir string) *pds {
	t.Helper()
	p := &pds{log: openLog(t, filepath.Join(dir, "log")), ring: stream.NewRing(stream.Bounds{Frames: 1 << 16, Bytes: 1 << 30})}
	var err error
	if p.store, err = firehosestore.Open(firehosestore.Config{Path: database(dir)}); err != nil {
		t.Fatal(err)
	}
	numbers, err := proto.OpenNumbers(p.store, proto.NumbersConfig{Mode: proto.FloorNumber, Floor: 1, Block: 8})
	if err != nil {
		t.Fatal(err)
	}
	p.Producer = proto.NewProducer(proto.Config{
		Ring: p.ring, Numbers: numbers, SyncLog: p.log.sync, SyncInterval: time.Millisecond,
	})
	p.pin, p.next = p.ring.Pin(), p.ring.Oldest()
	if err := p.Booting(); err != nil {
		t.Fatal(err)
	}
	return p
}

// end frees a life whose power is off: it publishes nothing more.
func (p *pds) end(t *testing.T) {
	t.Helper()
	_ = p.Stop(nil, nil) // commits are held: an error, and no clean mark
	p.look(t)
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// look reads what the ring has for subscribers.
func (p *pds) look(t *testing.T) {
	t.Helper()
	var scanner firehose.Scanner
	var frames [64]*stream.Frame
	for {
		n, next, err := p.ring.Fetch(p.next, frames[:], 0)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		p.next = next
		for _, f := range frames[:n] {
			var frame firehose.Frame
			if err := scanner.Scan(payload(f.Bytes), &frame); err != nil {
				t.Fatal(err)
			}
			p.seen = append(p.seen, item{kind: frame.Kind(), seq: f.Seq, id: idOf(&frame)})
		}
	}
}

// payload returns what is in an unmasked WebSocket frame (RFC 6455, 5.2).
func payload(frame []byte) []byte {
	switch frame[1] {
	case 126:
		return frame[4:]
	case 127:
		return frame[10:]
	}
	return frame[2:]
}

// commit writes a commit to the log and hands it over, unsynced (F43).
func (p *pds) commit(r *repo) error {
	m := r.commit(60)
	position, err := p.log.write(m.id)
	if err != nil {
		return err
	}
	return p.Commit(m.firehoseBody, position)
}
