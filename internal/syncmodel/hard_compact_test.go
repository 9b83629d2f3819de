package syncmodel

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Hard cases about compaction and closing.

func TestHardCase21NumberAfterCompaction(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=0")
	a := s.account("o")
	a.pushed(1, 0, a.envelope("5", "s", "x"))
	a.pushed(1, 0, a.envelope("3", "s", "x"))
	before := a.status().HeadSeq
	if n := s.compactAll(); n != 1 || a.status().HeadSeq >= before {
		t.Fatalf("%d events went, headSeq %d, was %d", n, a.status().HeadSeq, before)
	}
	s.restart()
	a.pushed(1, 0, a.envelope("6", "", "x"))
	if got := a.status().HeadSeq; got <= before {
		t.Errorf("S27: number %d after %d", got, before)
	}
}

func TestHardCase22ByteOrder(t *testing.T) {
	s := newSite(t)
	a := s.account("o")
	for _, id := range []string{"10", "9", "100", "!", "~", "Z"} {
		a.pushed(1, 0, a.envelope(id, "s-"+id[:1], "x"))
	}
	for _, id := range []string{"9", "10", "100"} {
		_ = a.push(a.envelope("t-"+id, "t", "x"))
	}
	s.compactAll()
	a.holds("S37", "9", "100", "!", "~", "Z", "t-9")
}

func TestHardCase23LateOlderEvent(t *testing.T) {
	s := newSite(t)
	a := s.account("o")
	a.pushed(1, 0, a.envelope("5", "s", "x"))
	a.pushed(1, 0, a.envelope("3", "s", "x"))
	_, cursor := a.drain("")
	if cursor != "2" || s.compactAll() != 1 {
		t.Fatalf("cursor %s", cursor)
	}
	if st := a.status(); st.HeadSeq != 1 || st.Events != 1 || st.Streams != 1 {
		t.Errorf("status %+v", st)
	}
	wantBody(t, "S34", a.get("/v1/events", "&after=2"), `{"events":[],"nextCursor":"2"}`)
	a.holds("S37", "5")
}

func TestHardCase24CompactionWhilePushing(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=clock")
	a := s.account("o")
	const batch, streams = 200, 40
	pushes := scale(50, 10)
	done := make(chan struct{})
	var compacting sync.WaitGroup
	runs := 0
	compacting.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runs++
				if res, err := s.try("POST", "/v1/admin/compact", adminToken, ""); err != nil || res.status != 200 {
					t.Errorf("compact: %d, %v", res.status, err)
					return
				}
			}
		}
	})
	var longest time.Duration
	for p := range pushes {
		events := make([]string, batch)
		for i := range events {
			n := p*batch + i
			events[i] = a.envelope(fmt.Sprintf("%06d", n), fmt.Sprint("s", n%streams), "x")
		}
		began := time.Now()
		a.pushed(batch, 0, events...)
		longest = max(longest, time.Since(began))
	}
	close(done)
	compacting.Wait()
	t.Logf("%d compactions, longest push %v", runs, longest)
	s.compactAll()
	var want []string
	for n := pushes*batch - streams; n < pushes*batch; n++ {
		want = append(want, fmt.Sprintf("%06d", n))
	}
	a.holds("S37", want...)
	if st := a.status(); st.Events != streams || st.Streams != streams {
		t.Errorf("status %+v", st)
	}
}

func TestHardCase25BadStreamIDs(t *testing.T) {
	s := newSite(t, "MAX_STREAMS_PER_COMPACT=3")
	a := s.account("o")
	const good = "AAAAAAAAAAAAAAAAAAAAAA"
	a.pushed(1, 0, a.envelope("1", good, "x"))
	for _, bad := range []any{
		good[1:], good + "A", good[:21] + "=", good + "\n", good[:21] + "\n", good[:21] + "+", good[:21] + "é", "", 7, nil, true, []any{},
	} {
		wantCode(t, fmt.Sprintf("%q", bad), a.compact(good, bad), 400, "bad_stream_id")
	}
	wantCode(t, "too many, repeats counted", a.compact(good, good, good, good), 413, "too_many_streams")
	a.holds("S40", "1")
	const nothing = `{"deletedEvents":0,"reclaimedBytes":0}`
	wantBody(t, "empty list", a.compact(), nothing)
	wantBody(t, "unknown stream", a.compact(good[1:]+"B"), nothing)
	b := s.account("p")
	wantCode(t, "unknown owner", b.compact(good), 404, "unknown_owner")
	b.unknown("compact")
}

