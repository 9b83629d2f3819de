package firehose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// F48, case 42: consumers that go get what there is, then a FIN without a close
// frame.
func TestLeaveWithEverything(t *testing.T) {
	r := newLoopRig(t, bounded(10_000))
	live, behind := r.subscribe(""), r.subscribe("")
	behind.Stall()
	r.publish(3, 100)
	for range 20 * batchFrames {
		r.put(KindCommit, 0)
	}
	replays := r.dial(0)
	replays.send(handshake("cursor=0"))
	r.workers[0].Shutdown()
	for range 1000 { // each turn without time
		if !r.loops[0].Turn(1) {
			break
		}
	}
	r.run()
	all := commits(1, 3+20*batchFrames)
	live.want("F48", all...)
	live.wantState("F48", "fin")
	replays.upgraded()
	replays.want("F48", all...)
	replays.wantState("F48", "fin")
	behind.wantState("F48: one that is behind", "open")
	behind.Room(-1)
	r.run()
	behind.want("F48: one that is behind", all...)
	behind.wantState("F48: one that is behind", "fin")
	r.pass(2*time.Second + step)
	live.wantState("a peer that does not close", "closed")
}

// F48: a frame that is half written when the relay goes down is finished, and
// consumers leave one by one over a drain window while others go on.
func TestDrain(t *testing.T) {
	r := newLoopRig(t, bounded(100))
	a, b := r.subscribe(""), r.subscribe("")
	half := r.subscribe("")
	half.Stall()
	half.Room(50)
	r.publish(1, 200)
	r.workers[0].TellPeers(1) // the one that came last
	half.wantState("half a frame", "open")
	half.Room(-1)
	r.run()
	half.want("half a frame", commits(1, 1)...)
	half.wantState("half a frame", "fin")
	r.workers[0].TellPeers(1)
	r.run()
	r.publish(1, 0)
	b.want("the one before", commits(1, 1)...)
	b.wantState("the one before", "fin")
	a.want("the first", commits(1, 2)...)
	a.wantState("the first", "open")
}

// F48: one that leaves while its loop is behind is not taken for one that stays.
func TestDrainBehind(t *testing.T) {
	r := newLoopRig(t, bounded(10_000))
	stays, leaves := r.subscribe(""), r.subscribe("exclude=sync")
	var want []string
	for range 4 * batchFrames {
		r.put(KindSync, 0)
		seq := r.put(KindCommit, 0)
		want = append(want, commits(seq, seq)...)
	}
	r.workers[0].TellPeers(1)
	for r.loops[0].Turn(1) {
	}
	leaves.want("F48", want...)
	leaves.wantState("F48", "fin")
	if n := len(stays.frames()); n != 8*batchFrames {
		t.Errorf("the one that stays has %d frames", n)
	}
}

// F48: one that leaves in the middle of a pass gets each frame once.
func TestLeaveInPass(t *testing.T) {
	r := newLoopRig(t, bounded(100))
	var all []*wire
	for range 10 * lookWrites {
		all = append(all, r.subscribe(""))
	}
	r.put(KindCommit, 0)
	r.loops[0].Turn(4)
	if !r.surface.feeds[0].groups[0].passing {
		t.Fatal("the pass is over: this proves nothing")
	}
	r.workers[0].Shutdown()
	r.run()
	for _, w := range all {
		w.want("F48", commits(1, 1)...)
		w.wantState("F48", "fin")
	}
}

// F5: pings and Close of a consumer that is owed half a frame are answered at
// its end.
func TestControlInMidFrame(t *testing.T) {
	r := newLoopRig(t, bounded(100))
	w := r.subscribe("")
	w.Stall()
	w.Room(100)
	r.publish(3, 5000)
	w.say(clientFrame(relaytest.OpPing, "one"))
	w.say(clientFrame(relaytest.OpPing, strings.Repeat("y", 100)))
	w.Room(5000)
	r.run()
	w.want("F5", "commit=1", "pong one")
	w.say(clientFrame(relaytest.OpClose, "\x03\xe8"))
	w.Room(-1)
	r.run()
	got := w.frames()
	if last := got[len(got)-1]; last != "close 1000 " {
		t.Errorf("F5: %.300q", got)
	}
	w.wantState("F5", "closed")
}

// F49: the consumer's own Close while the error frame waits.
func TestCloseWhileTooSlow(t *testing.T) {
	r := newLoopRig(t, bounded(10))
	w := r.stalledAt1("")
	r.publish(21, 0)
	w.say(clientFrame(relaytest.OpClose, "\x03\xe8"))
	w.Room(-1)
	r.run()
	w.want("F49", list([]string{"pong x"}, tooSlowEnd)...)
	w.wantState("F49", "closed")
}

// A socket that fails in a write, or is gone, is forgotten.
func TestLostSockets(t *testing.T) {
	r := newLoopRig(t, bounded(100))
	w, behind, other := r.subscribe(""), r.subscribe(""), r.subscribe("")
	behind.Stall()
	r.publish(3, 100)
	w.Reset()
	behind.Reset()
	r.put(KindCommit, 0)
	r.run()
	other.want("others", commits(1, 4)...)
	if c := r.surface.Counters(); c.Consumers != 1 {
		t.Errorf("counters %+v", c)
	}
	other.Reset()
	r.run()
	r.released("after all left")
}

// F48: one that leaves in the middle of a pass, before the batch came to it, is
// not made a member of its group again.
func TestDrainInMidPass(t *testing.T) {
	r := newLoopRig(t, bounded(100))
	wires := make([]*wire, 4*lookWrites)
	for i := range wires {
		wires[i] = r.subscribe("")
	}
	r.put(KindCommit, 0)
	r.loops[0].Turn(1)
	g := r.surface.feeds[0].groups[0]
	if g == nil || !g.passing || g.served == 0 || g.served > 2*lookWrites {
		t.Fatalf("no pass is under way: %+v", g)
	}
	r.workers[0].TellPeers(1) // the one that came last
	for r.loops[0].Turn(1) {
	}
	for i, w := range wires {
		w.want(fmt.Sprint("consumer ", i), commits(1, 1)...)
		state := "open"
		if i == len(wires)-1 {
			state = "fin"
		}
		w.wantState(fmt.Sprint("F48: consumer ", i), state)
	}
}
