package firehose

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// only returns the one consumer of loop 0 that is behind.
func (r *loopRig) only() *consumer {
	r.t.Helper()
	if n := len(r.surface.feeds[0].behind); n != 1 {
		r.t.Fatalf("%d consumers are behind, want 1", n)
	}
	return r.surface.feeds[0].behind[0]
}

// stalledAt1 returns a consumer that has yet to send position 1: a pong is owed
// to it. It reads that when it reads again.
func (r *loopRig) stalledAt1(query string) *wire {
	r.t.Helper()
	w := r.subscribe(query)
	w.Stall()
	w.say(clientFrame(relaytest.OpPing, "x"))
	return w
}

// F30, F34: a consumer that takes little is owed one frame at most, the one half
// written, and reads the ring when its socket is ready.
func TestOwesOneFrame(t *testing.T) {
	r := newLoopRig(t, bounded(100))
	w := r.subscribe("")
	w.Stall()
	w.Room(10)
	const size = 1000
	r.publish(20, size)
	const frame = size + 4
	for n := int64(1); n <= 20; n++ {
		c := r.only()
		if owed := c.peer.QueuedBytes(); owed <= 0 || owed > frame {
			t.Fatalf("F34: %d bytes are owed, a frame has %d", owed, frame)
		}
		w.Room(frame)
		r.run()
	}
	w.want("F30", commits(1, 20)...)
	if len(r.surface.feeds[0].behind) != 0 {
		t.Error("it has everything and is not live")
	}
	w.Room(-1)
	r.publish(2, size)
	w.want("live again", commits(21, 22)...)
}

// Every split of the writes gives the same stream.
func TestAnyRoom(t *testing.T) {
	for _, room := range []int{1, 2, 3, 7, 64, 500, 5000} {
		r := newLoopRig(t, bounded(100))
		r.publish(5, 300)
		w := r.subscribe("cursor=0")
		w.Stall()
		r.publish(10, 300)
		for range 20*320/room + 2 {
			w.Room(room)
			r.run()
		}
		r.publish(2, 0)
		for range 2*50/room + 1 {
			w.Room(room)
			r.run()
		}
		w.want("F9", commits(1, 17)...)
	}
}

// F29 to F32, F34, F49, cases 13 and 14: what an open stream has not sent is
// kept up to twice the bound, and it is told when its next frame is gone, not
// before. Others get everything.
func TestTooSlow(t *testing.T) {
	f := func(name string, cfg rigConfig, size int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			cfg.Loops = 2
			r := newLoopRig(t, cfg)
			w, late := r.stalledAt1(""), r.stalledAt1("")
			same, other := r.subscribe("", 0), r.subscribe("", 1)
			r.publish(20, size)
			r.wantHeld("case 13", 20)
			w.Room(-1)
			r.run()
			w.want("case 13", list([]string{"pong x"}, commits(1, 20))...)

			r.publish(1, size)
			r.wantHeld("case 14: frame 1 goes", 20)
			late.want("F34: nothing gets out yet")
			if c := r.surface.Counters(); c.TooSlow != 1 || c.Consumers != 3 {
				t.Errorf("counters %+v", c)
			}
			late.Room(-1)
			r.run()
			late.want("case 14", list([]string{"pong x"}, tooSlowEnd)...)
			late.say(clientFrame(relaytest.OpClose, "\x03\xf0"))
			late.wantState("F49: the peer has answered", "closed")

			r.publish(1, size)
			r.wantHeld("F33: no other is needed", 10)
			w.want("others go on", commits(21, 22)...)
			same.want("others on its loop", commits(1, 22)...)
			other.want("others on another loop", commits(1, 22)...)
		})
	}
	f("frames", bounded(10), 0)
	byBytes := bounded(1000)
	byBytes.Settings.ReplayBytes = 10 * 204
	f("case 16: bytes", byBytes, 200)
}