func TestHardCase26CompactedThenPushed(t *testing.T) {
	a := newSite(t).account("o")
	const stream = "AAAAAAAAAAAAAAAAAAAAAA"
	events := []string{a.envelope("1", stream, "x"), a.envelope("2", stream, "tombstone")}
	a.pushed(3, 0, append(events, a.envelope("3", "", "x"))...)
	size := len(events[0]) + len(events[1])
	wantBody(t, "S40", a.compact(stream, stream), fmt.Sprintf(`{"deletedEvents":2,"reclaimedBytes":%d}`, size))
	a.holds("S40", "3")
	a.pushed(1, 0, events[0])
	if st := a.status(); st.HeadSeq != 4 || st.Events != 2 {
		t.Errorf("S24: %+v", st)
	}
	a.holds("S24", "3", "1")
}

func TestHardCase27Closed(t *testing.T) {
	s := newSite(t)
	a := s.account("o")
	a.pushed(2, 0, a.envelopes(1, 2)...)
	_ = a.put("chunk")
	wantBody(t, "close", a.closeOwner(), `{"closed":true,"deletedEvents":2,"deletedBlobs":1}`)
	for range 2 {
		for token, want := range map[string]struct {
			status int
			code   string
		}{a.token: {410, "owner_closed"}, "wrong": {401, "unauthorized"}} {
			c := a.as(token)
			for name, res := range map[string]answer{
				"push": c.push(c.envelopes(9, 1)...), "empty push": c.push(), "pull": c.get("/v1/events"), "status": c.get("/v1/status"),
				"wait": c.get("/v1/events/wait"), "usage": c.get("/v1/usage"), "compact": c.compact(),
				"blob GET": c.do("GET", c.blobPath(hashOf("chunk")), token, ""), "blob PUT": c.put("chunk"),
			} {
				wantCode(t, name, res, want.status, want.code)
			}
			if res := c.do("HEAD", c.blobPath(hashOf("chunk")), token, ""); res.status != want.status || res.body != "" {
				t.Errorf("HEAD: %d %q", res.status, res.body)
			}
		}
		s.restart() // and it stays so
	}
}

func TestHardCase28CloseTwice(t *testing.T) {
	s := newSite(t, "MAX_OWNERS=1")
	a, b := s.account("o"), s.account("p")
	wantCode(t, "unknown owner", a.closeOwner(), 404, "unknown_owner")
	a.unknown("close")
	a.pushed(2, 0, a.envelopes(1, 2)...)
	wantBody(t, "once", a.closeOwner(), `{"closed":true,"deletedEvents":2,"deletedBlobs":0}`)
	wantBody(t, "twice", a.closeOwner(), `{"closed":true,"deletedEvents":0,"deletedBlobs":0}`)
	wantCode(t, "wrong token", a.as("wrong").closeOwner(), 401, "unauthorized")
	wantCode(t, "S44: it still counts", b.push(), 403, "owner_limit")
	b.unknown("a refused owner")
}

func TestHardCase29CloseRace(t *testing.T) {
	s := newSite(t)
	won := map[int]int{}
	for i := range 40 {
		a := s.account(fmt.Sprint("o", i))
		a.pushed(1, 0, a.envelopes(1, 1)...)
		var pushed, closed answer
		var both sync.WaitGroup
		both.Go(func() { pushed, _ = a.try("POST", "/v1/events", a.token, a.body(a.envelopes(2, 20)...)) })
		both.Go(func() {
			for range i % 4 { // the close comes a little later
				_, _ = a.try("GET", "/health", "", "")
			}
			closed, _ = a.try("POST", "/v1/owner/close", a.token, `{"ownerId":"`+a.owner+`"}`)
		})
		both.Wait()
		won[pushed.status]++
		switch pushed.status {
		case 200:
			wantBody(t, "close after the push", closed, `{"closed":true,"deletedEvents":21,"deletedBlobs":0}`)
		case 410:
			wantBody(t, "close before the push", closed, `{"closed":true,"deletedEvents":1,"deletedBlobs":0}`)
		default:
			t.Errorf("push: %d %s", pushed.status, pushed.body)
		}
		wantCode(t, "after both", a.get("/v1/events"), 410, "owner_closed")
		if strings.Contains(a.closeOwner().body, `"deletedEvents":21`) {
			t.Error("closed twice")
		}
	}
	t.Logf("pushes answered: %v", won)
	s.stop()
	s.check() // nothing is charged for what is gone
	s.start()
}
