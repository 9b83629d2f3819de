package aep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR424StalledSocket: a socket whose kernel takes no byte for 90 s is told
// so, with its positions, and reset 5 s later, whether it reads or not (R428).
// It says something all the time, so that silence is not the reason.
func TestR424StalledSocket(t *testing.T) {
	for name, c := range map[string]struct {
		reads  bool // again after it was given up
		answer bool // the Close
	}{"never reads": {}, "reads": {reads: true}, "reads and answers": {true, true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1<<20)
			w := r.socket()
			w.Stall()
			w.Room(500) // one event and a part of the next
			r.post(notice(0, 100), notice(1, 100), notice(2, 100), notice(3, 100))
			for range 8 {
				r.pass(10 * seconds)
				w.say(`{"type":"unknown"}`)
			}
			r.pass(10*seconds - tick)
			r.counts("before 90 s", 1, 1)
			r.pass(2 * tick)
			r.counts("after 90 s", 0, 0)
			if c.reads {
				w.Room(1 << 20)
				r.run()
				wantFarewell(t, w.frames(), `"backpressure"`, "close 1013 backpressure")
			}
			if c.answer {
				w.send(clientFrame(relaytest.OpClose, "\x03\xf5"))
				if !w.Closed || w.Aborted {
					t.Error("the closing handshake is complete, the connection is not closed")
				}
				return
			}
			r.pass(5 * seconds)
			if !w.Aborted {
				t.Error("not reset after 5 s")
			}
		})
	}
}

// wantFarewell wants events, then a closing frame whose positions are those of
// the last whole event before it, then a Close (R428, R430).
func wantFarewell(t *testing.T, frames []string, reason, last string) {
	t.Helper()
	frames = slices.DeleteFunc(frames, func(f string) bool { return f == "ping" || strings.HasPrefix(f, `{"type":"ping"`) })
	n := len(frames)
	if n < 2 || frames[n-1] != last {
		t.Fatalf("frames %.600q, want %q at the end", frames, last)
	}
	seq := -1
	for _, f := range frames[:n-2] {
		e, err := relaytest.ParseEnvelope(f)
		if err != nil || int(e.SeqNumber()) != seq+1 {
			t.Fatalf("%.200s (%v) where event %d was due", f, err, seq+1)
		}
		seq++
	}
	want := fmt.Sprintf(`{"type":"closing","reason":%s,"delivered":[{"sub":"q","session":"s","epoch":0,"seq":%d}]}`, reason, seq)
	if seq < 0 || frames[n-2] != want {
		t.Errorf("R430: %s after event %d, want %s", frames[n-2], seq, want)
	}
}

// TestR424StalledStream: a stream whose kernel takes no byte for 90 s is reset
// and forgotten (R427); one that ever takes a byte is kept, live or replaying.
func TestR424StalledStream(t *testing.T) {
	r := newRig(t, 1<<20)
	r.post(notice(0, 100))
	open := func(query string) *wire {
		w := r.dial()
		w.Stall()
		w.send("GET /stream?" + query + " HTTP/1.1\r\nHost: x\r\n\r\n")
		return w
	}
	dead, replay, slow, slowReplay := open(""), open("live=0&from=all"), open(""), open("live=0&from=all")
	r.post(notice(1, 100))
	for range 10 {
		r.pass(80 * seconds)
		slow.Room(1)
		slowReplay.Room(1)
		r.run()
	}
	if !dead.Aborted || !replay.Aborted || slow.Gone() || slowReplay.Gone() {
		t.Errorf("reset %v and %v, gone %v and %v; want the first two reset", dead.Aborted, replay.Aborted, slow.Gone(), slowReplay.Gone())
	}
	r.counts("one live stream is left", 0, 1)
	if cuts := r.surface.Counters().Cuts; cuts[cutStalled] != 2 {
		t.Errorf("cuts %v", cuts)
	}
	for _, w := range []*wire{slow, slowReplay} {
		w.Room(1 << 20)
		r.run()
	}
	if got := slow.text(); !strings.Contains(got, `"seq":1`) || !strings.Contains(got, ": ping") {
		t.Errorf("slow stream got %q", got)
	}
	if got := slowReplay.text(); !strings.Contains(got, `"seq":0`) || !strings.HasSuffix(got, ": replay-complete\n\n\r\n0\r\n\r\n") {
		t.Errorf("slow replay got %q", got)
	}
}