// F34: the frame that is half written is finished, then the error frame follows.
func TestTooSlowInMidFrame(t *testing.T) {
	r := newLoopRig(t, bounded(10))
	w := r.subscribe("")
	w.Stall()
	w.Room(50)
	r.publish(21, 200) // position 1 is half written, 2 to 21 are held
	w.want("nothing whole yet")
	if r.surface.Counters().TooSlow != 0 {
		t.Error("F32: told before the next frame is gone")
	}
	r.publish(1, 200)
	if r.surface.Counters().TooSlow != 1 {
		t.Error("F32: not told")
	}
	w.Room(-1)
	r.run()
	w.want("F34", list(commits(1, 1), tooSlowEnd)...)
	r.publish(5, 200)
	w.want("F32: nothing after the error")
}

// F34: what does not get out within 5 s is reset.
func TestTooSlowIsReset(t *testing.T) {
	for _, room := range []int{0, 1, 150} {
		r := newLoopRig(t, bounded(10))
		w := r.subscribe("")
		w.Stall()
		w.Room(50)
		r.publish(22, 200)
		w.Room(room)
		r.run()
		r.pass(5*time.Second - step)
		w.wantState("F34: before 5 s", "open")
		r.pass(2 * step)
		w.wantState("F34: after 5 s", "reset")
	}
}

// F33, case 15: when the stalled consumer leaves, what it needed goes at the
// next publish or the next tick.
func TestLeftRing(t *testing.T) {
	leave := map[string]func(*wire){
		"reset": func(w *wire) { w.Reset() },
		"reads": func(w *wire) { w.Room(-1) },
		"close": func(w *wire) { w.send(clientFrame(relaytest.OpClose, "\x03\xe8")) },
	}
	for name, f := range leave {
		for _, tick := range []bool{false, true} {
			r := newLoopRig(t, bounded(10))
			w := r.stalledAt1("")
			r.publish(15, 0)
			r.wantHeld("case 13", 15)
			f(w)
			r.run()
			if tick {
				r.surface.Tick()
			} else {
				r.put(KindCommit, 0)
			}
			r.wantHeld("case 15: "+name, 10)
			r.run()
		}
	}
}

// F33: also when so many are behind that they are not looked at each time.
func TestLeftRingOfMany(t *testing.T) {
	r := newLoopRig(t, bounded(10))
	var stuck []*wire
	for range 2 * sweepAlways {
		stuck = append(stuck, r.stalledAt1(""))
	}
	r.publish(3, 0)
	for _, w := range stuck {
		w.Room(14) // a pong and two frames of 11
	}
	r.run()
	r.publish(12, 0)
	for _, w := range stuck[1:] {
		w.Room(-1)
	}
	r.run()
	r.wantHeld("F31: one still needs them", 15)
	stuck[0].Reset()
	r.run()
	for range 2 { // within a second: Tick is called twice in one
		r.pass(500 * time.Millisecond)
		r.surface.Tick()
		r.run()
	}
	r.wantHeld("F33", 10)
}

// F31: one that joins with an old cursor is seen at once, also when so many are
// behind that they are not looked at each time.
func TestJoinBelowMany(t *testing.T) {
	r := newLoopRig(t, bounded(10))
	r.publish(10, 0)
	for range 2 * sweepAlways {
		r.stalledAt1("")
	}
	r.publish(1, 0)
	r.run()
	r.wantHeld("F29", 10)
	w := r.dial(0)
	w.onWrite = func([]byte) { w.Stall() } // the 101 is not taken
	w.say(handshake("cursor=4"))
	w.onWrite = nil
	r.publish(9, 0)
	r.wantHeld("F31: from 5 on", 16)
	w.Room(-1)
	r.run()
	w.upgraded()
	w.want("F31", commits(5, 20)...)
}

// Batches are bounded in bytes: what does not fit goes into the next one.
func TestLargeFrames(t *testing.T) {
	for _, size := range []int{batchBytes / 3, batchBytes - 100, 3 * batchBytes} {
		r := newLoopRig(t, bounded(100))
		live, some := r.subscribe(""), r.subscribe("exclude=sync")
		for range 5 {
			r.put(KindCommit, size)
			r.put(KindCommit, 0)
			r.put(KindSync, size)
		}
		r.run()
		var all, kept []string
		for n := int64(1); n <= 15; n += 3 {
			kept = append(kept, commits(n, n+1)...)
			all = list(all, commits(n, n+1), names("sync", n+2, n+2))
		}
		live.want("live", all...)
		some.want("without #sync", kept...)
		r.subscribe("cursor=0").want("replay", all...)
		r.subscribe("cursor=0&exclude=sync").want("replay without #sync", kept...)
		f := r.surface.feeds[0]
		buffers := cap(f.batch.memory)
		for _, g := range f.groups {
			buffers += cap(g.batch.memory)
		}
		if most := batchBytes + 100; buffers > 3*2*most { // two groups, and one that replays
			t.Errorf("the loop keeps buffers of %d bytes", buffers)
		}
	}
}

