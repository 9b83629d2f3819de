package sync

import (
	"bytes"
	"errors"
	"iter"

	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

var errPanicked = errors.New("sync: spool: the write panicked")

// held is what a push body has come to so far: records of its envelopes, in
// memory up to memoryBytes, beyond that in a spool file. The connection cannot be
// told to stop sending, so what the disk has not taken yet is in memory too:
// counted in the relay's budget, as all of it, and bounded by the spool's quota.
//
// Owned by the loop, but for the file, which belongs to the job under way while
// writing is set, and to the store's writer while that reads.
type held struct {
	in        *intake
	onWritten func(error) // on the loop, after each write

	memory  []byte   // the first records, nil as long as tail has all
	tail    []byte   // the last ones, not on their way to the file
	waiting [][]byte // pieces on their way to the file
	file    spool
	inFile  int64 // bytes
	spooled int64 // of the quota
	writing bool
	dropped bool
}

func (h *held) init(in *intake, onWritten func(error)) {
	h.in, h.onWritten, h.file.dir = in, onWritten, in.s.parts.SpoolDir
}

// add keeps an envelope, whose bytes are copied.
func (h *held) add(e *syncwire.Envelope) error {
	if h.dropped {
		return nil
	}
	before := len(h.tail)
	h.tail = syncwire.AppendRecord(h.tail, e)
	n := int64(len(h.tail) - before)
	if !h.in.take(n) {
		return errNoMemory
	}
	if h.memory == nil && len(h.tail) <= memoryBytes {
		return nil
	}
	if h.memory == nil { // now it is what lies before this record
		h.memory, h.tail = h.tail[:before:before], bytes.Clone(h.tail[before:])
	}
	if !h.in.s.spool.Take(n) {
		return errNoSpool
	}
	h.spooled += n
	if len(h.tail) >= spoolPiece {
		h.waiting = append(h.waiting, h.tail)
		h.tail = nil
		return h.write()
	}
	return nil
}

// write writes what waits for the file, in a job, one at a time.
func (h *held) write() error {
	if h.writing || len(h.waiting) == 0 {
		return nil
	}
	pieces, l := h.waiting, h.in.w.Loop()
	h.waiting = nil
	err := h.in.x.Go(func() func(*serve.Exchange) {
		err := errPanicked
		defer func() { post(l, func() { h.wrote(pieces, err) }) }() // also when the answer is not wanted any more
		err = h.file.write(pieces)
		return func(*serve.Exchange) {}
	})
	if err != nil {
		return errNoSpool
	}
	h.writing = true
	return nil
}

// wrote is called on the loop after a write.
func (h *held) wrote(pieces [][]byte, err error) {
	h.writing = false
	if h.dropped {
		h.free()
		return
	}
	var n int64
	for _, p := range pieces {
		n += int64(len(p))
	}
	h.inFile += n
	h.in.give(n)
	if err == nil {
		err = h.write()
	}
	h.onWritten(err)
}

// drop forgets everything. The file is closed once nobody uses it.
func (h *held) drop() {
	h.dropped = true
	h.memory, h.tail, h.waiting = nil, nil, nil
	h.in.give(h.in.taken)
	if !h.writing {
		h.free()
	}
}

// free closes the file and gives its space back. Freeing 256 MiB may block, so
// it is done off the loop: there are as many goroutines as large pushes end.
func (h *held) free() {
	n, file, spool := h.spooled, h.file, h.in.s.spool
	h.spooled, h.file.file = 0, nil
	if file.file == nil {
		spool.Give(n)
		return
	}
	go func() {
		file.close()
		spool.Give(n)
	}()
}

// readBytes is how much of a spool file is read at once.
const readBytes = 256 << 10

// events yields what is held, from the start in each run. It is run by the
// store's writer, when nothing is written any more.
func (h *held) events() iter.Seq2[store.Event, error] {
	memory, tail, file, inFile := h.memory, h.tail, h.file, h.inFile
	return func(yield func(store.Event, error) bool) {
		if !yieldRecords(memory, yield) {
			return
		}
		if inFile > 0 && !yieldFile(&file, inFile, yield) {
			return
		}
		yieldRecords(tail, yield)
	}
}

// yieldRecords yields the whole records of p and tells whether to go on.
func yieldRecords(p []byte, yield func(store.Event, error) bool) bool {
	rest, ok := nextRecords(p, yield)
	if ok && len(rest) > 0 {
		return yield(store.Event{}, syncwire.ErrRecord)
	}
	return ok
}

// nextRecords yields whole records from the start of p, and returns what is left
// of it: nothing, or a part of one.
func nextRecords(p []byte, yield func(store.Event, error) bool) (rest []byte, ok bool) {
	var e syncwire.Envelope
	for {
		n, whole, err := syncwire.ReadRecord(p, &e)
		if err != nil {
			yield(store.Event{}, err)
			return nil, false
		}
		if !whole {
			return p, true
		}
		if !yield(store.Event{ID: string(e.EventID), Stream: string(e.StreamID), Envelope: e.Stored}, nil) {
			return nil, false
		}
		p = p[n:]
	}
}

// yieldFile yields the records of a spool file.
func yieldFile(file *spool, size int64, yield func(store.Event, error) bool) bool {
	buf := make([]byte, 0, readBytes)
	for at := int64(0); at < size || len(buf) > 0; {
		kept := len(buf)
		var e syncwire.Envelope
		need, _, _ := syncwire.ReadRecord(buf, &e)
		n := min(int64(max(readBytes-kept, need-kept)), size-at)
		if n <= 0 {
			return yield(store.Event{}, syncwire.ErrRecord)
		}
		buf = append(buf, make([]byte, n)...)
		if err := file.readAt(buf[kept:], at); err != nil {
			yield(store.Event{}, err)
			return false
		}
		at += n
		rest, ok := nextRecords(buf, yield)
		if !ok {
			return false
		}
		buf = append(buf[:0], rest...)
	}
	return true
}
