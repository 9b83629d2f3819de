package serve

import (
	"strings"
	"testing"
	"time"
)

// tick is the wheel's resolution and something: a deadline has passed then.
const tick = 100 * time.Millisecond

const (
	headTimeout = "Request Timeout request head took too long\n (close)|"
	bodyTimeout = "Request Timeout request body took too long\n (close)|"
)

// TestR47HeadDeadline: a head has 10 s from its first octet, however many
// follow; then it is answered with 408 and closed.
func TestR47HeadDeadline(t *testing.T) {
	r := newRig(t, &app{})
	s, other := r.dial(), r.dial()
	r.pass(seconds(20)) // time before the first octet does not count
	s.send("G")
	for i := range 9 {
		r.pass(seconds(1))
		s.send("ET /now HT"[i : i+1])
		other.send(get("/now"))
	}
	r.pass(seconds(1) - tick)
	s.wantAnswers("")
	s.wantState("open")
	r.pass(2 * tick)
	s.wantAnswers(headTimeout)
	s.wantState("fin")
	s.send("TP/1.1\r\nHost: x\r\n\r\n")
	s.wantAnswers("")
	other.wantState("open")
	if got := timedOut(r); got != 1 {
		t.Errorf("TimedOut is %d, want 1", got)
	}
	r.pass(LingerTimeout + tick)
	s.wantState("closed")
}

// TestR47HeadInTime: a head that is complete in time is served, and the next
// head has its own 10 s.
func TestR47HeadInTime(t *testing.T) {
	r := newRig(t, &app{})
	s := r.dial()
	in := get("/now")
	for range 3 {
		s.send(in[:5])
		r.pass(seconds(9))
		s.send(in[5:])
		s.wantAnswers("OK /now|")
		r.pass(seconds(9))
	}
	s.send(get("/now") + in[:5]) // the rest of a read begins a head as well
	s.wantAnswers("OK /now|")
	r.pass(HeadTimeout + tick)
	s.wantAnswers(headTimeout)
}

// TestHeadBehindKeptAnswer: a head that waits behind an unfinished answer is
// not in a hurry: its time begins when its turn comes.
func TestHeadBehindKeptAnswer(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/later") + "GET /n")
	r.pass(seconds(60))
	reply(a.kept[0], 200, "")
	s.wantAnswers("OK|")
	r.pass(HeadTimeout - tick)
	s.wantState("open")
	r.pass(2 * tick)
	s.wantAnswers(headTimeout)
}

// TestC16FirstAndIdle: a connection without a request is closed after 30 s, one
// between requests after 75 s.
func TestC16FirstAndIdle(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	silent, blank, used, waiting, replay := r.dial(), r.dial(), r.dial(), r.dial(), r.dial()
	blank.send("\r\n")
	used.send(get("/now"))
	waiting.send(get("/later"))
	replay.send(get("/replay"))
	r.pass(FirstTimeout - tick)
	silent.wantState("open")
	blank.wantState("open")
	r.pass(2 * tick)
	silent.wantState("closed")
	blank.wantState("closed")
	a.last().peer.EndStream()
	r.pass(IdleTimeout - FirstTimeout - 2*tick)
	used.wantState("open")
	r.pass(2 * tick)
	used.wantState("closed")
	replay.wantState("open")
	waiting.wantState("open") // its answer is owed by the relay
	r.pass(seconds(31))
	replay.wantState("closed")
	if got := timedOut(r); got != 4 {
		t.Errorf("TimedOut is %d, want 4", got)
	}
	reply(a.kept[0], 200, "")
	r.pass(IdleTimeout - tick)
	waiting.wantState("open")
	r.pass(2 * tick)
	waiting.wantState("closed")
}

// TestIdleStartsAnew: each request starts the idle time anew.
func TestIdleStartsAnew(t *testing.T) {
	r := newRig(t, &app{})
	s := r.dial()
	for range 4 {
		s.send(get("/now"))
		r.pass(IdleTimeout - seconds(5))
		s.wantState("open")
	}
}

// TestIdleWhileReadingAnswer: a peer that reads a long answer slowly is not
// idle.
func TestIdleWhileReadingAnswer(t *testing.T) {
	r := newRig(t, &app{})
	s := r.dial()
	s.room = 0
	s.send(get("/big"))
	for range 20 {
		r.pass(seconds(10))
		s.take(bigAnswerBytes / 25)
		s.wantState("open")
	}
	s.takeAll()
	if list := s.answers(); len(list) != 1 || len(list[0].body) != bigAnswerBytes {
		t.Errorf("%d answers", len(list))
	}
	r.pass(2*IdleTimeout + tick)
	s.wantState("closed")
}

