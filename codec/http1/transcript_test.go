package http1

import (
	"bytes"
	"fmt"
	"testing"
)

// transcript is what a parser made of an input, in a form that must not depend
// on how the input was split (H1).
type transcript struct {
	requests []request
	err      *Error
	pending  string // what the parser was in at the end of the input
}

type request struct {
	head string
	body []byte
	done bool
}

func (tr transcript) String() string {
	var b bytes.Buffer
	for _, r := range tr.requests {
		fmt.Fprintf(&b, "%s body=%q done=%v\n", r.head, r.body, r.done)
	}
	fmt.Fprintf(&b, "%s err=%v", tr.pending, tr.err)
	return b.String()
}

// describe prints everything that a head tells.
func describe(h *Head) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %q path=%q query=%q 1.%d host=%q/%v length=%d keep=%v expect=%v ws=%v",
		h.Method, h.Target, h.Path, h.RawQuery, h.Minor, h.Host, h.HasHost,
		h.ContentLength, h.KeepAlive, h.ExpectContinue, h.IsWebSocketUpgrade())
	h.Each(func(name, value []byte) bool {
		fmt.Fprintf(&b, " %s=%q", name, value)
		return true
	})
	return b.String()
}

// transcribe feeds the pieces one after the other to a new parser and checks
// the promises of Feed on the way.
func transcribe(t testing.TB, s *Scratch, pieces ...[]byte) transcript {
	t.Helper()
	var tr transcript
	var p Parser
	for _, piece := range pieces {
		tr.feed(t, &p, s, bytes.Clone(piece))
		if tr.err != nil {
			return tr
		}
	}
	tr.pending = fmt.Sprintf("idle=%v head=%v body=%v", p.Idle(), p.InHead(), p.InBody())
	return tr
}

func (tr *transcript) feed(t testing.TB, p *Parser, s *Scratch, in []byte) {
	t.Helper()
	rest := in
	for {
		n, step, data, err := p.Feed(s, rest)
		if n < 0 || n > len(rest) {
			t.Fatalf("consumed %d of %d", n, len(rest))
		}
		if held := p.HeldBytes(); held > 2*HeadBytes || held > 0 && !p.InHead() {
			t.Fatalf("%d bytes held, in head: %v", held, p.InHead())
		}
		if (p.Head() != nil) != (step == GotHead) || (len(data) > 0) != (step == GotBody) {
			t.Fatalf("step %d with head %v and %d octets", step, p.Head(), len(data))
		}
		rest = rest[n:]
		if err != nil {
			tr.err = err.(*Error)
			if _, _, _, again := p.Feed(s, []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); again != err {
				t.Fatalf("after %v the parser says %v", err, again)
			}
			return
		}
		last := len(tr.requests) - 1
		switch step {
		case NeedMore:
			if len(rest) > 0 {
				t.Fatalf("NeedMore with %d octets left", len(rest))
			}
			clear(in) // a reactor reuses its buffer
			return
		case GotHead:
			tr.requests = append(tr.requests, request{head: describe(p.Head())})
		case GotBody:
			tr.requests[last].body = append(tr.requests[last].body, data...)
		case GotEnd:
			if tr.requests[last].done || p.InBody() || p.InHead() || !p.Idle() {
				t.Fatalf("end reported twice, or the parser is not idle after it")
			}
			tr.requests[last].done = true
		}
	}
}

// parseOne reads an input that holds exactly one request and returns its head,
// or the error.
func parseOne(t testing.TB, in string) (*Head, error) {
	t.Helper()
	var p Parser
	n, step, _, err := p.Feed(NewScratch(), []byte(in))
	if err != nil {
		return nil, err
	}
	if step != GotHead {
		t.Fatalf("%q: step %d after %d octets, want a head", in, step, n)
	}
	return p.Head(), nil
}

// octets splits in into pieces of size octets.
func octets(in []byte, size int) (pieces [][]byte) {
	for len(in) > size {
		pieces, in = append(pieces, in[:size]), in[size:]
	}
	return append(pieces, in)
}
