package relay_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR31RouteTable covers R30 to R32, R35, R36 and R41: who is asked for a
// token, what is not found, and where the CORS header stands.
func TestR31RouteTable(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	const (
		open   = "without a token"
		authed = "with the token"
	)
	cases := []struct {
		rule, who, method, target string
		status                    int
		cors                      bool
		contentType               string
	}{
		{"R50", open, "GET", "/healthz", 200, false, jsonType},
		{"R50", open, "GET", "/healthz?x=1", 200, false, jsonType},
		{"R32 absolute form", open, "GET", "http://x/healthz", 200, false, jsonType},
		{"R36", open, "OPTIONS", "/stream", 204, true, ""},
		{"R36", open, "OPTIONS", "/stream?x=1", 204, true, ""},
		{"R36", open, "OPTIONS", "/connections", 204, true, ""},
		{"R30 only two preflights", open, "OPTIONS", "/events", 401, true, ""},
		{"R30 only two preflights", authed, "OPTIONS", "/events", 404, false, ""},
		{"R30 only two preflights", authed, "OPTIONS", "/healthz", 404, false, ""},
		{"R30 only two preflights", open, "OPTIONS", "/socket", 401, true, ""},
		{"R30 401 before 404", open, "GET", "/nope", 401, true, ""},
		{"R30 401 before 404", open, "HEAD", "/healthz", 401, true, ""},
		{"R30 401 before 404", open, "POST", "/healthz", 401, true, ""},
		{"R30 401 before 404", open, "GET", "/healthz/", 401, true, ""},
		{"R41", open, "GET", "/", 401, true, ""},
		{"R41", open, "GET", "/connections", 401, true, ""},
		{"R41", open, "GET", "/events", 401, true, ""},
		{"R41", open, "GET", "/.well-known/aep", 401, true, ""},
		{"R41", open, "POST", "/events", 401, true, ""},
		{"R41", open, "GET", "/stream", 401, true, ""},
		{"R41", open, "GET", "/socket", 401, true, ""},
		{"R31", authed, "GET", "/connections", 200, true, jsonType},
		{"R31", authed, "GET", "/events", 200, false, jsonType},
		{"R31", authed, "GET", "/.well-known/aep", 200, false, jsonType},
		{"R31", authed, "GET", "/", 404, false, ""},
		{"R31", authed, "GET", "/nope", 404, false, ""},
		{"R31 HEAD", authed, "HEAD", "/healthz", 404, false, ""},
		{"R31 HEAD", authed, "HEAD", "/stream", 404, false, ""},
		{"R31 HEAD", authed, "HEAD", "/events", 404, false, ""},
		{"R31 method", authed, "POST", "/stream", 404, false, ""},
		{"R31 method", authed, "POST", "/healthz", 404, false, ""},
		{"R31 method", authed, "DELETE", "/events", 404, false, ""},
		{"R31 method", authed, "PUT", "/events", 404, false, ""},
		{"R31 method", authed, "get", "/events", 404, false, ""},
		{"R31 slash", authed, "GET", "/healthz/", 404, false, ""},
		{"R31 slash", authed, "GET", "/stream/", 404, false, ""},
		{"R31 slash", authed, "GET", "/events/", 404, false, ""},
		{"R31 no upgrade", authed, "GET", "/socket", 404, false, ""},
		{"R32 escapes stay", authed, "GET", "/%65vents", 404, false, ""},
		{"R32 case counts", authed, "GET", "/Events", 404, false, ""},
	}
	for _, c := range cases {
		var headers []string
		if c.who == authed {
			headers = f.auth()
		}
		r := f.do(t, c.method, f.request(c.method, c.target, headers...))
		name := c.rule + ": " + c.method + " " + c.target + " " + c.who
		if r.Status != c.status {
			t.Errorf("%s: status %d, want %d", name, r.Status, c.status)
			continue
		}
		wantCORS(t, name, r, c.cors)
		if got := r.Header.Get("Content-Type"); c.contentType != "" && got != c.contentType {
			t.Errorf("%s: Content-Type %q, want %q", name, got, c.contentType)
		}
		if c.contentType == "" && len(r.Body) != 0 {
			t.Errorf("%s: body %q, want none", name, r.Body)
		}
		if got := r.Header.Get("WWW-Authenticate"); (c.status == 401) != (got == "Bearer") {
			t.Errorf("R41: %s: WWW-Authenticate %q", name, got)
		}
	}
	if h := f.health(t); h.Subscribers != 0 || h.Connections != 0 {
		t.Errorf("C14: after refused requests: %+v", h)
	}
}

