package sync

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/store"
)

// TestRoutes: S1 to S4 and hard cases 37 to 39.
func TestRoutes(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BasePaths = []string{"/v2", "/a/b"} })
	for path, allow := range map[string]string{
		"/v1/events": "GET, POST, OPTIONS", "/v1/events/wait": "GET, OPTIONS",
		"/v1/streams/compact": "POST, OPTIONS", "/v1/owner/close": "POST, OPTIONS",
		"/v1/blobs/x": "GET, HEAD, PUT, OPTIONS", "/v1/status": "GET, OPTIONS",
		"/v1/usage": "GET, OPTIONS", "/health": "GET, OPTIONS",
	} {
		for _, base := range []string{"", "/v2", "/a/b"} {
			path := base + path
			if !r.surface.Owns([]byte(path)) {
				t.Errorf("S2: %s is not owned", path)
			}
			res := r.do("DELETE", path, "", "")
			r.want(path, res, 405, "method_not_allowed")
			if got := res.Header.Get("Allow"); got != allow {
				t.Errorf("S2: %s allows %q, want %q", path, got, allow)
			}
			res = r.do("OPTIONS", path, "", "")
			for name, want := range map[string]string{
				"Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, OPTIONS",
				"Access-Control-Allow-Headers": "Authorization, Content-Type",
				"Access-Control-Max-Age":       "86400",
			} {
				if res.Status != 204 || res.Header.Get(name) != want {
					t.Errorf("37: OPTIONS %s: %d, %s is %q", path, res.Status, name, res.Header.Get(name))
				}
			}
		}
	}
	for _, path := range []string{
		"/v1/", "/v1/events/", "/v1/event", "/v1/status/", "/v1/blobs/", "/v1/blobs/a/b", "/v1/admin/compact", "/v2/v1/x",
	} {
		r.want(path, r.do("GET", path, "", ""), 404, "not_found")
		if res := r.do("HEAD", path, "", ""); res.Status != 404 || len(res.Body) != 0 {
			t.Errorf("S4: HEAD %s: %d %q", path, res.Status, res.Body)
		}
	}
	for _, path := range []string{"/", "/v1", "/v2", "/health/", "/healthz", "/v3/v1/events", "/v2/health/x", "/v2/v2/v1/events", "/events"} {
		if r.surface.Owns([]byte(path)) {
			t.Errorf("S2: %s is owned", path)
		}
	}
	res := r.do("GET", "/v1/status"+query, "", "")
	r.want("38", res, 401, "unauthorized")
	if res.Header.Get("WWW-Authenticate") != "Bearer" || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		t.Errorf("S4: %v", res.Header)
	}
	r.pushed(1, 0, event("1", "", "x"))
	if events, _ := r.page(r.do("GET", "/v2/v1/events"+query, tokenA, "")); len(events) != 1 {
		t.Errorf("39: %q", events)
	}
}

// TestBearer: S10, before anything of the body is read.
func TestBearer(t *testing.T) {
	r := newRig(t)
	for field, status := range map[string]int{
		"Authorization: bEaReR " + tokenA:                                  200,
		"Authorization: Bearer":                                            401,
		"Authorization: Bearer ":                                           401,
		"Authorization: Basic " + tokenA:                                   401,
		"Authorization: Bearer a b":                                        401,
		"Authorization: Bearer " + strings.Repeat("x", 513):                401,
		"Authorization: Bearer " + tokenA + "\r\nAuthorization: Bearer x2": 401,
		"X-Other: y": 401,
	} {
		res := r.do("POST", "/v1/events", "", pushBody(), field)
		if res.Status != status {
			t.Errorf("%.40s: %d, want %d", field, res.Status, status)
		}
	}
	waits := head("POST", "/v1/events", "", "Content-Length: 1000") // no body comes
	r.want("before the body", r.raw("POST", waits), 401, "unauthorized")
}