// F29, case 17: a frame larger than the byte bound is held alone, until the next.
func TestOneLargeFrame(t *testing.T) {
	cfg := bounded(10)
	cfg.Settings.ReplayBytes = 1000
	r := newLoopRig(t, cfg)
	r.publish(3, 100)
	r.publish(1, 5000)
	r.wantHeld("case 17", 1)
	w := r.subscribe("cursor=0")
	w.want("case 17", list(outdated, commits(4, 4))...)
	r.publish(1, 10)
	r.wantHeld("case 17: the next", 1)
	w.want("case 17: the next", commits(5, 5)...)
}

// F36, F37, case 18: 1,000 stalled consumers cost nothing but a frame each, and
// the publisher does no work for them.
func TestManyStalled(t *testing.T) {
	const frame = 1004
	r := newLoopRig(t, bounded(10))
	var stuck []*wire
	for range 1000 {
		w := r.subscribe("")
		w.Stall()
		w.Room(10)
		stuck = append(stuck, w)
	}
	r.publish(1, frame-4)
	writes := func() (n int) {
		for _, w := range stuck {
			n += w.Writes
		}
		return n
	}
	before := writes()
	for n := range 20 {
		r.publish(1, frame-4)
		if frames, bytes := r.ring.Held(); frames > 20 || bytes > 20*frame {
			t.Fatalf("F37: after %d frames %d are held, of %d bytes", n+2, frames, bytes)
		}
	}
	for _, c := range r.surface.feeds[0].behind {
		if owed := c.peer.QueuedBytes(); owed > frame {
			t.Fatalf("F37: %d bytes are owed", owed)
		}
	}
	if n := writes() - before; n != 0 {
		t.Errorf("F36: %d writes to sockets that have no room", n)
	}
	r.publish(1, frame-4)
	r.pass(sweepInterval)
	r.surface.Tick()
	r.run()
	if c := r.surface.Counters(); c.TooSlow != 1000 || c.Consumers != 0 {
		t.Errorf("F32: counters %+v", c)
	}
	r.publish(1, 0)
	r.wantHeld("F33", 10)
	r.pass(5*time.Second + step)
	for _, w := range stuck {
		w.wantState("F34", "reset")
	}
}

// F41, case 19: whoever comes after the start gets all boot frames.
func TestBootFrames(t *testing.T) {
	cfg := bounded(10)
	r := newLoopRig(t, rigConfig{Settings: cfg.Settings, Booting: true})
	const count = 100_000
	for range count {
		r.put(KindCommit, 0)
	}
	r.listen()
	w := r.subscribe("cursor=0")
	w.want("case 19", commits(1, count)...)
	r.publish(1, 0)
	w.want("live", commits(count+1, count+1)...)
}

// F31, F38, case 27: a stalled consumer pins nothing that it excludes, and is
// not too slow for it; what it does not exclude is kept for it.
func TestStalledExclude(t *testing.T) {
	r := newLoopRig(t, bounded(10))
	w := r.stalledAt1("exclude=commit")
	replays := r.subscribe("cursor=0&exclude=commit")
	r.publish(5000, 0)
	r.wantHeld("case 27", 10)
	account := r.put(KindAccount, 0)
	r.run()
	r.publish(15, 0)
	r.wantHeld("F31: the account is needed", 16)
	w.Room(-1)
	r.run()
	w.want("case 27", list([]string{"pong x"}, names("account", account, account))...)
	replays.want("case 27: live", names("account", account, account)...)
	r.publish(1, 0)
	r.wantHeld("F33", 10)

	w = r.stalledAt1("exclude=commit")
	r.put(KindAccount, 0)
	r.run()
	r.publish(19, 0)
	r.wantHeld("case 13", 20)
	if r.surface.Counters().TooSlow != 0 {
		t.Error("F32: told too early")
	}
	r.publish(1, 0)
	w.Room(-1)
	r.run()
	w.want("case 14", list([]string{"pong x"}, tooSlowEnd)...)
}