func wantCORS(t *testing.T, name string, r *relaytest.Response, want bool) {
	t.Helper()
	if got := r.Header.Values("Access-Control-Allow-Origin"); want != (len(got) == 1 && got[0] == "*") || !want && len(got) > 0 {
		t.Errorf("R35: %s: Access-Control-Allow-Origin %q, want it: %v", name, got, want)
	}
}

func TestR36Preflight(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	for _, path := range []string{"/stream", "/connections"} {
		r := f.do(t, "OPTIONS", f.request("OPTIONS", path, "Origin: https://elsewhere.example",
			"Access-Control-Request-Headers: authorization,last-event-id,cache-control,aep-version"))
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":  "*",
			"Access-Control-Allow-Methods": "GET, OPTIONS",
			"Access-Control-Allow-Headers": "authorization, accept, content-type, last-event-id",
			"Access-Control-Max-Age":       "86400",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("OPTIONS %s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

func TestC64CORSOnRefusals(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	r := f.do(t, "GET", f.request("GET", "/stream", "Origin: https://elsewhere.example"))
	if r.Status != 401 {
		t.Errorf("status %d, want 401", r.Status)
	}
	wantCORS(t, "401", r, true)
	r = f.get(t, "/stream?filter=x", "Origin: https://elsewhere.example")
	if r.Status != 400 {
		t.Errorf("status %d, want 400", r.Status)
	}
	wantCORS(t, "R270: 400", r, true)
}

// TestR40Authentication covers R33, R40, R41 and R43.
func TestR40Authentication(t *testing.T) {
	t.Parallel()
	header := func(v string) []string { return []string{"Authorization: " + v} }
	cases := []struct {
		rule, token, query string
		headers            []string
		pass               bool
	}{
		{"R40 header", "tok", "", header("Bearer tok"), true},
		{"R40 query", "tok", "access_token=tok", nil, true},
		{"R40 wrong header, right query", "tok", "access_token=tok", header("Bearer no"), true},
		{"R40 right header, wrong query", "tok", "access_token=no", header("Bearer tok"), true},
		{"R40 foreign scheme, right query", "tok", "access_token=tok", header("Basic dG9r"), true},
		{"R40 both wrong", "tok", "access_token=no", header("Bearer no"), false},
		{"R40 first value counts", "tok", "access_token=tok&access_token=no", nil, true},
		{"R40 first value counts", "tok", "access_token=no&access_token=tok", nil, false},
		{"R40 nothing", "tok", "", nil, false},
		{"R34 empty is absent", "tok", "access_token=", nil, false},
		{"R40 longer", "tok", "", header("Bearer tokk"), false},
		{"R40 shorter", "tok", "", header("Bearer to"), false},
		{"R43 scheme case", "tok", "", header("bearer tok"), true},
		{"R43 scheme case", "tok", "", header("BEARER tok"), true},
		{"R43 token case", "tok", "", header("Bearer TOK"), false},
		{"R43 two spaces", "tok", "", header("Bearer  tok"), false},
		{"R43 tab", "tok", "", header("Bearer\ttok"), false},
		{"R43 no space", "tok", "", header("Bearertok"), false},
		{"R43 no token", "tok", "", header("Bearer"), false},
		{"R43 bare token", "tok", "", header("tok"), false},
		{"R43 other scheme", "tok", "", header("Basic tok"), false},
		{"R33 percent", "a b/c", "access_token=a%20b%2Fc", nil, true},
		{"R33 plus is a space", "a b;c", "access_token=a+b;c", nil, true},
		{"R33 semicolon is ordinary", "tok", "x=1;access_token=tok", nil, false},
		{"R33 broken escape stays", "50%", "access_token=50%", nil, true},
		{"R33 broken escape stays", "5%zz", "y=%&access_token=5%zz", nil, true},
		{"R33 escaped name", "tok", "access%5Ftoken=tok", nil, true},
		{"R43 token with a space", "a b;c", "", header("Bearer a b;c"), true},
	}
	relays := map[string]*fixture{}
	for _, c := range cases {
		f := relays[c.token]
		if f == nil {
			f = startRelay(t, map[string]string{"AEP_TOKEN": c.token})
			relays[c.token] = f
		}
		target := "/connections?" + c.query
		want := 401
		if c.pass {
			want = 200
		}
		if r := f.do(t, "GET", f.request("GET", target, c.headers...)); r.Status != want {
			t.Errorf("%s: token %q, query %q, headers %q: status %d, want %d", c.rule, c.token, c.query, c.headers, r.Status, want)
		}
	}
}

func TestR40QueryTokenOnEveryRoute(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	body := relaytest.Event{Session: "s"}.JSON()
	cases := []struct {
		method, target string
		headers        []string
		body           string
		status         int
	}{
		{"GET", "/healthz", nil, "", 200},
		{"GET", "/connections", nil, "", 200},
		{"GET", "/events", nil, "", 200},
		{"GET", "/.well-known/aep", nil, "", 200},
		{"GET", "/nope", nil, "", 404},
		{"POST", "/events", []string{"AEP-Version: 0.1", "Content-Type: application/json", "Transfer-Encoding: chunked"}, chunks(body), 202},
	}
	for _, c := range cases {
		r := f.do(t, c.method, f.request(c.method, relaytest.WithToken(c.target, testToken), c.headers...)+c.body)
		if r.Status != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.target, r.Status, c.status)
		}
		if c.target == "/healthz" && !strings.Contains(string(r.Body), "uptime_s") {
			t.Errorf("R50: with the query token: %s", r.Body)
		}
	}
	s, err := relaytest.OpenStream(f.addr, relaytest.WithToken("/stream?capture=full", testToken), relaytest.StreamOptions{})
	if err != nil || s.Response.Status != 200 {
		t.Fatalf("GET /stream: %v, %+v", err, s)
	}
	_ = s.Close()
	w, err := relaytest.DialWS(f.addr, relaytest.WithToken("/socket", testToken), relaytest.WSOptions{})
	if err != nil {
		t.Fatalf("GET /socket: %v", err)
	}
	_ = w.Close()
}

// chunks frames body in chunks of at most 7 bytes.
func chunks(body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(7, len(body))
		b.WriteString(string("01234567"[n]) + "\r\n" + body[:n] + "\r\n")
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// TestR44UpgradeElsewhere covers R44 and W30.
func TestR44UpgradeElsewhere(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	h2c := []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"}
	ws := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + relaytest.WSKey}
	for _, headers := range [][]string{h2c, ws} {
		for target, want := range map[string]int{"/healthz": 200, "/events": 200, "/stream?live=0": 200, "/nope": 404} {
			if r := f.get(t, target, headers...); r.Status != want {
				t.Errorf("GET %s with %q: status %d, want %d", target, headers[1], r.Status, want)
			}
		}
	}
	if r := f.get(t, "/socket", h2c...); r.Status == 101 || r.Status >= 500 {
		t.Errorf("GET /socket with an h2c offer: status %d", r.Status)
	}
}

// TestR38WebPageGuards: a relay without a token is closed to foreign pages.
func TestR38WebPageGuards(t *testing.T) {
	t.Parallel()
	loopback := startRelay(t, nil)
	listed := startRelay(t, map[string]string{"AEP_ORIGINS": "https://dash.example,http://other.example:8080"})
	anyOrigin := startRelay(t, map[string]string{"AEP_ORIGINS": "*"})
	wide := startRelay(t, map[string]string{"AEP_HOST": "0.0.0.0"})
	token := startTokenRelay(t, nil)
	cases := []struct {
		name         string
		f            *fixture
		host, origin string
		pass         bool
	}{
		{"plain", loopback, "", "", true},
		{"localhost host", loopback, "localhost:8787", "", true},
		{"v6 host", loopback, "[::1]:8787", "", true},
		{"foreign host", loopback, "evil.example", "", false},
		{"foreign host that looks near", loopback, "127.0.0.1.evil.example", "", false},
		{"foreign host with its own origin", loopback, "evil.example", "http://evil.example", false},
		{"local page", loopback, "", "http://localhost:3000", true},
		{"local page", loopback, "", "https://127.0.0.1", true},
		{"local page", loopback, "", "http://127.0.0.2:9", true},
		{"local page", loopback, "", "http://[::1]:80", true},
		{"foreign page", loopback, "", "https://evil.example", false},
		{"foreign page that looks near", loopback, "", "http://localhost.evil.example", false},
		{"foreign page that looks near", loopback, "", "http://127.0.0.1.evil.example", false},
		{"opaque origin", loopback, "", "null", false},
		{"listed page", listed, "", "https://dash.example", true},
		{"listed page", listed, "", "http://other.example:8080", true},
		{"page not listed", listed, "", "https://evil.example", false},
		{"listed host", listed, "dash.example", "", true},
		{"host not listed", listed, "evil.example", "", false},
		{"star", anyOrigin, "", "https://evil.example", true},
		{"star", anyOrigin, "evil.example", "", true},
		{"wide bind, any host", wide, "relay.example", "", true},
		{"wide bind, page of the host", wide, "relay.example", "http://relay.example", true},
		{"wide bind, foreign page", wide, "relay.example", "http://evil.example", false},
		{"token protects", token, "", "https://evil.example", true},
		{"token protects", token, "evil.example", "", true},
	}
	for _, c := range cases {
		for _, route := range guarded {
			r := c.f.do(t, route.method, route.request(c.f, c.host, c.origin))
			name := "R38: " + c.name + ": " + route.method + " " + route.target + " Host " + c.host + " Origin " + c.origin
			if c.pass && r.Status != route.status {
				t.Errorf("%s: status %d, want %d", name, r.Status, route.status)
			}
			if c.pass {
				continue
			}
			if r.Status != 403 || len(r.Body) == 0 {
				t.Errorf("%s: status %d, body %q, want 403 with a text", name, r.Status, r.Body)
			}
			wantCORS(t, name, r, false)
		}
	}
	if got := loopback.held(t); len(got) != 7 {
		t.Errorf("R38: refused posts: relay holds %d events, want the 7 of the accepted rows", len(got))
	}
}

type guardedRoute struct {
	method, target string
	status         int
}

var guarded = []guardedRoute{
	{"GET", "/connections", 200},
	{"GET", "/stream?live=0", 200},
	{"POST", "/events", 202},
	{"GET", "/socket", 101},
}

func (g guardedRoute) request(f *fixture, host, origin string) string {
	headers := f.auth()
	if origin != "" {
		headers = append(headers, "Origin: "+origin)
	}
	if host == "" {
		host = f.addr
	}
	body := ""
	switch g.target {
	case "/socket":
		headers = append(headers, "Upgrade: websocket", "Connection: Upgrade",
			"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: "+relaytest.WSKey)
	case "/events":
		headers = append(headers, "AEP-Version: 0.1", "Content-Type: "+jsonType, "Transfer-Encoding: chunked")
		body = chunks(relaytest.Event{Session: "s"}.JSON())
	}
	return g.method + " " + g.target + " HTTP/1.1\r\nHost: " + host + "\r\n" + lines(headers) + "\r\n" + body
}

func TestR38LeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	for _, c := range []struct {
		method, target string
		status         int
	}{{"GET", "/healthz", 200}, {"GET", "/events", 200}, {"GET", "/.well-known/aep", 200}, {"OPTIONS", "/stream", 204}, {"GET", "/nope", 404}} {
		request := c.method + " " + c.target + " HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n"
		if r := f.do(t, c.method, request); r.Status != c.status {
			t.Errorf("%s %s from a foreign page: status %d, want %d", c.method, c.target, r.Status, c.status)
		}
	}
	if r := f.do(t, "GET", "GET /connections HTTP/1.0\r\n\r\n"); r.Status != 200 {
		t.Errorf("HTTP/1.0 without Host: status %d, want 200", r.Status)
	}
}