// TestPull: hard cases 12 to 16 and 20.
func TestPull(t *testing.T) {
	r := newRig(t, func(c *Config) { c.DefaultEventsPerPull, c.MaxEventsPerPull = 2, 3 })
	r.want("12: no token", r.do("GET", "/v1/events"+query, "", ""), 401, "unauthorized")
	r.want("12: unknown owner", r.do("GET", "/v1/events"+query, tokenA, ""), 404, "unknown_owner")
	r.pushed(0, 0)
	r.want("12: wrong token", r.do("GET", "/v1/events"+query, tokenB, ""), 401, "unauthorized")
	r.wantBody("16", r.do("GET", "/v1/events"+query, tokenA, ""), `{"events":[],"nextCursor":"0"}`)
	for i := range 4 {
		r.pushed(1, 0, event(fmt.Sprint(i), "", "x"))
	}
	for _, c := range []struct {
		params string
		count  int
		next   string
	}{
		{"&after=abc", 2, "2"}, {"&after=", 2, "2"}, {"&after=-1", 2, "2"}, {"&after=1e3", 2, "2"}, // 13
		{"&limit=0", 1, "1"}, {"&limit=-5", 1, "1"}, {"&limit=99999", 3, "3"}, {"&limit=x", 2, "2"}, // 14
		{"&after=3", 1, "4"}, {"&after=4", 0, "4"}, {"&after=999999", 0, "999999"}, // 20
	} {
		if events, next := r.pull(c.params); len(events) != c.count || next != c.next {
			t.Errorf("%s: %d events, next %s, want %d, %s", c.params, len(events), next, c.count, c.next)
		}
	}
	r.want("beyond 2^63", r.do("GET", "/v1/events"+query+"&after=99999999999999999999", tokenA, ""), 404, "stale_cursor")
	for _, q := range []string{"", "?ownerId=", "?ownerId=a%20b", query + "&ownerId=" + owner, "?ownerid=a"} {
		r.want("S11 "+q, r.do("GET", "/v1/events"+q, tokenA, ""), 400, "bad_request")
	}
}

// TestLongPages: a page beyond what is copied comes whole, over HTTP/1.1 and
// 1.0, the connection goes on, and a page ends past its bytes (S36).
func TestLongPages(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxPullBytes = 1 << 20 })
	big := strings.Repeat("x", 200_000)
	for i := range 8 {
		r.pushed(1, 0, event(fmt.Sprint(i), "", big))
	}
	c := r.dial()
	for range 2 {
		_ = c.SendString(head("GET", "/v1/events"+query, tokenA))
		if events, next := r.page(r.read(c, "GET")); len(events) != 6 || next != "6" {
			t.Fatalf("S36: %d events, next %s", len(events), next)
		}
	}
	old := strings.Replace(head("GET", "/v1/events"+query+"&after=6", tokenA), "HTTP/1.1", "HTTP/1.0", 1)
	if events, _ := r.page(r.raw("GET", old)); len(events) != 2 || events[0] != event("6", "", big) {
		t.Errorf("HTTP/1.0: %d events", len(events))
	}
	// What was read is given back a moment after it was taken.
	r.eventually("nothing is lent", func() bool { return r.surface.Counters().LentBytes == 0 })
	// One that never reads holds memory alone (B4), and pushes go on.
	slow := r.dial()
	_ = slow.SendString(strings.Repeat(head("GET", "/v1/events"+query, tokenA), 40)) // more than the kernel takes
	var lent int64
	r.eventually("a page is lent", func() bool {
		lent = r.surface.Counters().LentBytes
		return lent > 0
	})
	page := r.surface.page(store.Pull{Auth: store.Auth{Owner: owner, Hash: syncwire.TokenHash([]byte(tokenA))}, Limit: 500})
	if page.err != nil || lent%int64(cap(page.body)) != 0 {
		t.Errorf("B4: %d bytes are counted for pages in %d bytes of memory each, %v", lent, cap(page.body), page.err)
	}
	r.pushed(1, 0, event("next", "", "x"))
	_ = slow.Reset()
}

