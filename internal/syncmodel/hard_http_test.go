package syncmodel

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// Hard cases about HTTP itself.

func TestHardCase37Preflight(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/v1/events", "/v1/status", "/v1/blobs/x", "/v1/owner/close", "/health", "/v1/nothing"} {
		res := s.do("OPTIONS", path, "", "", "Origin", "https://app.example", "Access-Control-Request-Method", "PUT",
			"Access-Control-Request-Headers", "authorization")
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":      "*",
			"Access-Control-Allow-Methods":     "GET, HEAD, POST, PUT, OPTIONS",
			"Access-Control-Allow-Headers":     "Authorization, Content-Type",
			"Access-Control-Max-Age":           "86400",
			"Access-Control-Allow-Credentials": "",
		} {
			if res.status != 204 || res.body != "" || res.header.Get(name) != want {
				t.Errorf("%s: %d %q, %s is %q", path, res.status, res.body, name, res.header.Get(name))
			}
		}
	}
}

func TestHardCase38ErrorsHaveCORS(t *testing.T) {
	a := newSite(t, "MAX_EVENTS_PER_PUSH=1").account("o")
	for name, res := range map[string]answer{
		"401": a.as("").get("/v1/status"), "404": a.get("/v1/status"), "no route": a.get("/v1/nothing"),
		"405": a.do("DELETE", "/v1/events", a.token, ""), "400": a.push("{}"), "413": a.push(a.envelopes(1, 2)...),
	} {
		if res.header.Get("Access-Control-Allow-Origin") != "*" ||
			res.header.Get("Access-Control-Expose-Headers") != "ETag, Content-Length, Retry-After" {
			t.Errorf("S3: %s: %d %v", name, res.status, res.header)
		}
	}
}

func TestHardCase39BasePath(t *testing.T) {
	s := newSite(t, "SYNC_BASE_PATHS=/v2,/a/b")
	root := s.account("o")
	root.pushed(1, 0, root.envelopes(1, 1)...)
	for i, base := range []string{"/v2", "/a/b"} {
		a := s.account("o")
		a.base = base
		a.pushed(1, 0, a.envelopes(2+i, 1)...)
		if got := a.get("/v1/events"); got.body != root.get("/v1/events").body {
			t.Errorf("%s: %s", base, got.body)
		}
		_ = a.put(base)
		if res := root.do("GET", root.blobPath(hashOf(base)), root.token, ""); res.body != base {
			t.Errorf("%s: chunk %d %q", base, res.status, res.body)
		}
		if res := s.do("GET", base+"/health", "", ""); res.status != 200 || !strings.Contains(res.body, `"ok":true`) {
			t.Errorf("%s: health %d %s", base, res.status, res.body)
		}
	}
	if res := s.do("GET", "/v3/v1/events", root.token, ""); res.status != 404 {
		t.Errorf("another base: %d", res.status)
	}
}

func TestHardCase40BadJSON(t *testing.T) {
	a := newSite(t).account("o")
	good := a.body(a.envelopes(1, 1)...)
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for name, body := range map[string]string{
		"cut off":             `{"ownerId":"a"`,
		"cut in an event":     good[:len(good)-20],
		"70 levels":           `{"ownerId":"o","x":` + deep + `,"events":[]}`,
		"70 levels in one":    a.body(strings.Replace(a.envelope("1", "", "x"), `"version"`, `"x":`+deep+`,"version"`, 1)),
		"100,000 levels":      `{"ownerId":"o","x":` + strings.Repeat("[", 100_000),
		"byte order mark":     "\ufeff" + good,
		"trailing data":       good + "{}",
		"an array":            "[" + good + "]",
		"nothing":             "",
		"invalid UTF-8":       strings.Replace(good, `"x"`, "\"\xff\"", 1),
		"control character":   strings.Replace(good, `"x"`, "\"\x01\"", 1),
		"owner in other case": strings.Replace(good, `{"ownerId"`, `{"OwnerId"`, 1),
	} {
		res := a.post("/v1/events", body)
		if res.status != 400 || !strings.Contains(res.body, `"error":"bad_`) {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
	a.unknown("bad bodies")

	// What is wrong beyond doubt is answered before the body ends.
	for _, start := range []string{"\ufeff", "[", `{"ownerId":"o","events":[{"version":2},`} {
		res := a.raw("POST", a.head("POST", "/v1/events", "Content-Length: 100000")+start)
		if res.status != 400 {
			t.Errorf("%q: %d %s", start, res.status, res.body)
		}
	}
}

// TestHardCase41Dribble: bodies that come slowly hold up nobody. That they are
// ended after 60 s is tested with a simulated clock beside the surface.
func TestHardCase41Dribble(t *testing.T) {
	s := newSite(t)
	a := s.account("o")
	a.pushed(1, 0, a.envelopes(1, 1)...)
	slow := make([]io.Writer, 0, 16)
	body := a.body(a.envelopes(2, 10)...)
	for i := range 16 {
		conn := s.dial()
		defer func() { _ = conn.Close() }()
		head := a.head("POST", "/v1/events", fmt.Sprint("Content-Length: ", len(body)))
		if i%2 == 1 {
			head = a.head("PUT", a.blobPath(hashOf(body)), fmt.Sprint("Content-Length: ", len(body)))
		}
		if _, err := io.WriteString(conn, head+body[:100]); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	for n := range 100 {
		for _, conn := range slow {
			if _, err := io.WriteString(conn, body[100+n:101+n]); err != nil {
				t.Fatal(err)
			}
		}
		a.pushed(1, 0, a.envelopes(100+n, 1)...)
	}
	if ids, _ := a.drain(""); len(ids) != 101 {
		t.Errorf("holds %d events", len(ids))
	}
	s.compactAll()
	wantBody(t, "close", a.closeOwner(), `{"closed":true,"deletedEvents":101,"deletedBlobs":0}`)
}
