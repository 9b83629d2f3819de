package aep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// Bounds of section 15 of the contract.
const (
	softBytes = 1_048_576
	hardBytes = 8_388_608
)

// owe publishes notice events until a socket that takes nothing owes exactly
// bytes more, and returns the next sequence number.
func (r *rig) owe(bytes, seq int) int {
	r.t.Helper()
	frame := func(seq, pad int) int {
		n := len(notice(seq, pad))
		return n + wsframe.HeaderLen(n)
	}
	const piece = 100_000
	for ; bytes > 3*piece; seq++ {
		bytes -= frame(seq, piece)
		r.post(notice(seq, piece))
	}
	if last := bytes - frame(seq, piece); last > 70_000 { // its header is as long
		bytes -= frame(seq, piece)
		r.post(notice(seq, piece))
		seq++
	}
	pad := piece + bytes - frame(seq, piece)
	if frame(seq, pad) != bytes {
		r.t.Fatalf("an event of %d bytes cannot be made", bytes)
	}
	r.post(notice(seq, pad))
	return seq + 1
}

// kept returns the sequence numbers of the events among frames, and what of the
// rest is no ping.
func kept(t *testing.T, frames []string) (seqs []int, rest []string) {
	t.Helper()
	for _, f := range frames {
		e, err := relaytest.ParseEnvelope(f)
		switch {
		case err == nil && e.Session != "":
			seqs = append(seqs, int(e.SeqNumber()))
		case f != "ping" && e.Type != "ping":
			rest = append(rest, f)
		}
	}
	return seqs, rest
}

// TestR420Severities: over SOFT, events of debug, of info and of no severity
// are dropped, all others kept; when the consumer is up to date it is told how
// many were dropped (R424a), and nothing is dropped any more.
func TestR420Severities(t *testing.T) {
	r := newRig(t, 64<<20)
	w := r.socket()
	w.Stall()
	first := r.owe(softBytes+1, 0)
	severities := []string{"debug", "info", "", "notice", "warning", "error", "critical", "debug"}
	publish := func(seq int) (want []int) {
		for i, severity := range severities {
			r.post(relaytest.Event{Session: "s", Seq: uint64(seq + i), Severity: severity}.JSON())
			if severity != "debug" && severity != "info" && severity != "" {
				want = append(want, seq+i)
			}
		}
		return want
	}
	want := publish(first)
	w.Room(64 << 20)
	r.run()
	seqs, rest := kept(t, w.frames())
	if got := seqs[first:]; !slices.Equal(got, want) {
		t.Errorf("over SOFT: kept %v, want %v", got, want)
	}
	if !slices.Equal(rest, []string{`{"type":"shed","count":4}`}) {
		t.Errorf("R424a: told %q", rest)
	}
	publish(first + len(severities))
	if seqs, rest := kept(t, w.frames()); len(seqs) != len(severities) || len(rest) != 0 {
		t.Errorf("up to date again: kept %v, told %q", seqs, rest)
	}
}

// TestR420Soft: Q is compared before the event is added, strictly: at SOFT an
// info event is kept, a byte above it is not.
func TestR420Soft(t *testing.T) {
	for over, dropped := range []bool{false, true} {
		r := newRig(t, 64<<20)
		w := r.socket()
		w.Stall()
		seq := r.owe(softBytes+over, 0)
		r.post(relaytest.Event{Session: "s", Seq: uint64(seq), Severity: "info"}.JSON())
		w.Room(64 << 20)
		r.run()
		seqs, rest := kept(t, w.frames())
		if isDropped := !slices.Contains(seqs, seq); isDropped != dropped || dropped != (len(rest) == 1) {
			t.Errorf("Q of SOFT and %d: dropped %v, told %q", over, isDropped, rest)
		}
	}
}

// TestR422Hard: at HARD one more event is taken, whatever its size; a byte above
// it is the end, for a socket with its positions, for a stream at once.
func TestR422Hard(t *testing.T) {
	for over, ends := range []bool{false, true} {
		r := newRig(t, 64<<20)
		w := r.socket()
		w.Stall()
		seq := r.owe(hardBytes+over, 0)
		r.counts("before", 1, 1)
		r.post(notice(seq, 3<<20))
		if ends {
			r.counts("above HARD", 0, 0)
		} else {
			r.counts("at HARD", 1, 1)
		}
		w.Room(64 << 20)
		r.run()
		seqs, rest := kept(t, w.frames())
		if !ends {
			if len(seqs) != seq+1 || len(rest) != 0 {
				t.Errorf("at HARD: %d events, then %q", len(seqs), rest)
			}
			continue
		}
		// Nothing was taken, so that not even the first event is begun.
		want := []string{`{"type":"closing","reason":"backpressure","delivered":[]}`, "close 1013 backpressure"}
		if len(seqs) != 0 || !slices.Equal(rest, want) {
			t.Errorf("above HARD: %d events, then %q, want %q", len(seqs), rest, want)
		}
		r.pass(5*seconds + tick)
	}
}

// TestR427Hard: the same for a stream: it is reset and forgotten, and nothing
// more is said.
func TestR427Hard(t *testing.T) {
	r := newRig(t, 64<<20)
	w := r.stream("", "HTTP/1.1")
	w.Stall()
	w.Room(1000)
	for seq := 0; !w.Aborted; seq++ {
		if seq > 10 {
			t.Fatal("a stream may owe any amount")
		}
		r.post(notice(seq, 1<<20))
	}
	r.counts("cut", 0, 0)
	if got := w.text(); len(got) != 1000 || strings.Contains(got, "shutting-down") || strings.Contains(got, "\r\n0\r\n\r\n") {
		t.Errorf("a cut stream got %d bytes that end in %q, want 1,000 of its first event", len(got), fmt.Sprintf("%.50s", got[max(0, len(got)-50):]))
	}
	if n := r.worker.Conns(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
