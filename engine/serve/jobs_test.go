package serve

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/engine/loop"
)

// newJobRig is a rig with a pool of two goroutines and room for waiting more.
func newJobRig(t *testing.T, a *app, waiting int) *rig {
	return newRigConfig(t, Config{Handler: a, Budget: NewBudget(64 << 20), Jobs: loop.NewJobs(2, waiting)})
}

// answered tells whether the socket got n answers so far.
func (s *sock) answered(n int) func() bool {
	return func() bool { return strings.Count(s.text(), "HTTP/1.1 ") >= n }
}

// TestGoKeepsOrder: an answer that a job finds leaves in request order (R49).
func TestGoKeepsOrder(t *testing.T) {
	a := &app{}
	r := newJobRig(t, a, 4)
	s := r.dial()
	s.send(get("/job?1") + get("/now?2") + get("/job?3") + get("/now?4"))
	s.wantAnswers("")
	close(a.jobs[0])
	r.await("the first job", s.answered(2))
	s.wantAnswers("OK /job?1|OK /now?2|")
	s.send(get("/now?5"))
	close(a.jobs[1])
	r.await("the second job", s.answered(5))
	s.wantAnswers("OK /job?3|OK /now?4|OK /now?5|")
}

// TestGoTwoConnections: jobs of two connections end in any order.
func TestGoTwoConnections(t *testing.T) {
	a := &app{}
	r := newJobRig(t, a, 4)
	one, two := r.dial(), r.dial()
	one.send(get("/job?one"))
	two.send(get("/job?two"))
	close(a.jobs[1])
	r.await("the second connection's job", two.answered(1))
	two.wantAnswers("OK /job?two|")
	one.wantAnswers("")
	close(a.jobs[0])
	r.await("the first connection's job", one.answered(1))
	one.wantAnswers("OK /job?one|")
}

// TestGoStaleCompletion: the result for a connection that is gone is dropped,
// also when a new connection has taken its place.
func TestGoStaleCompletion(t *testing.T) {
	a := &app{}
	r := newJobRig(t, a, 4)
	s := r.dial()
	s.send(get("/job?lost") + get("/now"))
	s.hangUp()
	next := r.dial()
	next.send(get("/job?kept"))
	close(a.jobs[0])
	close(a.jobs[1])
	r.await("the live job", next.answered(1))
	next.wantAnswers("OK /job?kept|")
	r.jobs.Close()
	r.run()
	s.wantAnswers("")
	next.wantAnswers("")
}

// TestGoFull: a pool that takes no more says so, and the handler can answer.
func TestGoFull(t *testing.T) {
	a := &app{}
	r := newJobRig(t, a, 0)
	r.jobs.Close()
	s := r.dial()
	s.send(get("/job") + get("/now"))
	s.wantAnswers("Service Unavailable|OK /now|")

	none := newRig(t, a)
	s = none.dial()
	s.send(get("/job"))
	s.wantAnswers("Service Unavailable|")
}

// TestGoPanics: a panic in the work or in the answer ends that connection alone
// (R14).
func TestGoPanics(t *testing.T) {
	for name, work := range map[string]func() func(*Exchange){
		"work":      func() func(*Exchange) { panic("work") },
		"answer":    func() func(*Exchange) { return func(*Exchange) { panic("answer") } },
		"no answer": func() func(*Exchange) { return nil },
		"after answer": func() func(*Exchange) {
			return func(x *Exchange) { reply(x, 200, ""); panic("late") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{}
			a.extra = map[string]func(*Exchange){"/bad": func(x *Exchange) {
				if err := x.Go(work); err != nil {
					t.Error(err)
				}
			}}
			r := newJobRig(t, a, 4)
			r.faults = 1
			s, other := r.dial(), r.dial()
			s.send(post("/bad", "") + get("/now"))
			r.await("the end of the connection", func() bool { return s.ended })
			s.wantState("reset")
			other.send(get("/now"))
			other.wantAnswers("OK /now|")
		})
	}
}