// F38: a consumer that excludes everything never pins a frame, stalled or not.
func TestExcludeAll(t *testing.T) {
	const all = "exclude=commit&exclude=sync&exclude=identity&exclude=account"
	r := newLoopRig(t, bounded(10))
	w, stalled := r.subscribe(all), r.stalledAt1(all)
	for range 100 {
		for _, kind := range []uint8{KindCommit, KindSync, KindIdentity, KindAccount} {
			r.put(kind, 0)
			r.run()
		}
	}
	r.wantHeld("F38", 10)
	stalled.Room(-1)
	r.run()
	stalled.want("F38", "pong x")
	w.want("F38")
	if c := r.surface.Counters(); c.TooSlow != 0 || c.Consumers != 2 {
		t.Errorf("counters %+v", c)
	}
}

// F32: a loop that was overrun between two of its turns ends those only whose
// next frame is gone.
func TestLoopOverrun(t *testing.T) {
	r := newLoopRig(t, bounded(10))
	w, accounts := r.subscribe(""), r.subscribe("exclude=commit")
	for range 30 {
		r.put(KindCommit, 0)
	}
	account := r.put(KindAccount, 0)
	r.run()
	w.want("F32", tooSlowEnd...)
	accounts.want("F4", names("account", account, account)...)
	r.publish(1, 0)
	r.wantHeld("F33", 10)
}

// A turn ends when its time is up, on the loop's clock, and goes on in the next.
func TestTurnBudget(t *testing.T) {
	r := newLoopRig(t, bounded(10_000))
	live, old := r.subscribe(""), (*wire)(nil)
	for range 20 * batchFrames {
		r.put(KindCommit, 0)
	}
	l := r.loops[0]
	old = r.dial(0)
	old.send(handshake("cursor=0"))
	turns := 0
	for l.Turn(1) {
		turns++
	}
	if turns < 20 {
		t.Errorf("20 batches took %d turns without time", turns)
	}
	live.want("live", commits(1, 20*batchFrames)...)
	old.upgraded()
	old.want("replay", commits(1, 20*batchFrames)...)

	for range 20 * batchFrames {
		r.put(KindCommit, 0)
	}
	if l.Turn(1000); len(live.frames()) != 20*batchFrames {
		t.Error("a turn with time left was ended")
	}
}

// A pass that takes longer than the loop's turn goes on in the next: the loop sees
// to others in between, and who joins, leaves or stalls in the middle of it still
// gets each frame once.
func TestPassGoesOn(t *testing.T) {
	r := newLoopRig(t, bounded(10_000))
	random := rand.New(rand.NewPCG(1, 2))
	var all []*wire
	from := map[*wire]int64{} // its cursor
	for range 300 {
		all = append(all, r.subscribe(""))
	}
	const frames = 60
	turns := 0
	for n := int64(1); n <= frames; n++ {
		r.put(KindCommit, 10)
		for l := r.loops[0]; l.Turn(4) && turns < 10_000; turns++ {
			w := all[random.IntN(len(all))]
			switch random.IntN(4) {
			case 0:
				w.Reset()
			case 1:
				w.Stall()
				w.Room(random.IntN(40))
			case 2:
				w.Room(-1)
			default: // no turn between what it sends and the next one
				w := &wire{r: r}
				w.Socket = l.NewSocket(simloop.Unlimited, w)
				w.Handler = r.workers[0].Accept(w)
				r.wires, all = append(r.wires, w), append(all, w)
				from[w] = random.Int64N(n) + 1
				w.send(handshake(fmt.Sprintf("cursor=%d", from[w])))
			}
			l.Poll()
		}
	}
	if turns < 5*frames {
		t.Errorf("%d turns for %d frames: no pass was cut", turns, frames)
	}
	for _, w := range all {
		w.Room(-1)
	}
	r.run()
	for i, w := range all {
		if w.Gone() {
			continue
		}
		if from[w] > 0 {
			w.upgraded()
		}
		w.want(fmt.Sprintf("consumer %d", i), commits(from[w]+1, frames)...)
	}
}
