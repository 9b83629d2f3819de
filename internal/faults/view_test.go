package faults_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// sealed is an event of session s as an item of a stream.
func sealed(seq uint64) faults.Item {
	return faults.Item{
		Event: faults.Seal(nil, faults.Sealing{Session: "s", Seq: seq, Severity: "notice"}),
		ID:    fmt.Sprintf("s:0:%d", seq),
	}
}

func note(n faults.Note) faults.Item { return faults.Item{Note: n} }

func exhausted(earliest uint64) faults.Item {
	return note(faults.Note{Kind: "replay-exhausted", Session: "s", Earliest: earliest})
}

func closing(seq uint64) faults.Item {
	return note(faults.Note{Kind: "closing", Delivered: []relaytest.DeliveredPosition{{Session: "s", Seq: seq}}})
}

// TestView: what a view lets pass, and what it does not (F2).
func TestView(t *testing.T) {
	misnamed, altered, foreign := sealed(1), sealed(1), sealed(0)
	misnamed.ID = "s:0:2"
	altered.Event[200] ^= 1
	foreign.Event = faults.Seal(nil, faults.Sealing{Session: "other", Severity: "notice"})
	shed := func(n uint64) faults.Item { return note(faults.Note{Kind: "shed", Count: n}) }
	odd := func(seq uint64) bool { return seq%2 == 1 }
	forget := func(first uint64) func(*faults.View) {
		return func(v *faults.View) { v.Forget("s", first) }
	}
	for _, c := range []struct {
		name  string
		items []any // Item, or a change of the view
		lossy func(uint64) bool
		want  error // of the last item
	}{
		{"R193: in order", []any{sealed(0), sealed(1), sealed(2)}, nil, nil},
		{"R192: hole", []any{sealed(0), sealed(2)}, nil, faults.ErrView},
		{"R192: hole at the start", []any{sealed(1)}, nil, faults.ErrView},
		{"R192: twice", []any{sealed(0), sealed(0)}, nil, faults.ErrView},
		{"R193: other order", []any{sealed(0), sealed(1), sealed(0)}, nil, faults.ErrView},
		{"R194: altered", []any{sealed(0), altered}, nil, faults.ErrSeal},
		{"R272: wrong id", []any{sealed(0), misnamed}, nil, faults.ErrView},
		{"another session", []any{foreign}, nil, faults.ErrView},
		{"R167: announced gap", []any{sealed(0), exhausted(7), sealed(7), sealed(8)}, nil, nil},
		{"R167: goes on elsewhere", []any{sealed(0), exhausted(7), sealed(8)}, nil, faults.ErrView},
		{"R167: goes on as if not", []any{sealed(0), exhausted(7), sealed(1)}, nil, faults.ErrView},
		{"R167: gap announced once, met twice", []any{sealed(0), exhausted(7), sealed(7), sealed(9)}, nil, faults.ErrView},
		{"R166: exhausted and nothing missing", []any{sealed(0), exhausted(1)}, nil, faults.ErrView},
		{"R420: shed", []any{sealed(0), sealed(2), shed(1)}, odd, nil},
		{"R420: notice shed", []any{sealed(0), sealed(1), sealed(3)}, odd, faults.ErrView},
		{"R420: nobody may shed here", []any{sealed(0), shed(1)}, nil, faults.ErrView},
		{"R430: delivered", []any{sealed(0), sealed(1), closing(1)}, nil, nil},
		{"R430: more told than delivered", []any{sealed(0), sealed(1), closing(2)}, nil, faults.ErrView},
		{"R430: less told than delivered", []any{sealed(0), sealed(1), closing(0)}, nil, faults.ErrView},
		{"new run, nothing lost", []any{sealed(0), forget(1), sealed(1)}, nil, nil},
		{"new run, some forgotten", []any{sealed(0), forget(5), sealed(5), sealed(6)}, nil, nil},
		{"new run, forgotten and announced", []any{sealed(0), forget(5), exhausted(5), sealed(5)}, nil, nil},
		{"new run, hole behind its first", []any{sealed(0), forget(5), sealed(6)}, nil, faults.ErrView},
		{"new run, not acknowledged before", []any{sealed(0), sealed(1), forget(1), sealed(1), sealed(2)}, nil, nil},
		{"new run, before its first", []any{sealed(0), sealed(1), forget(1), sealed(0)}, nil, faults.ErrView},
		{"new run, hole later", []any{sealed(0), forget(5), sealed(5), sealed(7)}, nil, faults.ErrView},
		{"R320: refused", []any{note(faults.Note{Kind: "error"})}, nil, faults.ErrView},
	} {
		v := faults.View{Sessions: []string{"s"}, Droppable: c.lossy}
		v.Expect("s", 0)
		for i, step := range c.items {
			var err error
			if change, ok := step.(func(*faults.View)); ok {
				change(&v)
			} else {
				err = v.Take(step.(faults.Item))
			}
			if last := i == len(c.items)-1; !last && err != nil || last && !errors.Is(err, c.want) {
				t.Errorf("%s: step %d: got %v", c.name, i, err)
			}
		}
		if v.Missing != v.Shed && c.want == nil {
			t.Errorf("%s: %d missing, %d shed", c.name, v.Missing, v.Shed)
		}
	}
}

// TestViewFrom: positions as a resume wants them (R165, R168).
func TestViewFrom(t *testing.T) {
	var v faults.View
	v.Expect("s", 0)
	must(t, "take", v.Take(sealed(0)))
	must(t, "take", v.Take(sealed(1)))
	if got, want := v.From("s", "new"), `[{"session":"s","seq":1},{"session":"new","seq":-1}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestChunks: the chunked coding of a body, and what a cut leaves of it.
func TestChunks(t *testing.T) {
	r := faults.NewRand(1, 0)
	for n := range 200 {
		body := strings.Repeat("x", n*50)
		text := faults.Chunks(r, []byte(body))
		if got := strings.Count(string(text), "x"); got != len(body) || !strings.HasSuffix(string(text), "0\r\n\r\n") {
			t.Errorf("body of %d: %d octets came, ends %q", len(body), got, text[max(0, len(text)-8):])
		}
		if cut := r.Cut(text); len(cut) >= len(text) {
			t.Errorf("a cut leaves %d of %d", len(cut), len(text))
		}
	}
}
