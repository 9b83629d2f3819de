package firehoseload

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// target is a server whose consumers get frames.
type target interface {
	// publish hands in n frames, from a number on, without waiting for them.
	publish(first int64, n int) error
	// published waits for what the server says to the frames handed in.
	published(first int64, n int) error
	close()
}

// token is what the relay wants of a publisher.
const token = "bench"

// posts publishes to a relay: each frame of a call on a kept connection of its
// own (F52), so that so many are on their way at once.
type posts struct {
	addr    string
	request []byte
	conns   []net.Conn
	in      []*bufio.Reader
	seen    []bool
}

// newPosts returns a publisher without connections. A frame's number is given by
// the relay: that of the sample is ignored.
func newPosts(addr string, s sample) *posts {
	frame := s.frame()
	request := fmt.Sprintf("POST /firehose/publish HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/vnd.ipld.dag-cbor\r\nContent-Length: %d\r\n\r\n", token, len(frame))
	return &posts{addr: addr, request: append([]byte(request), frame...)}
}

func (p *posts) publish(_ int64, n int) error {
	for len(p.conns) < n {
		conn, err := net.DialTimeout("tcp4", p.addr, patience)
		if err != nil {
			return err
		}
		p.conns = append(p.conns, conn)
		p.in = append(p.in, bufio.NewReader(conn))
	}
	for _, conn := range p.conns[:n] {
		if _, err := conn.Write(p.request); err != nil {
			return err
		}
	}
	return nil
}

// published reads an answer of each connection. Their numbers must be those that
// come next, each once: which connection has which is the relay's choice (F51).
func (p *posts) published(first int64, n int) error {
	p.seen = append(p.seen[:0], make([]bool, n)...)
	for i, in := range p.in[:n] {
		if err := p.conns[i].SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		seq, err := readSeq(in)
		if err != nil {
			return err
		}
		if seq < first || seq >= first+int64(n) || p.seen[seq-first] {
			return fmt.Errorf("%w: number %d among %d to %d", errAnswer, seq, first, first+int64(n)-1)
		}
		p.seen[seq-first] = true
	}
	return nil
}

// readSeq reads the answer to a publish.
func readSeq(in *bufio.Reader) (int64, error) {
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return 0, err
	}
	var answer struct{ Seq int64 }
	if res.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil {
		return 0, fmt.Errorf("%w: %s %s", errAnswer, res.Status, body)
	}
	return answer.Seq, nil
}

func (p *posts) close() {
	for _, conn := range p.conns {
		_ = conn.Close()
	}
}

// blobs tells the floor what to write: the frames of a call in so many blobs.
type blobs struct {
	conn   net.Conn
	sample sample
	parts  int
	out    []byte
}

// newBlobs connects to a floor.
func newBlobs(addr string, s sample) (*blobs, error) {
	conn, err := net.DialTimeout("tcp4", addr, patience)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, floorPublish); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &blobs{conn: conn, sample: s, parts: 1}, nil
}

func (b *blobs) publish(first int64, n int) error {
	b.out = b.out[:0]
	parts := min(b.parts, n)
	for i := range parts {
		from, to := i*n/parts, (i+1)*n/parts
		b.out = binary.BigEndian.AppendUint32(b.out, uint32((to-from)*len(b.sample.message)))
		for k := from; k < to; k++ {
			b.out = b.sample.append(b.out, first+int64(k))
		}
	}
	_, err := b.conn.Write(b.out)
	return err
}

func (*blobs) published(int64, int) error { return nil }

func (b *blobs) close() { _ = b.conn.Close() }

// burst publishes n frames at once, so many times, and waits each time until all
// consumers have them.
func burst(ctx context.Context, t target, c *consumers, n, times int) error {
	for range times {
		first := c.through + 1
		c.expect(n)
		if err := t.publish(first, n); err != nil {
			return err
		}
		if err := c.await(ctx); err != nil {
			return err
		}
		if err := t.published(first, n); err != nil {
			return err
		}
	}
	return nil
}