func TestR50Health(t *testing.T) {
	t.Parallel()
	token, open := startTokenRelay(t, nil), startRelay(t, nil)
	for _, headers := range [][]string{nil, {"Authorization: Bearer wrong"}} {
		if r := token.do(t, "GET", token.request("GET", "/healthz", headers...)); string(r.Body) != `{"ok":true}` {
			t.Errorf("without the token: %s, want {\"ok\":true}", r.Body)
		}
	}
	for _, f := range []*fixture{token, open} {
		f.post(t, relaytest.Event{Session: "a"}.JSON(), relaytest.Event{Session: "b"}.JSON())
		f.stream(t, "", relaytest.StreamOptions{})
		w := f.socket(t, "")
		w.subscribe(`{"type":"subscribe","id":1}`)
		w.subscribe(`{"type":"subscribe","id":2}`)
		silent := f.dial(t, relaytest.WSOptions{})
		body := map[string]any{}
		if err := json.Unmarshal(f.get(t, "/healthz").Body, &body); err != nil {
			t.Fatal(err)
		}
		for k, want := range map[string]any{"ok": true, "sessions": 2.0, "subscribers": 3.0, "connections": 2.0} {
			if body[k] != want {
				t.Errorf("%s is %v, want %v", k, body[k], want)
			}
		}
		if up, ok := body["uptime_s"].(float64); !ok || up != float64(int(up)) || len(body) != 5 {
			t.Errorf("members %v, want ok, sessions, subscribers, connections and whole uptime_s", body)
		}
		_ = silent.Reset()
		f.awaitHealth(t, "R334: a connection before hello was reset", func(h health) bool { return h.Connections == 1 })
	}
}

