package aepws

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// testPolicy: ack timeout 1 s, back-off 1 s, 2 s, ..., three attempts.
func testPolicy() retryPolicy {
	return retryPolicy{
		ackTimeout: time.Second, backoff: time.Second, multiplier: 2, maxBackoff: 30 * time.Second,
		attempts: 3, unacked: 1000,
	}
}

func newPlan(t testing.TB, p retryPolicy) *retryPlan {
	t.Helper()
	plan, err := newRetryPlan(p)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestRetryPlan: the rows of section 1, what is refused, and the largest waits.
func TestRetryPlan(t *testing.T) {
	delays := func(name string, change func(*retryPolicy), want ...time.Duration) {
		t.Helper()
		p := testPolicy()
		change(&p)
		plan := newPlan(t, p)
		for n, d := range want {
			if got := time.Duration(plan.delays[n+1]) * dueTick; got != d {
				t.Errorf("%s: %v after sending %d, want %v", name, got, n+1, d)
			}
		}
	}
	delays("B58 default shape", func(*retryPolicy) {}, 2*time.Second, 3*time.Second, time.Second)
	delays("one attempt", func(p *retryPolicy) { p.attempts = 1 }, time.Second)
	delays("largest backoff", func(p *retryPolicy) { p.attempts, p.maxBackoff = 5, 3*time.Second },
		2*time.Second, 3*time.Second, 4*time.Second, 4*time.Second, time.Second)
	delays("no backoff", func(p *retryPolicy) { p.backoff = 0 }, time.Second, time.Second, time.Second)
	delays("no largest backoff", func(p *retryPolicy) { p.maxBackoff = 0 }, time.Second, time.Second, time.Second)
	delays("fraction", func(p *retryPolicy) { p.multiplier = 1.5 }, 2*time.Second, 2500*time.Millisecond, time.Second)
	delays("never early", func(p *retryPolicy) { p.ackTimeout, p.attempts = 1, 1 }, dueTick)
	delays("all at their largest", func(p *retryPolicy) {
		*p = retryPolicy{maxRetryWait, maxRetryWait, 1000, maxRetryWait, maxAttempts, maxUnackedLimit}
	}, 48*time.Hour, 48*time.Hour)

	refused := func(name string, change func(*retryPolicy)) {
		t.Helper()
		p := testPolicy()
		change(&p)
		if plan, err := newRetryPlan(p); err == nil || plan != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	refused("ack timeout", func(p *retryPolicy) { p.ackTimeout = 0 })
	refused("ack timeout", func(p *retryPolicy) { p.ackTimeout = maxRetryWait + 1 })
	refused("backoff", func(p *retryPolicy) { p.backoff = -1 })
	refused("backoff", func(p *retryPolicy) { p.backoff = maxRetryWait + 1 })
	refused("largest backoff", func(p *retryPolicy) { p.maxBackoff = -1 })
	refused("multiplier", func(p *retryPolicy) { p.multiplier = 0.9 })
	refused("multiplier", func(p *retryPolicy) { p.multiplier = math.NaN() })
	refused("multiplier", func(p *retryPolicy) { p.multiplier = math.Inf(1) })
	refused("attempts", func(p *retryPolicy) { p.attempts = 0 })
	refused("attempts", func(p *retryPolicy) { p.attempts = maxAttempts + 1 })
	refused("unacknowledged", func(p *retryPolicy) { p.unacked = 0 })
	refused("unacknowledged", func(p *retryPolicy) { p.unacked = maxUnackedLimit + 1 })
}

// windowScripts are B57 to B60. A line is "@ms command args -> answer"; the id of
// event n is n unless given as n/id.
var windowScripts = []struct {
	name, script string
	change       func(*retryPolicy)
}{
	{name: "B58 hard case 37: three sendings, then a dead letter", script: `
		@0 sent 1 -> ok
		@0 next -> 2000
		@1999 due -> 
		@2000 due -> 1#2
		@2000 due -> 
		@2000 next -> 5000
		@5000 due -> 1#3
		@5000 next -> 6000
		@5999 due -> 
		@6000 due -> 1 dead after 3 at 5000
		@6000 next -> never
		@9000 due -> 
		@9000 ack 1 -> ignored`},
	{name: "B58 acknowledged in time", script: `
		@0 sent 1 -> ok
		@900 ack 1 -> ok
		@900 next -> never
		@9000 due -> `},
	{name: "B58 acknowledged during the back-off", script: `
		@0 sent 1 -> ok
		@1500 ack 1 -> ok
		@9000 due -> `},
	{name: "B58 acknowledged after a redelivery", script: `
		@0 sent 1 -> ok
		@2000 due -> 1#2
		@2100 ack 1 -> ok
		@9000 due -> `},
	{name: "B59 twice, late, unknown", script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@0 ack 7 -> ignored
		@0 ack 1 -> ok
		@0 ack 1 -> ignored
		@0 count -> 1`},
	{name: "B58 rejected: final at once", script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@100 reject 1 -> dead after 1 at 0
		@100 reject 1 -> ignored
		@100 ack 1 -> ignored
		@2000 due -> 2#2
		@2100 reject 2 -> dead after 2 at 2000
		@9000 due -> `},
	{name: "B58 one dead letter a second", script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@0 sent 3 -> ok
		@0 sent 4 -> ok
		@100 reject 1 -> dead after 1 at 0
		@1099 reject 2 -> counted
		@1100 reject 3 -> dead after 1 at 0
		@1100 unmade -> 1
		@2000 due -> 4#2`},
	{
		name: "B58 the dead letters of one moment", change: func(p *retryPolicy) { p.attempts = 1 }, script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@0 sent 3 -> ok
		@1000 due -> 1 dead after 1 at 0
		@1000 unmade -> 2
		@1000 count -> 0`,
	},
	{name: "order of attempts, each due in its own time", script: `
		@0 sent 1 -> ok
		@1000 sent 2 -> ok
		@1000 sent 3 -> ok
		@2000 due -> 1#2
		@2000 next -> 3000
		@3000 due -> 2#2 3#2
		@3000 sent 4 -> ok
		@5000 due -> 1#3 4#2
		@6000 due -> 1 dead after 3 at 5000, 2#3 3#3
		@7000 due -> 2 dead after 3 at 6000
		@7000 unmade -> 1
		@8000 due -> 4#3
		@8000 count -> 1`},
	{name: "a short list takes the rest later", script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@0 sent 3 -> ok
		@2000 due2 -> 1#2 2#2
		@2000 next -> 2000
		@2000 due2 -> 3#2
		@2000 next -> 5000`},
	{name: "B57 ids are unique for one source only", script: `
		@0 sent 1/7 -> ok
		@0 sent 2/7 -> ok
		@0 sent 3/8 -> ok
		@0 ack 2/7 -> ok
		@0 ack 2/7 -> ignored
		@0 ack 3/7 -> ignored
		@0 ack 0/7 -> ok
		@0 ack 0/7 -> ignored
		@0 count -> 1`},
	{name: "B58 without a cursor the oldest of an id", script: `
		@0 sent 1/7 -> ok
		@0 sent 2/7 -> ok
		@0 ack 0/7 -> ok
		@2000 due -> 2#2`},
	{name: "an event between two attempts goes", script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@0 sent 4 -> ok
		@100 sent 5 -> ok
		@2000 due -> 1#2 2#2 4#2
		@2000 ack 4 -> ok
		@2000 ack 1 -> ok
		@2100 due -> 5#2
		@2100 ack 2 -> ok
		@2100 reject 5 -> dead after 2 at 2100
		@2100 next -> never`},
	{
		name: "B60 pauses when full, goes on after an acknowledgement", change: func(p *retryPolicy) { p.unacked = 2 }, script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@0 sent 3 -> too many unacknowledged events
		@0 ack 2 -> ok
		@0 sent 3 -> ok
		@2000 due -> 1#2 3#2
		@2000 sent 4 -> too many unacknowledged events`,
	},
	{name: "numbers ascend", script: `
		@0 sent 5 -> ok
		@0 sent 5 -> number does not come after the last one sent
		@0 sent 4 -> number does not come after the last one sent
		@0 sent 0 -> number does not come after the last one sent
		@0 count -> 1`},
	{name: "B53, B54 the end", script: `
		@0 sent 1 -> ok
		@0 sent 2 -> ok
		@0 end -> 
		@0 count -> 0
		@0 next -> never
		@9000 due -> 
		@9000 ack 1 -> ignored
		@9000 reject 2 -> ignored
		@9000 sent 3 -> subscription has ended
		@9000 end -> `},
	{name: "time that runs back stands still", script: `
		@5000 sent 1 -> ok
		@100 sent 2 -> ok
		@100 next -> 7000
		@7000 due -> 1#2 2#2
		@0 reject 1 -> dead after 2 at 7000`},
}

// TestWindowScripts plays B57 to B60 on a window.
func TestWindowScripts(t *testing.T) {
	for _, c := range windowScripts {
		t.Run(c.name, func(t *testing.T) {
			p := testPolicy()
			if c.change != nil {
				c.change(&p)
			}
			w := newWindow(newBudget(newPlan(t, p)))
			for line := range strings.Lines(c.script) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				command, want, _ := strings.Cut(line, "->")
				if got := windowCommand(t, w, command); got != strings.TrimSpace(want) {
					t.Errorf("%s\n got %s", line, got)
				}
				checkWindows(t, "script", w.budget, w)
			}
		})
	}
}

// windowCommand runs one line of a script.
func windowCommand(t *testing.T, w *window, command string) string {
	t.Helper()
	var ms, number int64
	var id uint64
	words := strings.Fields(command)
	if _, err := fmt.Sscanf(words[0], "@%d", &ms); err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	now := time.Duration(ms) * time.Millisecond
	if len(words) > 2 {
		if n, _ := fmt.Sscanf(words[2], "%d/%d", &number, &id); n == 1 {
			id = uint64(number)
		}
	}
	switch words[1] {
	case "sent":
		if err := w.sent(number, id, now); err != nil {
			return err.Error()
		}
	case "ack":
		if !w.ack(id, number) {
			return "ignored"
		}
	case "reject":
		switch o, found, made := w.reject(id, number, now); {
		case !found:
			return "ignored"
		case !made:
			return "counted"
		default:
			return fmt.Sprintf("dead after %d at %d", o.attempt, o.sentAt.Milliseconds())
		}
	case "due":
		return overdueText(w.due(now, make([]overdue, 0, 16)))
	case "due2":
		return overdueText(w.due(now, make([]overdue, 0, 2)))
	case "next":
		if at, ok := w.next(); ok {
			return fmt.Sprint(at.Milliseconds())
		}
		return "never"
	case "count":
		return fmt.Sprint(w.count)
	case "unmade":
		return fmt.Sprint(w.unmade)
	case "end":
		w.end()
		return ""
	default:
		t.Fatalf("%q", command)
	}
	return "ok"
}

func overdueText(list []overdue) string {
	var b strings.Builder
	for i, o := range list {
		if i > 0 && list[i-1].dead {
			b.WriteByte(',')
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if o.dead {
			fmt.Fprintf(&b, "%d dead after %d at %d", o.number, o.attempt, o.sentAt.Milliseconds())
		} else {
			fmt.Fprintf(&b, "%d#%d", o.number, o.attempt)
		}
	}
	return b.String()
}

// TestBudgetBound: W2, windows share the bound, memory too, and give it back.
func TestBudgetBound(t *testing.T) {
	for _, limit := range []int{1, 15, 16, 17, 1000, maxUnackedLimit} {
		p := testPolicy()
		p.unacked = limit
		b := newBudget(newPlan(t, p))
		windows := []*window{newWindow(b), newWindow(b), newWindow(b)}
		for round := range 3 {
			base := int64(round) * int64(limit)
			for n := 1; n <= limit; n++ {
				if err := windows[n%3].sent(base+int64(n), uint64(n), 0); err != nil {
					t.Fatalf("limit %d: event %d: %v", limit, n, err)
				}
			}
			for i, w := range windows {
				if err := w.sent(math.MaxInt64, 1, 0); !errors.Is(err, errWindowFull) {
					t.Fatalf("limit %d: window %d takes one more: %v", limit, i, err)
				}
			}
			if !b.full() || b.used != limit || cap(b.slots) > limit {
				t.Fatalf("limit %d: %d used, room for %d", limit, b.used, cap(b.slots))
			}
			for n := limit; n >= 1; n -= 2 { // newest first
				if w := windows[n%3]; !w.ack(uint64(n), base+int64(n)) && n > limit-200 {
					t.Fatalf("limit %d: no %d", limit, n)
				}
				if n < limit-200 {
					break
				}
			}
			windows[0].end()
			windows[0] = newWindow(b)
			for b.used > 0 { // oldest first
				for _, w := range windows {
					if w.head != 0 {
						w.ack(w.key(b.at(w.head).key), 0)
					}
				}
			}
			b.trim()
			if b.full() || cap(b.slots) != 0 {
				t.Fatalf("limit %d: room for %d after trim", limit, cap(b.slots))
			}
		}
	}
	b := newBudget(newPlan(t, testPolicy()))
	w := newWindow(b)
	_ = w.sent(1, 1, 0)
	if b.trim(); !w.ack(1, 0) {
		t.Error("trim took what is unacknowledged")
	}
}
