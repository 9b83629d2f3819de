package simloop

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
)

// Severity of an event. The two lowest may be shed.
type Severity uint8

// Severities, lowest first.
const (
	Debug Severity = iota
	Info
	Notice
	Error
)

var severityNames = []string{"debug", "info", "notice", "error"}

// Forms from firstOnBase on are derived from the form that many below.
const firstOnBase = 8

// Event is an event of the scenario protocol. Immutable. It implements
// stream.Event.
type Event struct {
	Session  string
	Seq      stream.Sequence
	Name     string   // without spaces or brackets
	ID       string   // on which buffers dedupe; the name when empty
	Attrs    []string // "k=v"
	Severity Severity
	Bytes    int // of the frame, at least what its text needs

	keys []uint64
}

// Entry returns a new entry for ev, which must not change any more.
func (ev *Event) Entry() *stream.Entry {
	ev.keys = append(ev.keys, keyOf("session="+ev.Session))
	for _, a := range ev.Attrs {
		ev.keys = append(ev.keys, keyOf(a))
	}
	frame := ev.appendPadded(make([]byte, 0, max(ev.Bytes, 1)), 0)
	e := stream.NewEntry(ev, frame[:len(frame):len(frame)])
	e.Session, e.Sequence, e.Sequenced = ev.Session, ev.Seq, true
	e.Droppable = ev.Severity < Notice
	return e
}

// Key returns what the buffers dedupe the event on.
func (ev *Event) Key() (k session.Key) {
	h := fnv.New128a()
	id := ev.ID
	if id == "" {
		id = ev.Name
	}
	_, _ = h.Write([]byte(id))
	h.Sum(k[:0])
	return k
}

// AppendKeys implements stream.Event.
func (ev *Event) AppendKeys(dst []uint64) []uint64 { return append(dst, ev.keys...) }

// Resolve implements stream.Event. Each form stands for itself, so that a frame
// tells which one was asked for.
func (ev *Event) Resolve(f stream.Form) (form, base stream.Form) {
	if f >= firstOnBase {
		return f, f - firstOnBase
	}
	return f, f
}

// AppendFrame implements stream.Event. It panics for an event with the
// attribute broken=frame.
func (ev *Event) AppendFrame(dst []byte, f stream.Form, base []byte) []byte {
	for _, a := range ev.Attrs {
		if a == "broken=frame" {
			panic("simloop: broken frame")
		}
	}
	if f < firstOnBase {
		return ev.appendPadded(dst, f)
	}
	dst = append(dst, base[:len(base)-1]...)
	return fmt.Appendf(dst, " f%d]", f)
}

func (ev *Event) appendPadded(dst []byte, f stream.Form) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, "[%s %d:%d %s", ev.Session, ev.Seq.Epoch, ev.Seq.Seq, ev.Name)
	if f != 0 {
		dst = fmt.Appendf(dst, " f%d", f)
	}
	if len(dst)-start+2 < ev.Bytes {
		dst = append(dst, ' ')
		for len(dst)-start+1 < ev.Bytes {
			dst = append(dst, '.')
		}
	}
	return append(dst, ']')
}

func keyOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// Frame is one frame as the peer reads it.
type Frame struct {
	Fields []string // without padding
	Bytes  int
}

// Text returns the frame's text without its padding.
func (f Frame) Text() string { return "[" + strings.Join(f.Fields, " ") + "]" }

// Event tells whether the frame is an event's, and reads it.
func (f Frame) Event() (name, session string, seq stream.Sequence, form stream.Form, ok bool) {
	if len(f.Fields) < 3 {
		return "", "", seq, 0, false
	}
	seq, err := ParseSequence(f.Fields[1])
	if err != nil {
		return "", "", seq, 0, false
	}
	if last := f.Fields[len(f.Fields)-1]; len(f.Fields) > 3 && last[0] == 'f' {
		n, err := strconv.Atoi(last[1:])
		if err != nil {
			return "", "", seq, 0, false
		}
		form = stream.Form(n)
	}
	return f.Fields[2], f.Fields[0], seq, form, true
}

// ParseFrames cuts p into frames. rest is the beginning of a frame that is not
// complete. It returns an error when p is not a sequence of frames.
func ParseFrames(p []byte) (frames []Frame, rest []byte, err error) {
	for len(p) > 0 {
		if p[0] != '[' {
			return frames, p, fmt.Errorf("frame begins with %q", p[0])
		}
		end := strings.IndexAny(string(p[1:]), "[]") + 1
		if end == 0 {
			return frames, p, nil
		}
		if p[end] == '[' {
			return frames, p, fmt.Errorf("frame inside a frame: %q", p[:end+1])
		}
		f := Frame{Bytes: end + 1}
		for _, field := range strings.Fields(string(p[1:end])) {
			if strings.Trim(field, ".") != "" {
				f.Fields = append(f.Fields, field)
			}
		}
		frames = append(frames, f)
		p = p[end+1:]
	}
	return frames, nil, nil
}

// ParseSequence reads "epoch:seq", or "-" for a position before everything.
func ParseSequence(text string) (s stream.Sequence, err error) {
	if text == "-" {
		return stream.Sequence{Seq: -1}, nil
	}
	epoch, seq, ok := strings.Cut(text, ":")
	if !ok {
		return s, fmt.Errorf("position %q is not epoch:seq", text)
	}
	if s.Epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil {
		return s, fmt.Errorf("position %q: %w", text, err)
	}
	if s.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil {
		return s, fmt.Errorf("position %q: %w", text, err)
	}
	return s, nil
}
