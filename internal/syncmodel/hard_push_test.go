package syncmodel

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// The hard cases of the contract's section 12, by number. Those here are about
// pushes.

func TestHardCase01PushRepeated(t *testing.T) {
	a := newSite(t).account("o")
	events := a.envelopes(1, 3)
	a.pushed(3, 0, events...)
	before := a.get("/v1/usage").body
	a.pushed(0, 3, events...)
	if after := a.get("/v1/usage").body; after != before || !strings.Contains(before, fmt.Sprint(len(strings.Join(events, "")))) {
		t.Errorf("usage %s, then %s", before, after)
	}
}

func TestHardCase02SameIDInOneRequest(t *testing.T) {
	a := newSite(t).account("o")
	first := a.envelope("1", "", "first")
	a.pushed(1, 1, first, a.envelope("1", "", "second"))
	if events, _ := a.pull(""); len(events) != 1 || events[0] != first {
		t.Errorf("holds %q", events)
	}
}

func TestHardCase03SameIDOtherContent(t *testing.T) {
	a := newSite(t).account("o")
	first := a.envelope("1", "", "first")
	a.pushed(1, 0, first)
	a.pushed(0, 1, a.envelope("1", "s", "second"))
	if events, _ := a.pull(""); len(events) != 1 || events[0] != first {
		t.Errorf("holds %q", events)
	}
}

func TestHardCase04TooManyEvents(t *testing.T) {
	a := newSite(t).account("o")
	events := a.envelopes(1, 1001)
	wantCode(t, "1001", a.push(events...), 413, "too_many_events")
	a.unknown("1001 events")
	a.pushed(1000, 0, events[1:]...)
}

func TestHardCase05OneBadOfThousand(t *testing.T) {
	a := newSite(t).account("o")
	events := a.envelopes(1, 1000)
	events[999] = strings.Replace(events[999], `"version":1`, `"version":2`, 1)
	res := a.push(events...)
	wantCode(t, "version 2", res, 400, "bad_envelope")
	if !strings.Contains(res.body, "[999]") {
		t.Errorf("S18: the index is not told: %s", res.body)
	}
	a.unknown("one bad event")
}

func TestHardCase06MemberInOtherCase(t *testing.T) {
	a := newSite(t).account("o")
	for _, name := range []string{"eventId", "ownerId", "version", "deviceId", "createdAt", "nonce", "ciphertext"} {
		other := strings.ToUpper(name[:1]) + name[1:]
		e := strings.Replace(a.envelope("1", "", "x"), `"`+name+`"`, `"`+other+`"`, 1)
		wantCode(t, other, a.push(e), 400, "bad_envelope")
	}
	a.unknown("members in other case")
}

func TestHardCase07MemberTwice(t *testing.T) {
	a := newSite(t).account("o")
	good := a.envelope("1", "", "x")
	for _, more := range []string{`,"eventId":"1"}`, `,"eventId":"2"}`, `,"u":1,"u":1}`, `,"event\u0049d":"1"}`} {
		wantCode(t, more, a.push(good[:len(good)-1]+more), 400, "bad_envelope")
	}
	a.unknown("a member twice")
}

func TestHardCase08BytesKept(t *testing.T) {
	a := newSite(t).account("o")
	sent := "{ \"ciphertext\" : \"c\\u00e9\\/\" ,\n\t\"zz\":[1.0, 1E+2 ,-0,{\"b\":null ,\"a\": \"é \\ud83d\\ude00\"}],\"nonce\":\"n\"," +
		"\"createdAt\":\"t\",\"deviceId\":\"d\",\"streamId\":null,\"eventId\":\"1\",\"ownerId\":\"o\", \"version\" : 1 }"
	want := `{"ciphertext":"c\u00e9\/","zz":[1.0,1E+2,-0,{"b":null,"a":"é \ud83d\ude00"}],"nonce":"n",` +
		`"createdAt":"t","deviceId":"d","streamId":null,"eventId":"1","ownerId":"o","version":1}`
	a.pushed(1, 0, sent)
	if got := a.get("/v1/events").body; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if st := a.status(); st.UsedBytes != int64(len(want)) {
		t.Errorf("S20: %d bytes are charged, stored are %d", st.UsedBytes, len(want))
	}
}

