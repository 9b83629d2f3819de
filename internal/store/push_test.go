package store

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
)

// Cases 1, 2, 3, 10, 16 and 20; S22, S27, S32.
func TestPushAndPull(t *testing.T) {
	s := open(t)
	push(t, s, alice, 0, 0) // case 10
	if got, next := pulled(t, s, alice, 0, 10); len(got) != 0 || next != 0 {
		t.Fatalf("case 16: %v, %d", got, next)
	}
	three := []Event{ev("1", "s"), ev("2", ""), ev("3", "s")}
	push(t, s, alice, 3, 0, three...)
	before := status(t, s, alice)
	push(t, s, alice, 0, 3, three...)
	if got := status(t, s, alice); got != before || got.UsedBytes != 300 || got.Streams != 1 || got.Events != 3 || got.HeadSeq != 3 {
		t.Fatalf("case 1: %+v after %+v", got, before)
	}
	twice := []Event{sized("4", "", 50), sized("4", "", 60)}
	push(t, s, alice, 1, 1, twice...) // case 2
	push(t, s, alice, 0, 1, sized("4", "", 70))
	got, next := pulled(t, s, alice, 3, 10)
	if len(got) != 1 || got[0] != string(twice[0].Envelope) || next != 4 {
		t.Fatalf("case 3: %q, %d", got, next)
	}
	if got, next := pulled(t, s, alice, 999_999, 10); len(got) != 0 || next != 999_999 {
		t.Fatalf("case 20: %v, %d", got, next)
	}
	if got, _ := pulled(t, s, alice, 1, 10); len(got) != 3 {
		t.Fatalf("case 20: after 1: %v", got)
	}
	check(t, s)
}

// Case 12, S13, S15, S16: who may do what.
func TestAuthorization(t *testing.T) {
	s := open(t, func(c *Config) { c.Owners = 1 })
	wantErr(t, "admit unknown", s.Admit(alice), nil)
	_, err := s.Pull(Pull{Auth: alice, Limit: 1}, nil)
	wantErr(t, "pull unknown", err, ErrUnknownOwner)
	_, err = s.CloseOwner(alice)
	wantErr(t, "close unknown", err, ErrUnknownOwner)
	_, err = s.CompactStreams(alice, []string{"s"})
	wantErr(t, "compact unknown", err, ErrUnknownOwner)
	wantErr(t, "nobody was registered", s.Authorize(alice), ErrUnknownOwner)
	push(t, s, alice, 1, 0, ev("1", ""))
	stranger := Auth{alice.Owner, "other"}
	wantErr(t, "authorize", s.Authorize(stranger), ErrUnauthorized)
	wantErr(t, "admit", s.Admit(stranger), ErrUnauthorized)
	_, err = s.Push(pushOf(stranger, ev("2", "")))
	wantErr(t, "push", err, ErrUnauthorized)
	_, err = s.PutBlob(stranger, "h", nil)
	wantErr(t, "blob", err, ErrUnauthorized)
	_, err = s.CloseOwner(stranger)
	wantErr(t, "close", err, ErrUnauthorized)
	_, err = s.Status(stranger)
	wantErr(t, "status", err, ErrUnauthorized)
	// S44: a closed owner still counts toward the limit.
	wantErr(t, "admit beyond the limit", s.Admit(bob), ErrOwnerLimit)
	if _, err := s.CloseOwner(alice); err != nil {
		t.Fatal(err)
	}
	_, err = s.Push(pushOf(bob, ev("1", "")))
	wantErr(t, "push beyond the limit", err, ErrOwnerLimit)
	_, err = s.PutBlob(bob, "h", []byte("x"))
	wantErr(t, "blob beyond the limit", err, ErrOwnerLimit)
	check(t, s)
}

// Case 9, S14: of two first pushes with different tokens one registers.
func TestFirstPushRace(t *testing.T) {
	s := open(t)
	for range 20 {
		var wg sync.WaitGroup
		errs := make([]error, 2)
		auths := []Auth{{alice.Owner, "A"}, {alice.Owner, "B"}}
		for i, auth := range auths {
			wg.Go(func() { _, errs[i] = s.Push(pushOf(auth)) })
		}
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		wantErr(t, "winner", errs[winner], nil)
		wantErr(t, "loser", errs[1-winner], ErrUnauthorized)
		wantErr(t, "loser after", s.Authorize(auths[1-winner]), ErrUnauthorized)
	}
}

// Case 5, S14, S21: a push that fails while it is read stores nothing and
// registers nobody.
func TestPushFailsWhole(t *testing.T) {
	s := open(t)
	broken := errors.New("spool")
	p := pushOf(alice)
	p.Events = func(yield func(Event, error) bool) {
		if yield(ev("1", "s"), nil) {
			yield(Event{}, broken)
		}
	}
	_, err := s.Push(p)
	wantErr(t, "push", err, broken)
	p.Events = func(yield func(Event, error) bool) {
		yield(ev("1", "s"), nil)
		panic("reader")
	}
	if _, err = s.Push(p); err == nil || !strings.Contains(err.Error(), "reader") {
		t.Fatalf("panic: %v", err)
	}
	wantErr(t, "owner", s.Authorize(alice), ErrUnknownOwner)
	push(t, s, bob, 1, 0, ev("1", "s"))
	if head := status(t, s, bob).HeadSeq; head != 1 {
		t.Fatalf("a rolled back number was used up: head %d", head)
	}
	check(t, s)
}