// TestSlowReaders: B4: what readers have not taken yet is bounded for all of them
// together, so that slow ones leave memory for others, and given back when they
// go.
func TestSlowReaders(t *testing.T) {
	const most = 8 << 20
	r := newLimitedRig(t, func(s *Surface) { s.lent = serve.NewBudget(most) })
	blob := strings.Repeat("b", 1<<20)
	r.put("blob", blob, storedAnswer)
	var slow []*relaytest.Conn
	refused := 0
	for len(slow) < 64 {
		c := r.dial()
		_ = c.SendString(strings.Repeat(head("GET", blobPath(hashOf(blob)), tokenA), 8)) // more than the kernel takes
		slow = append(slow, c)
		if res := r.do("GET", blobPath(hashOf(blob)), tokenA, ""); res.Status == 503 {
			refused++
			r.want("no room", res, 503, "busy")
		} else if string(res.Body) != blob {
			t.Fatalf("%d, %d bytes", res.Status, len(res.Body))
		}
		if n := r.surface.Counters().LentBytes; n > most {
			t.Fatalf("%d bytes are lent", n)
		}
	}
	if refused == 0 {
		t.Error("64 readers that take nothing were not refused anything")
	}
	for _, c := range slow {
		_ = c.Reset()
	}
	r.eventually("given back", func() bool { return r.surface.Counters().LentBytes == 0 && r.budget.UsedBytes() == 0 })
	if res := r.do("GET", blobPath(hashOf(blob)), tokenA, ""); string(res.Body) != blob || res.Header.Get("Content-Length") != "1048576" {
		t.Errorf("%d, %d bytes", res.Status, len(res.Body))
	}
}

