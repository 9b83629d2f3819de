package intake

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"unsafe"

	"github.com/bytedance/sonic"
)

// maxBodyBytes is the longest NDJSON body.
const maxBodyBytes = 16 << 20

// maxPooledBytes is the largest body buffer that is kept for another request.
const maxPooledBytes = 1 << 20

// ErrEnvelope says that a line is JSON but has no id, type, time or session.
var ErrEnvelope = errors.New("event has no id, type, time or session")

// envelope is what is read of an event; the rest of its text is checked to be
// JSON and kept raw.
type envelope struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Time    string `json:"time"`
	Session string `json:"session"`
	Seq     int64  `json:"seq"`
	Epoch   int64  `json:"epoch"`
}

// Ingest is the handler of POST /events. Any goroutine.
type Ingest struct {
	// immutable after construction
	sink      Sink
	decode    func(line []byte, into *envelope) error
	histories *histories
	scratch   sync.Pool // of *scratch
}

// scratch is what one request works with.
type scratch struct {
	body      bytes.Buffer
	lines     [][]byte
	envelopes []envelope
	batch     []Event
}

// NewIngest makes the handler. It decodes with sonic, which this package's
// benchmark finds several times faster than encoding/json. Its strings refer
// to the body, so what outlives the request is copied.
func NewIngest(sink Sink) *Ingest {
	return newIngest(sink, func(line []byte, into *envelope) error {
		// Unmarshal would copy the line, since a caller might change it.
		return sonic.ConfigDefault.UnmarshalFromString(unsafe.String(unsafe.SliceData(line), len(line)), into)
	})
}

func newIngest(sink Sink, decode func([]byte, *envelope) error) *Ingest {
	return &Ingest{
		sink:      sink,
		decode:    decode,
		histories: newHistories(),
		scratch:   sync.Pool{New: func() any { return new(scratch) }},
	}
}

// ServeHTTP admits a body of NDJSON events: 202 when all are taken, 400 when a
// line is not an event (then none is), 413 when the body is too long.
func (g *Ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := g.scratch.Get().(*scratch)
	defer g.release(s)
	if n := r.ContentLength; n > 0 && n <= maxBodyBytes {
		s.body.Grow(int(n) + bytes.MinRead)
	}
	if _, err := s.body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBodyBytes)); err != nil {
		code := http.StatusBadRequest
		var tooLong *http.MaxBytesError
		if errors.As(err, &tooLong) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), code)
		return
	}
	if err := g.parse(s); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.admit(s)
	if len(s.batch) > 0 {
		g.sink.Publish(s.batch)
	}
	w.WriteHeader(http.StatusAccepted)
}

// release empties the scratch and keeps it for another request.
func (g *Ingest) release(s *scratch) {
	if s.body.Cap() > maxPooledBytes {
		return
	}
	clear(s.lines)
	clear(s.envelopes)
	clear(s.batch)
	s.body.Reset()
	s.lines, s.envelopes, s.batch = s.lines[:0], s.envelopes[:0], s.batch[:0]
	g.scratch.Put(s)
}

// parse splits the body into lines and decodes each envelope.
func (g *Ingest) parse(s *scratch) error {
	rest := s.body.Bytes()
	for number := 1; len(rest) > 0; number++ {
		var line []byte
		line, rest, _ = bytes.Cut(rest, newline)
		if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
			continue
		}
		s.envelopes = append(s.envelopes, envelope{})
		e := &s.envelopes[len(s.envelopes)-1]
		if err := g.decode(line, e); err != nil {
			return fmt.Errorf("line %d: invalid JSON: %w", number, err)
		}
		if e.ID == "" || e.Type == "" || e.Time == "" || e.Session == "" {
			return fmt.Errorf("line %d: %w", number, ErrEnvelope)
		}
		s.lines = append(s.lines, line)
	}
	return nil
}

var newline = []byte{'\n'}

// admit makes a batch of the events that are new. A history's lock is held for
// as long as the events stay in its session.
func (g *Ingest) admit(s *scratch) {
	var h *history
	for i := range s.envelopes {
		e := &s.envelopes[i]
		if h == nil || h.name != e.Session {
			if h != nil {
				h.mu.Unlock()
			}
			h = g.histories.of(e.Session)
			h.mu.Lock()
		}
		if h.admit(key{epoch: e.Epoch, seq: e.Seq, id: e.ID}, s.lines[i]) {
			s.batch = append(s.batch, Event{Payload: s.lines[i], Topic: h.name})
		}
	}
	if h != nil {
		h.mu.Unlock()
	}
}
