package syncmodel

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Hard cases about pulls, cursors and numbers.

func TestHardCase12PullAuthorization(t *testing.T) {
	a := newSite(t).account("o")
	wantCode(t, "unknown owner", a.get("/v1/events"), 404, "unknown_owner")
	a.pushed(1, 0, a.envelopes(1, 1)...)
	for token, name := range map[string]string{"": "no token", "wrong": "wrong token"} {
		res := a.as(token).get("/v1/events")
		wantCode(t, name, res, 401, "unauthorized")
		if res.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("S4: %s: WWW-Authenticate is %q", name, res.header.Get("WWW-Authenticate"))
		}
	}
	wantCode(t, "another unknown owner", newSite(t).account("p").get("/v1/events"), 404, "unknown_owner")
}

func TestHardCase13CursorThatIsNone(t *testing.T) {
	a := newSite(t).account("o")
	a.pushed(3, 0, a.envelopes(1, 3)...)
	for _, after := range []string{"", "&after=", "&after=abc", "&after=-1", "&after=1e3", "&after=+1", "&after=%31x", "&after=0x2"} {
		if events, next := a.pull(after); len(events) != 3 || next != "3" {
			t.Errorf("%q: %d events, next %s", after, len(events), next)
		}
	}
}

func TestHardCase14Limit(t *testing.T) {
	a := newSite(t, "MAX_EVENTS_PER_PULL=7", "DEFAULT_EVENTS_PER_PULL=4").account("o")
	a.pushed(10, 0, a.envelopes(1, 10)...)
	for limit, want := range map[string]int{"0": 1, "-5": 1, "99999": 7, "x": 4, "": 4, "3": 3, "99999999999999999999": 7} {
		if events, next := a.pull("&limit=" + limit); len(events) != want || next != strconv.Itoa(want) {
			t.Errorf("limit %q: %d events, next %s, want %d", limit, len(events), next, want)
		}
	}
}