// Case 11, S23: the quota counts new events only.
func TestQuota(t *testing.T) {
	s := open(t, func(c *Config) { c.OwnerBytes = 1000 })
	_, err := s.Push(pushOf(alice, sized("big", "", 1001)))
	wantErr(t, "first push over the quota", err, ErrQuota)
	wantErr(t, "nobody registered", s.Authorize(alice), ErrUnknownOwner)
	stored := sized("1", "", 990)
	push(t, s, alice, 1, 0, stored)
	before := status(t, s, alice)
	_, err = s.Push(pushOf(alice, stored, sized("2", "", 500)))
	wantErr(t, "over", err, ErrQuota)
	_, err = s.PutBlob(alice, "h", make([]byte, 11))
	wantErr(t, "blob over", err, ErrQuota)
	if got := status(t, s, alice); got != before {
		t.Fatalf("%+v, was %+v", got, before)
	}
	push(t, s, alice, 0, 1, stored)
	push(t, s, alice, 1, 0, sized("3", "", 10))
	check(t, s)
}

// S23a: the owner is compacted before it is refused; others are not touched.
func TestQuotaCompactsFirst(t *testing.T) {
	n := int64(scale(1250))
	s := open(t, func(c *Config) { c.OwnerBytes = 400 * 4 * n })
	for i := range 4 {
		push(t, s, alice, int(n), 0, sizedAll(ids(string(rune('a'+i)), int(n), "s"), 400)...)
	}
	push(t, s, bob, 2, 0, ev("1", "s"), ev("2", "s"))
	push(t, s, alice, 1, 0, sized("e", "other", 400))
	if st := status(t, s, alice); st.Events != 2 || st.UsedBytes != 800 || st.Streams != 2 {
		t.Fatalf("%+v", st)
	}
	if st := status(t, s, bob); st.Events != 2 {
		t.Fatalf("bob was compacted: %+v", st)
	}
	// What does not fit a compacted owner is refused, again and again.
	for range 3 {
		_, err := s.PutBlob(alice, "h", make([]byte, 400*4*n))
		wantErr(t, "too large for ever", err, ErrQuota)
	}
	check(t, s)
}

func sizedAll(events []Event, n int) []Event {
	for i, e := range events {
		events[i] = sized(e.ID, e.Stream, n)
	}
	return events
}

// Case 44: the relay is full of others' data.
func TestRelayFull(t *testing.T) {
	s := open(t, func(c *Config) { c.TotalBytes = 500 })
	push(t, s, alice, 1, 0, sized("1", "", 300))
	push(t, s, bob, 1, 0, sized("1", "", 200))
	_, err := s.Push(pushOf(bob, sized("2", "", 1)))
	wantErr(t, "event", err, ErrRelayFull)
	_, err = s.PutBlob(bob, "h", []byte("x"))
	wantErr(t, "blob", err, ErrRelayFull)
	push(t, s, bob, 0, 1, sized("1", "", 200))
	if _, err := s.CloseOwner(alice); err != nil {
		t.Fatal(err)
	}
	push(t, s, bob, 1, 0, sized("2", "", 300)) // S44: a closed owner counts no bytes
	check(t, s)
}

// S36: a page ends past the sum of bytes, never before its first event; S32.
func TestPageBounds(t *testing.T) {
	s := open(t, func(c *Config) { c.PullBytes = 250 })
	push(t, s, alice, 10, 0, ids("e", 10, "")...)
	var all []string
	var after int64
	for {
		got, next := pulled(t, s, alice, after, 100)
		if next == after {
			break
		}
		if len(got) > 3 {
			t.Fatalf("a page of %d", len(got))
		}
		all, after = append(all, got...), next
	}
	if len(all) != 10 {
		t.Fatalf("drained %d", len(all))
	}
	if got, _ := pulled(t, s, alice, 0, 1); len(got) != 1 {
		t.Fatalf("limit 1 gave %d", len(got))
	}
	_, err := s.Pull(Pull{Auth: alice, After: math.MaxInt64, Limit: 1}, nil)
	wantErr(t, "beyond 2^63", err, ErrStaleCursor)
}

// Case 15: a drain with limit 1 during pushes sees every event once, ascending.
func TestDrainWhilePushing(t *testing.T) {
	s := open(t)
	push(t, s, alice, 0, 0)
	n := scale(400)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for _, e := range ids(string(rune('a'+i)), n/2, "") {
				if _, err := s.Push(pushOf(alice, e)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := make(map[string]bool)
	var after int64
	for len(seen) < n {
		got, next := pulled(t, s, alice, after, 1)
		if next < after || len(got) > 0 && (next == after || seen[got[0]]) {
			t.Fatalf("after %d came %q, %d", after, got, next)
		}
		for _, e := range got {
			seen[e] = true
		}
		after = next
	}
	wg.Wait()
	check(t, s)
}