// TestR462SocketFarewells: what is queued for at most 2 s, then closing and
// Close 1001; whoever does not finish the handshake in 2 s more is cut (W38).
func TestR462SocketFarewells(t *testing.T) {
	r := newRig(t, 1<<20)
	idle, polite, slow, dead, late := r.socket(), r.socket(), r.socket(), r.socket(), r.upgrade()
	for _, w := range []*wire{slow, dead} {
		w.Stall()
		w.Room(500)
	}
	r.post(notice(0, 100), notice(1, 100), notice(2, 100), notice(3, 100))
	r.worker.Shutdown()
	r.run()
	for _, w := range []*wire{idle, polite} {
		wantFarewell(t, w.frames(), `"shutting-down"`, "close 1001 shutting down")
	}
	late.wantFrames("before hello", "close 1001 shutting down")
	polite.send(clientFrame(relaytest.OpClose, "\x03\xe9"))
	if !polite.Closed {
		t.Error("the handshake is complete, the connection is not closed")
	}
	r.pass(2*seconds - tick)
	slow.Room(1 << 20)
	r.run()
	got := slow.frames()
	wantFarewell(t, got, `"shutting-down"`, "close 1001 shutting down")
	if !strings.Contains(strings.Join(got, ""), `"seq":3}`) {
		t.Errorf("what was queued did not all come: %q", got)
	}
	r.pass(2 * tick)
	for name, w := range map[string]*wire{"idle": idle, "late": late} {
		if !w.Aborted {
			t.Errorf("R462: %s ignores the Close and is not cut after 2 s", name)
		}
	}
	if dead.Gone() {
		t.Error("a socket that reads nothing is cut before its Close had 2 s")
	}
	dead.Room(1 << 20)
	r.run()
	got = dead.frames()
	wantFarewell(t, got, `"shutting-down"`, "close 1001 shutting down")
	if strings.Contains(strings.Join(got, ""), `"seq":3}`) {
		t.Errorf("R462: after 2 s the rest is still sent: %q", got)
	}
	r.pass(2 * seconds)
	if !dead.Gone() || !slow.Gone() || r.worker.Conns() != 0 {
		t.Errorf("R464: %d connections are left", r.worker.Conns())
	}
}

// TestR461StreamFarewells: what is queued, the comment, the end; a stream that
// reads nothing is reset in time for R464, a replay ends as a live one.
func TestR461StreamFarewells(t *testing.T) {
	r := newRig(t, 1<<20)
	r.post(notice(0, 100))
	live, old, dead := r.stream("", "HTTP/1.1"), r.stream("", "HTTP/1.0"), r.stream("", "HTTP/1.1")
	replay := r.dial()
	for _, w := range []*wire{dead, replay} {
		w.Stall()
	}
	replay.send("GET /stream?live=0&from=all HTTP/1.1\r\nHost: x\r\n\r\n")
	r.post(notice(1, 100))
	r.worker.Shutdown()
	r.run()
	if got := live.blocks(true); len(got) != 3 || got[1] != ": shutting-down\n\n" || got[2] != "end" || !live.Finished {
		t.Errorf("live stream: %q, FIN %v", got, live.Finished)
	}
	if got := old.blocks(false); len(got) != 2 || got[1] != ": shutting-down\n\n" || !old.Finished {
		t.Errorf("stream in HTTP/1.0: %q, FIN %v", got, old.Finished)
	}
	r.pass(seconds)
	replay.Room(1 << 20)
	r.run()
	if got := replay.text(); !strings.HasSuffix(got, ": shutting-down\n\n\r\n0\r\n\r\n") || strings.Contains(got, "replay-complete") {
		t.Errorf("unfinished replay: %q", got)
	}
	if dead.Gone() {
		t.Error("a stream has no time to read what is queued")
	}
	r.pass(4*seconds - tick)
	if !dead.Aborted || r.worker.Conns() != 0 {
		t.Errorf("R464: %d connections are left after 5 s", r.worker.Conns())
	}
}