func TestHardCase15DrainWhilePushing(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=clock")
	a := s.account("o")
	a.pushed(1, 0, a.envelopes(0, 1)...)
	var pushing sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 2 {
		pushing.Go(func() {
			for n := range 50 {
				res, err := a.try("POST", "/v1/events", a.token, a.body(a.envelopes(1+i*250+n*5, 5)...))
				if err == nil && res.status != 200 {
					err = fmt.Errorf("%d %s", res.status, res.body)
				}
				if err != nil {
					errs <- err
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pushing.Wait()
	}()
	seen := map[string]bool{}
	after := int64(0)
	for ended := false; len(seen) < 501; {
		select {
		case <-done:
			ended = true // and what is not there now never comes
		default:
		}
		events, next := a.pull("&limit=1&after=" + strconv.FormatInt(after, 10))
		if len(events) == 0 && ended {
			break
		}
		if len(events) == 0 {
			continue
		}
		id, n := idOf(t, events[0]), number(t, next)
		if seen[id] || n <= after || len(events) != 1 {
			t.Fatalf("%s at %d after %d, seen before %v", id, n, after, seen[id])
		}
		seen[id], after = true, n
	}
	<-done
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if ids, _ := a.drain("0"); len(seen) != 501 || len(ids) != 501 {
		t.Errorf("S28: drained %d events, stored are %d", len(seen), len(ids))
	}
}

func TestHardCase16PullOfNothing(t *testing.T) {
	a := newSite(t).account("o")
	a.pushed(0, 0)
	wantBody(t, "no events", a.get("/v1/events"), `{"events":[],"nextCursor":"0"}`)
	wantBody(t, "after=7", a.get("/v1/events", "&after=007"), `{"events":[],"nextCursor":"7"}`)
}

func TestHardCase17StaleAfterWipe(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=clock")
	a := s.account("o")
	a.pushed(5, 0, a.envelopes(1, 5)...)
	_, old := a.drain("")
	s.stop()
	s.wipe()
	s.start()
	wantCode(t, "nobody came yet", a.get("/v1/events", "&after=", old), 404, "unknown_owner")
	a.pushed(2, 0, a.envelopes(1, 2)...)
	wantCode(t, "another came first", a.get("/v1/events", "&after=", old), 404, "stale_cursor")
	wantCode(t, "waiting", a.get("/v1/events/wait", "&after=", old), 404, "stale_cursor")
	ids, next := a.drain("")
	if len(ids) != 2 || number(t, next) <= number(t, old) {
		t.Errorf("S29: %q up to %s, the old cursor is %s", ids, next, old)
	}
	wantCode(t, "beyond 2^63", a.get("/v1/events", "&after=99999999999999999999"), 404, "stale_cursor")
}

func TestHardCase18StaleAfterRestore(t *testing.T) {
	for _, live := range []bool{false, true} {
		s := newSite(t, "SEQ_FLOOR=clock")
		a := s.account("o")
		a.pushed(3, 0, a.envelopes(1, 3)...)
		_, early := a.pull("&limit=2")
		_, atCopy := a.drain("")
		var path string
		if live {
			path, _ = s.backup()
		} else {
			s.stop()
			path, _ = s.copyAway()
			s.start()
		}
		a.pushed(2, 0, a.envelopes(4, 2)...)
		_, late := a.drain("")
		s.stop()
		s.restore(path)
		s.start()
		wantCode(t, "late", a.get("/v1/events", "&after=", late), 404, "stale_cursor")
		a.pushed(2, 0, a.envelopes(6, 2)...)
		wantCode(t, "late, after a push", a.get("/v1/events", "&after=", late), 404, "stale_cursor")
		for cursor, want := range map[string][]string{
			early: {"000003", "000006", "000007"}, atCopy: {"000006", "000007"}, "": {"000001", "000002", "000003", "000006", "000007"},
		} {
			ids, next := a.drain(cursor)
			if !slices.Equal(ids, want) || number(t, next) <= number(t, late) {
				t.Errorf("live %v: after %s: %q up to %s, want %q above %s", live, cursor, ids, next, want, late)
			}
		}
	}
}

func TestHardCase19RestartAndKill(t *testing.T) {
	for _, floor := range scale([]string{"auto", "clock", "0"}, []string{"auto"}) {
		s := startSite(t, true, "SEQ_FLOOR="+floor)
		a := s.account("o")
		cursors := map[string]int{"0": 0} // how many events each has behind it
		count := 0
		top := int64(0)
		for round := range 6 {
			batch := a.envelopes(count, 400)
			pushed := make(chan error)
			go func() {
				res, err := a.try("POST", "/v1/events", a.token, a.body(batch...))
				if err == nil && res.status != 200 {
					err = errors.New(res.body)
				}
				pushed <- err
			}()
			if round%2 == 0 {
				if err := <-pushed; err != nil {
					t.Fatal(err)
				}
				s.restart()
			} else {
				for range round {
					_, _ = s.try("GET", "/health", "", "") // the push is on its way
				}
				s.kill()
				s.check()
				s.start()
				if err := <-pushed; err != nil {
					t.Logf("round %d: killed before the answer", round)
				}
			}
			ids, _ := a.drain("")
			switch len(ids) {
			case count:
				a.pushed(400, 0, batch...)
			case count + 400: // all of it, answered or not
				a.pushed(0, 400, batch...)
			default:
				t.Fatalf("S21: %s: %d events after %d and a push of 400", floor, len(ids), count)
			}
			count += 400
			ids, next := a.drain("")
			if n := number(t, next); n <= top {
				t.Errorf("S27: %s: number %d after %d", floor, n, top)
			} else {
				top = n
			}
			cursors[next] = count
			for cursor, behind := range cursors {
				got, to := a.drain(cursor)
				if !slices.Equal(got, ids[behind:]) || to != next {
					t.Errorf("S34: %s: %d events after %s, want %d", floor, len(got), cursor, len(ids)-behind)
				}
			}
		}
	}
}

func TestHardCase20FreshStore(t *testing.T) {
	a := newSite(t).account("o")
	for i := range 3 {
		a.pushed(1, 0, a.envelopes(i, 1)...)
	}
	if st := a.status(); st.HeadSeq != 3 {
		t.Errorf("headSeq %d", st.HeadSeq)
	}
	if events, next := a.pull("&after=1"); len(events) != 2 || next != "3" {
		t.Errorf("after=1: %d events, next %s", len(events), next)
	}
	wantBody(t, "after=999999", a.get("/v1/events", "&after=999999"), `{"events":[],"nextCursor":"999999"}`)
}