func TestHardCase09FirstPushRace(t *testing.T) {
	s := newSite(t)
	for i := range 20 {
		one := s.account(fmt.Sprint("o", i))
		claims := []*account{one.as("token-A"), one.as("token-B")}
		answers := make([]answer, len(claims))
		var both sync.WaitGroup
		for n, a := range claims {
			both.Go(func() { answers[n], _ = a.try("POST", "/v1/events", a.token, a.body(a.envelopes(n, 1)...)) })
		}
		both.Wait()
		won := 0
		if answers[1].status == 200 {
			won = 1
		}
		wantBody(t, "the first", answers[won], `{"accepted":1,"duplicate":0}`)
		wantCode(t, "the other", answers[1-won], 401, "unauthorized")
		claims[won].holds("the first", fmt.Sprintf("%06d", won))
		wantCode(t, "the other after", claims[1-won].get("/v1/status"), 401, "unauthorized")
	}
}

func TestHardCase10EmptyPushRegisters(t *testing.T) {
	a := newSite(t).account("o")
	a.pushed(0, 0)
	if st := a.status(); st.Events != 0 || st.UsedBytes != 0 || st.OwnerID != "o" {
		t.Errorf("status %+v", st)
	}
	wantCode(t, "another token", a.as("other").push(), 401, "unauthorized")
}

func TestHardCase11Quota(t *testing.T) {
	s := newSite(t, "MAX_OWNER_BYTES=2000")
	a := s.account("o")
	stored := a.envelope("1", "", "x")
	filler := func(id string, size int) string {
		return a.envelope(id, "", strings.Repeat("x", 1+size-len(a.envelope(id, "", "x"))))
	}
	a.pushed(2, 0, stored, filler("2", 2000-10-len(stored)))
	before := a.status()
	if before.UsedBytes != 1990 || before.QuotaBytes != 2000 || before.UsedPct != 99.5 {
		t.Fatalf("status %+v", before)
	}
	wantCode(t, "500 bytes more", a.push(stored, filler("3", 500)), 413, "quota_exceeded")
	a.pushed(0, 1, stored)
	if after := a.status(); after != before {
		t.Errorf("status %+v, was %+v", after, before)
	}
	if after, _ := a.drain(""); len(after) != 2 {
		t.Errorf("holds %q", after)
	}

	// S23a: what compaction can give back is given back first.
	b := s.account("p")
	long := strings.Repeat("y", 700)
	b.pushed(1, 0, b.envelope("1", "s", long))
	b.pushed(1, 0, b.envelope("2", "s", long))
	b.pushed(1, 0, b.envelope("3", "s", long))
	b.holds("S23a", "2", "3")
}

func TestHardCase44RelayFull(t *testing.T) {
	s := newSite(t, "MAX_TOTAL_BYTES=3000")
	a, b := s.account("a"), s.account("b")
	mine := a.envelope("1", "", "x")
	a.pushed(1, 0, mine)
	wantBody(t, "chunk", a.put("chunk"), `{"stored":true,"duplicate":false}`)
	b.pushed(1, 0, b.envelope("1", "", strings.Repeat("x", 2650)))
	wantCode(t, "new event", a.push(a.envelope("2", "", strings.Repeat("x", 300))), 413, "relay_full")
	wantCode(t, "new chunk", a.put(strings.Repeat("y", 500)), 413, "relay_full")
	c := s.account("c")
	wantCode(t, "new owner", c.push(c.envelope("1", "", strings.Repeat("x", 300))), 413, "relay_full")
	c.unknown("new owner")
	a.pushed(0, 1, mine)
	wantBody(t, "chunk again", a.put("chunk"), `{"stored":false,"duplicate":true}`)

	wantBody(t, "close", b.closeOwner(), `{"closed":true,"deletedEvents":1,"deletedBlobs":0}`)
	a.pushed(1, 0, a.envelope("2", "", strings.Repeat("x", 300))) // S44: a closed owner counts for nothing
}

// TestHardCase42PowerCut: what a 200 was sent for is in the files at that
// moment; nothing that a process does later is needed.
func TestHardCase42PowerCut(t *testing.T) {
	s := startSite(t, true)
	a := s.account("o")
	var want []string
	for i := range 5 {
		a.pushed(10, 0, a.envelopes(i*10, 10)...)
		for n := range 10 {
			want = append(want, fmt.Sprintf("%06d", i*10+n))
		}
		path, ok := s.copyAway() // the relay runs and is idle
		if !ok {
			t.Fatal("no database")
		}
		other := &site{t: t, dir: t.TempDir(), http: http.DefaultClient}
		other.restore(path)
		other.check()
		db := other.open()
		if st := db.Stats(); st.Owners != 1 {
			t.Errorf("%d owners after the cut", st.Owners)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	s.kill()
	path, _ := s.copyAway()
	s.restore(path) // without the shared memory file
	s.start()
	a.holds("after the cut", want...)
}