func TestR52Connections(t *testing.T) {
	t.Parallel()
	for _, f := range []*fixture{startTokenRelay(t, nil), startRelay(t, nil)} {
		f.dial(t, relaytest.WSOptions{}) // before hello: not listed
		w := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"emitter","identity":{"agent":"a","x":1},`+
			`"capabilities":{"control":{"accepts":["control.cancel"]}}}`)
		w.send(relaytest.Event{Session: "s1"}.JSON())
		w.subscribe(`{"type":"subscribe","id":"q"}`)
		f.socket(t, `{"type":"hello","versions":["0.1"]}`)
		f.stream(t, "", relaytest.StreamOptions{})
		var body map[string]json.RawMessage
		if err := json.Unmarshal(f.get(t, "/connections").Body, &body); err != nil {
			t.Fatal(err)
		}
		var relayPart map[string]any
		if err := json.Unmarshal(body["relay"], &relayPart); err != nil {
			t.Fatal(err)
		}
		for k, want := range map[string]any{"sessions": 1.0, "subscribers": 2.0, "connections": 3.0, "control": f.token != ""} {
			if relayPart[k] != want {
				t.Errorf("relay.%s is %v, want %v", k, relayPart[k], want)
			}
		}
		if _, ok := relayPart["uptime_s"].(float64); !ok || len(relayPart) != 5 || len(body) != 4 || string(body["ok"]) != "true" {
			t.Errorf("body %s", body)
		}
		if string(body["sse_subscribers"]) != "1" {
			t.Errorf("sse_subscribers %s, want 1", body["sse_subscribers"])
		}
		var list []json.RawMessage
		if err := json.Unmarshal(body["connections"], &list); err != nil || len(list) != 2 {
			t.Fatalf("connections %s, want 2 entries", body["connections"])
		}
		if strings.Contains(string(list[1]), "emitter") {
			list[0], list[1] = list[1], list[0]
		}
		wantJSON(t, "R52", string(list[0]), `{"role":"emitter","identity":{"agent":"a","x":1},"accepts":["control.cancel"],"sessions":["s1"],"subscriptions":1}`)
		wantJSON(t, "R52, R311", string(list[1]), `{"role":"both","identity":null,"accepts":null,"sessions":[],"subscriptions":0}`)
	}
}

func TestR55Discovery(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{nil, {"AEP_TOKEN": testToken, "AEP_BUFFER": "64"}} {
		f := startRelay(t, env)
		buffer := "10000"
		if env != nil {
			buffer = "64"
		}
		r := f.get(t, "/events")
		wantJSON(t, "R55: both routes", string(f.get(t, "/.well-known/aep").Body), string(r.Body))
		boot := f.boot(t)
		if boot == "" {
			t.Errorf("R55: no boot id in %s", r.Body)
		}
		capabilities := `{"filters":["attr-match"],"replay":{"buffer":` + buffer + `,"all":true},` +
			`"capture":["none","metadata","redacted","full"],"control":{"accepts":[]},"roster":{},` +
			`"experimental":{"boot":` + relaytest.Quote(boot) + `}}`
		wantJSON(t, "R55", string(r.Body), `{"aep":["0.1"],"role":"collector",`+
			`"endpoints":{"events":"/events","stream":"/stream","socket":"/socket"},"capabilities":`+capabilities+`}`)
		w := f.dial(t, relaytest.WSOptions{})
		w.send(helloBoth)
		wantJSON(t, "R56, R310", w.text(), `{"type":"hello","versions":["0.1"],"role":"both",`+
			`"identity":{"agent":"aep-relay"},"capabilities":`+capabilities+`}`)
	}
}

// boot is the boot id of the discovery document.
func (f *fixture) boot(t *testing.T) string {
	t.Helper()
	var doc struct {
		Capabilities struct {
			Experimental struct{ Boot string } `json:"experimental"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(f.get(t, "/events").Body, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Capabilities.Experimental.Boot
}

func TestR55BootDiffersPerStart(t *testing.T) {
	t.Parallel()
	if a, b := startRelay(t, nil).boot(t), startRelay(t, nil).boot(t); a == b {
		t.Errorf("two relays have the boot id %q", a)
	}
}