// TestRefusalsAllocateNothing: requests for others' paths do not pay for S3.
func TestRefusalsAllocateNothing(t *testing.T) {
	cfg := DefaultConfig()
	cfg.BasePaths = []string{"/a-base-path-that-is-longer-than-what-fits-on-the-stack"}
	s := New(cfg, Parts{})
	for _, path := range []string{"/stream", cfg.BasePaths[0] + "/stream", cfg.BasePaths[0] + "/v1/events", "/v1/events"} {
		p := []byte(path)
		if n := testing.AllocsPerRun(100, func() { _ = s.Refusals(p) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

// TestRefusals: S3 and S4 for what the connection answers by itself.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"bad framing", head("POST", "/v1/events", tokenA, "Content-Length: 1", "Transfer-Encoding: chunked"), 400},
		{"no HTTP", "hello\r\n\r\n", 400},
		{"a long head", head("GET", "/v1/status", tokenA, "X: "+strings.Repeat("x", 1<<20)), 431},
		{"a bad chunk", head("POST", "/v1/events", tokenA, "Transfer-Encoding: chunked") + "zz\r\n", 400},
	} {
		conn := r.dial()
		_ = conn.SendString(c.request)
		res, err := conn.ReadResponse("GET", patience)
		if err != nil || res.Status != c.status || res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %v, %+v", c.name, err, res)
		}
		if c.name == "a bad chunk" { // the path is known
			r.want(c.name, res, 400, "bad_request")
		}
	}
	for status, want := range map[int]int{400: 400, 408: 503, 429: 503, 431: 431, 503: 503} {
		res := r.surface.Refusals([]byte("/v1/x"))(status, "why")
		if res.Status != want || !strings.Contains(string(res.Body), `"message":"why"`) {
			t.Errorf("%d is refused with %d %s", status, res.Status, res.Body)
		}
	}
	if r.surface.Refusals([]byte("/stream")) != nil {
		t.Error("S2: the surface speaks for another's path")
	}
}

// TestCompact: S37, S40, S47 and hard cases 22, 25, 26.
func TestCompact(t *testing.T) {
	const admin = "adminADMIN-SECRET"
	r := newRig(t, func(c *Config) { c.AdminToken, c.MaxStreamsPerCompact = admin, 3 })
	id, other := "JTOTvdS5VRsO1WdnFDsSpw", "ss1DrLGVVWKyLFLejHp0cg"
	compact := func(token, list string) (string, int) {
		res := r.do("POST", "/v1/streams/compact", token, `{"ownerId":"`+owner+`","streamIds":`+list+`}`)
		return string(res.Body), res.Status
	}
	if body, status := compact(tokenA, "[]"); status != 404 || !strings.Contains(body, "unknown_owner") {
		t.Errorf("unknown owner: %d %s", status, body)
	}
	r.pushed(4, 0, event("9", id, "x"), event("10", id, "x"), event("100", id, "x"), event("1", other, "x"))
	r.want("S47: other token", r.do("POST", "/v1/admin/compact", tokenA, ""), 401, "unauthorized")
	size := len(event("10", id, "x")) + len(event("100", id, "x"))
	r.wantBody("22", r.do("POST", "/v1/admin/compact", admin, ""), fmt.Sprintf(`{"deletedEvents":2,"reclaimedBytes":%d}`, size))
	if events, _ := r.pull(""); len(events) != 2 || events[0] != event("9", id, "x") {
		t.Errorf("22: %q", events)
	}
	for _, c := range []struct {
		list, want string
		status     int
	}{
		{`["` + id[:21] + `"]`, "bad_stream_id", 400},
		{`["` + other + `","` + id[:21] + `="]`, "bad_stream_id", 400},
		{`["` + id + `\n"]`, "bad_stream_id", 400},
		{`[5]`, "bad_stream_id", 400},
		{`{}`, "bad_request", 400},
		{`["` + strings.Repeat(id+`","`, 3) + id + `"]`, "too_many_streams", 413},
	} {
		if body, status := compact(tokenA, c.list); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("25: %s: %d %s", c.list, status, body)
		}
		if body, status := compact(tokenB, c.list); status != 401 {
			t.Errorf("S16: %s with a wrong token: %d %s", c.list, status, body)
		}
	}
	if events, _ := r.pull(""); len(events) != 2 {
		t.Errorf("25: %q", events)
	}
	want := fmt.Sprintf(`{"deletedEvents":1,"reclaimedBytes":%d}`, len(event("9", id, "x")))
	if body, status := compact(tokenA, `["`+id+`","`+id+`"]`); status != 200 || body != want {
		t.Errorf("S40: %d %s", status, body)
	}
	r.pushed(1, 0, event("9", id, "x")) // 26
	if _, next := r.pull(""); next != "5" {
		t.Errorf("26: next %s", next)
	}
	r.want("too long", r.do("POST", "/v1/streams/compact", tokenA, strings.Repeat(" ", 64<<10)), 413, "body_too_large")
}

// TestClose: hard cases 27 and 28 of S42 and S43.
func TestClose(t *testing.T) {
	r := newRig(t)
	closing := `{"ownerId":"` + owner + `"}`
	shut := func(token string) (string, int) {
		res := r.do("POST", "/v1/owner/close", token, closing)
		return string(res.Body), res.Status
	}
	if _, status := shut(tokenA); status != 404 {
		t.Errorf("28: close of an unknown owner: %d", status)
	}
	r.unknown("28")
	r.pushed(1, 0, event("1", "", "x"))
	r.put("blob", "x", storedAnswer)
	if _, status := shut(tokenB); status != 401 {
		t.Errorf("S43: wrong token: %d", status)
	}
	r.want("no owner", r.do("POST", "/v1/owner/close", tokenA, "{}"), 400, "bad_request")
	for _, want := range []string{
		`{"closed":true,"deletedEvents":1,"deletedBlobs":1}`, `{"closed":true,"deletedEvents":0,"deletedBlobs":0}`,
	} {
		if body, status := shut(tokenA); status != 200 || body != want {
			t.Errorf("28: %d %s, want %s", status, body, want)
		}
	}
	if _, status := shut(tokenB); status != 401 {
		t.Errorf("S43: wrong token after the close: %d", status)
	}
	for _, c := range []struct{ method, target, body string }{
		{"POST", "/v1/events", pushBody()},
		{"GET", "/v1/events" + query, ""},
		{"GET", "/v1/events/wait" + query, ""},
		{"GET", "/v1/status" + query, ""},
		{"GET", "/v1/usage" + query, ""},
		{"GET", blobPath(hashOf("x")), ""},
		{"PUT", blobPath(hashOf("x")), "x"},
		{"POST", "/v1/streams/compact", `{"ownerId":"` + owner + `","streamIds":[]}`},
	} {
		r.want("27: "+c.method+c.target, r.do(c.method, c.target, tokenA, c.body), 410, "owner_closed")
		r.want("27: "+c.method+c.target, r.do(c.method, c.target, tokenB, c.body), 401, "unauthorized")
	}
}