// TestC16BodyRate: a body has to come with 4 KiB each 10 s at least.
func TestC16BodyRate(t *testing.T) {
	const head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
	a := &app{}
	r := newRig(t, a)
	slow, trickle, silent := r.dial(), r.dial(), r.dial()
	slow.send(head)
	trickle.send(head)
	silent.send(head)
	for i := range 10 {
		r.pass(seconds(1))
		slow.send(strings.Repeat("s", 500))
		if i < 9 {
			trickle.send("t")
		}
	}
	r.pass(tick)
	slow.wantState("open")
	trickle.wantAnswers(bodyTimeout)
	silent.wantAnswers(bodyTimeout)
	for range 200 - 10 {
		r.pass(seconds(1))
		slow.send(strings.Repeat("s", 500))
	}
	if list := slow.answers(); len(list) != 1 || len(list[0].body) != 100000 {
		t.Errorf("%d answers to a slow but sufficient body", len(list))
	}
	for i, b := range a.bodies {
		if b.done != 1 {
			t.Errorf("Done of body %d was called %d times", i, b.done)
		}
	}
}

// TestBodyRateOfAnswered: a body that is only dropped must come as fast, and
// gets no second answer.
func TestBodyRateOfAnswered(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, kept := r.dial(), r.dial()
	s.send("POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx")
	kept.send("POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx")
	s.wantAnswers("Unauthorized|")
	r.pass(BodyWindow + tick)
	s.wantAnswers("")
	s.wantState("fin")
	kept.wantAnswers(bodyTimeout)
	reply(a.kept[0], 200, "late")
	kept.wantAnswers("")
}

// TestBodyCompleteInTime: the watch ends with the body.
func TestBodyCompleteInTime(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(post("/later", "small"))
	r.pass(seconds(300))
	s.wantState("open")
	reply(a.kept[0], 200, "")
	s.wantAnswers("OK|")
}

// TestFlushPatience: a connection that is to be closed may take its time with
// the answer while it reads; one that does not is reset.
func TestFlushPatience(t *testing.T) {
	const in = "GET /big HTTP/1.0\r\n\r\n"
	r := newRig(t, &app{})
	slow, dead := r.dial(), r.dial()
	slow.room, dead.room = 0, 0
	slow.send(in)
	dead.send(in)
	r.pass(FlushTimeout - tick)
	dead.wantState("open")
	slow.take(1000)
	r.pass(2 * tick)
	dead.wantState("reset")
	for range 20 {
		r.pass(seconds(9))
		slow.take(10000)
		slow.wantState("open")
	}
	slow.takeAll()
	slow.wantState("fin")
	if list := slow.answers(); len(list) != 1 || len(list[0].body) != bigAnswerBytes {
		t.Errorf("%d answers", len(list))
	}
	r.pass(LingerTimeout + tick)
	slow.wantState("closed")
}

// TestLateWritability: what a kernel takes without saying so is written within
// RetryInterval, and the connection goes on.
func TestLateWritability(t *testing.T) {
	r := newRig(t, &app{})
	s := r.dial()
	s.room = 0
	s.send(get("/now") + get("/now?2"))
	s.room = -1 // no OnWritable
	s.wantAnswers("")
	r.pass(RetryInterval + tick)
	s.wantAnswers("OK /now|OK /now?2|")
}

// TestLateWritabilityOfLast: before a connection that is to be closed is given
// up, a plain write is tried.
func TestLateWritabilityOfLast(t *testing.T) {
	r := newRig(t, &app{})
	s := r.dial()
	s.room = 0
	s.send(get("/now"))
	r.pass(seconds(5))
	s.send(get("/close"))
	r.pass(seconds(7)) // the retry at 10 s found no room
	s.room = -1        // no OnWritable
	s.wantAnswers("")
	r.pass(seconds(3) + tick)
	s.wantAnswers("OK /now|OK /close (close)|")
	s.wantState("fin")
}

// timedOut counts the connections that were ended for taking too long.
func timedOut(r *rig) int64 {
	s := r.worker.Stats()
	return s.HeadTimeouts + s.BodyTimeouts + s.IdleTimeouts
}
