package syncwire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var wide = Limits{MaxEvents: 1000, MaxEventBytes: 262144}

// recorder is a Sink that notes what it is given.
type recorder struct {
	log    []string // in the order of calls
	owners []string
	stored []string
	fail   error // what the methods return
}

func (r *recorder) Owner(id string) error {
	r.owners = append(r.owners, id)
	r.log = append(r.log, "owner "+id)
	return r.fail
}

func (r *recorder) Envelope(e *Envelope) error {
	r.stored = append(r.stored, string(e.Stored))
	r.log = append(r.log, fmt.Sprintf("%d %q %q %s", e.Index, e.EventID, e.StreamID, e.Stored))
	return r.fail
}

// push decodes a body that comes in pieces of at most size bytes, each of which
// is destroyed after the call (Y1).
func push(body string, limits Limits, size int) (*recorder, error) {
	var d PushDecoder
	r := new(recorder)
	d.Reset(limits, r)
	return r, feed(&d, body, size)
}

func feed(d *PushDecoder, body string, size int) error {
	for len(body) > 0 {
		n := min(size, len(body))
		piece := []byte(body[:n])
		err := d.Feed(piece)
		if string(piece) != body[:n] {
			return errors.New("input modified")
		}
		for i := range piece {
			piece[i] = '#'
		}
		if err != nil {
			return err
		}
		body = body[n:]
	}
	return d.End()
}

// envelope is a good envelope of owner o; more goes before its last brace.
func envelope(id, more string) string {
	return `{"version":1,"ownerId":"o","eventId":"` + id + `","deviceId":"d",` +
		`"createdAt":"t","nonce":"n","ciphertext":"c"` + more + `}`
}

// body is a push of owner o.
func body(envelopes ...string) string {
	return `{"ownerId":"o","events":[` + strings.Join(envelopes, ",") + `]}`
}

// wantFault checks the code, the index and that the reason is a text.
func wantFault(t *testing.T, what string, err error, code Code, index int) {
	t.Helper()
	var fault *Error
	if !errors.As(err, &fault) {
		t.Errorf("%.200s: %v, want %s", what, err, code)
		return
	}
	if fault.Code != code || fault.Index != index || fault.Reason == "" {
		t.Errorf("%.200s: %s %d %q, want %s %d", what, fault.Code, fault.Index, fault.Reason, code, index)
	}
}

// vectorFile returns the contract's vectors: the copy of the project.
func vectorFile(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sync-relay.json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