// TestStatus: the bodies of section 9.
func TestStatus(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxOwnerBytes = 10_000 })
	e := event("1", "stream", "x")
	r.pushed(1, 0, e)
	res := r.do("GET", "/v1/status"+query, tokenA, "")
	clock := `"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`
	want := fmt.Sprintf(`^\{"server":\{"version":"1\.2\.3","serverTime":%s\},"account":\{"ownerId":"%s","quotaBytes":10000,`+
		`"usedBytes":%d,"usedPct":1\.\d+,"headSeq":1,"streams":1,"events":1,"createdAt":%s\}\}$`, clock, owner, len(e), clock)
	if !regexp.MustCompile(want).Match(res.Body) {
		t.Errorf("status %s does not match %s", res.Body, want)
	}
	health := fmt.Sprintf(`^\{"ok":true,"service":"sluice","version":"1\.2\.3","serverTime":%s,"features":\["wait"\]\}$`, clock)
	if res := r.do("GET", "/health", "", ""); res.Status != 200 || !regexp.MustCompile(health).Match(res.Body) {
		t.Errorf("health: %d %s", res.Status, res.Body)
	}
	r.gate.failWith(errors.New("gone"))
	if res := r.do("GET", "/health", "", ""); res.Status != 503 || !strings.HasPrefix(string(res.Body), `{"ok":false`) {
		t.Errorf("health without a store: %d %s", res.Status, res.Body)
	}
	r.gate.failWith(nil)
}

// TestDrain: hard case 15: every event once and ascending while others push.
func TestDrain(t *testing.T) {
	r := newRig(t)
	r.pushed(0, 0)
	const pushes = 100 // of 5 events
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range pushes {
			var batch []string
			for j := range 5 {
				batch = append(batch, event(fmt.Sprint(i*5+j), "", "x"))
			}
			r.pushed(5, 0, batch...)
		}
	}()
	c := r.dial()
	for seen, next := 0, "0"; seen < 5*pushes; {
		_ = c.SendString(head("GET", "/v1/events"+query+"&limit=1&after="+next, tokenA))
		events, cursor := r.page(r.read(c, "GET"))
		if len(events) == 1 {
			if events[0] != event(fmt.Sprint(seen), "", "x") || cursor == next {
				t.Fatalf("event %d is %q, cursor %s after %s", seen, events[0], cursor, next)
			}
			seen++
		}
		next = cursor
	}
	<-done
}

// TestCloseRace: hard case 29: after a close and a push at once the owner holds
// nothing.
func TestCloseRace(t *testing.T) {
	for range 10 {
		r := newRig(t)
		r.pushed(1, 0, event("1", "", "x"))
		status := make(chan int)
		go func() { status <- r.push(tokenA, event("2", "", "x")).Status }()
		res := r.do("POST", "/v1/owner/close", tokenA, `{"ownerId":"`+owner+`"}`)
		if got := <-status; res.Status != 200 || got != 200 && got != 410 {
			t.Errorf("close %d, push %d", res.Status, got)
		}
		r.want("after both", r.do("GET", "/v1/events"+query, tokenA, ""), 410, "owner_closed")
		if n := r.store.Stats().TotalBytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	}
}
