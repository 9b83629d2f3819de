package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// entries is the roster as seen by w, sorted by nothing.
func (w *socket) entries() []string {
	w.t.Helper()
	w.send(`{"type":"roster","id":"r"}`)
	e := w.frame("roster")
	if e.IDString() != "r" {
		w.t.Errorf("R380: roster id %s", e.ID)
	}
	var all []string
	for _, raw := range e.Entries {
		all = append(all, string(raw))
	}
	return all
}

// TestR380Roster covers R380 to R383.
func TestR380Roster(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	const control = `{"accepts": ["control.cancel"],"future":{"x":1.0,"big":12345678901234567890}}`
	const emits = `["tool.*", {"a":null}]`
	f.post(t, relaytest.Event{Session: "http-only"}.JSON())
	full := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"emitter","identity":{"agent":"a","instance":"i","other":1},`+
		`"capabilities":{"control":`+control+`,"emits":`+emits+`,"filters":["attr-match"]}}`)
	bare := f.socket(t, `{"type":"hello","versions":["0.1"],"identity":{"agent":"","instance":5}}`)
	consumer := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"consumer","identity":{"agent":"watcher"}}`)
	if got := consumer.entries(); len(got) != 0 {
		t.Errorf("R382: entries %q before any claim", got)
	}
	full.send(relaytest.Event{Session: "one"}.JSON(), relaytest.Event{Session: "two"}.JSON(), relaytest.Event{Session: "one", Seq: 1}.JSON())
	full.barrier()
	bare.send(relaytest.Event{Session: "one", Seq: 2}.JSON(), relaytest.AgentEvent().JSON(), relaytest.Event{Type: "attention.routed", Session: "routed", NoSeq: true}.JSON())
	bare.barrier()
	consumer.send(relaytest.Event{Session: "three"}.JSON())
	want := map[string]int{
		`{"session":"one","agent":"a","instance":"i","control":` + control + `,"emits":` + emits + `}`: 1,
		`{"session":"two","agent":"a","instance":"i","control":` + control + `,"emits":` + emits + `}`: 1,
		`{"session":"one"}`: 1,
	}
	for _, w := range []*socket{consumer, bare} {
		got := w.entries()
		if len(got) != 3 {
			t.Errorf("%d entries %q, want 3", len(got), got)
		}
		for text := range want {
			n := 0
			for _, entry := range got {
				if sameJSON(t, entry, text) {
					n++
				}
				if strings.Contains(entry, `"control"`) && (!strings.Contains(entry, control) || !strings.Contains(entry, emits)) {
					t.Errorf("R381: not exactly as declared: %s", entry)
				}
			}
			if n != 1 {
				t.Errorf("entry %s stands %d times in %q", text, n, got)
			}
		}
	}
	full.send(`{"type":"roster","id":9}`)
	if e := full.refused("unauthorized"); string(e.ID) != "9" {
		t.Errorf("R380: emitter's refusal has id %s", e.ID)
	}
	wantTexts(t, "R380: the emitter survives", full.barrier(), nil)
	consumer.send(`{"type":"roster"}`)
	if e := consumer.frame("roster"); len(e.ID) != 0 || len(e.Entries) != 3 {
		t.Errorf("roster without an id: %+v", e)
	}
	_ = full.Reset()
	f.awaitHealth(t, "R334", func(h health) bool { return h.Connections == 2 })
	if got := consumer.entries(); len(got) != 1 || !sameJSON(t, got[0], `{"session":"one"}`) {
		t.Errorf("after the emitter left: %q", got)
	}
	if n := len(f.held(t)); n != 6 {
		t.Errorf("%d events held, want 6", n)
	}
}

// TestR383ClaimsAreVisibleAtOnce: in the same write as the event.
func TestR383ClaimsAreVisibleAtOnce(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w, other := f.socket(t, ""), f.socket(t, "")
	for i := range 100 {
		w.send(relaytest.Event{Session: fmt.Sprint("s", i)}.JSON())
		if got := w.entries(); len(got) != i+1 {
			t.Fatalf("own roster after %d claims has %d entries", i+1, len(got))
		}
		if got := other.entries(); len(got) != i+1 {
			t.Fatalf("another's roster after %d claims has %d entries", i+1, len(got))
		}
	}
}

// TestR381RosterBound: a reply over 1 MiB is refused (W35).
func TestR381RosterBound(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	emits := `"` + strings.Repeat("e", 4000) + `"`
	w := f.socket(t, `{"type":"hello","versions":["0.1"],"capabilities":{"emits":`+emits+`}}`)
	for i := range 200 {
		w.send(relaytest.Event{Session: fmt.Sprint("s", i)}.JSON())
	}
	if got := w.entries(); len(got) != 200 {
		t.Errorf("%d entries in 800 KB, want 200", len(got))
	}
	for i := range 100 {
		w.send(relaytest.Event{Session: fmt.Sprint("t", i)}.JSON())
	}
	w.send(`{"type":"roster","id":4}`)
	if e := w.refused("limit-exceeded"); string(e.ID) != "4" {
		t.Errorf("refusal has id %s", e.ID)
	}
	wantTexts(t, "the connection survives", w.barrier(), nil)
}
