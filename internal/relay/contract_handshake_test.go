package relay_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR300Handshake covers R300 to R302: what is refused, with what, and in
// which order.
func TestR300Handshake(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	const (
		upgrade = "Upgrade: websocket"
		conn    = "Connection: Upgrade"
		version = "Sec-WebSocket-Version: 13"
		key     = "Sec-WebSocket-Key: " + relaytest.WSKey
	)
	tok := f.auth()[0]
	all := []string{tok, upgrade, conn, version, key}
	without := func(drop string, add ...string) []string {
		return append(slices.DeleteFunc(slices.Clone(all), func(h string) bool { return h == drop }), add...)
	}
	for _, c := range []struct {
		name, method, target string
		headers              []string
		status               []int
	}{
		{"good", "GET", "/socket", all, []int{101}},
		{"lists and case", "GET", "/socket", without(conn, "connection: keep-alive, UPGRADE"), []int{101}},
		{"upgrade case", "GET", "/socket", without(upgrade, "upgrade: WebSocket"), []int{101}},
		{"R300 no token", "GET", "/socket", without(tok), []int{401}},
		{"R300 wrong token", "GET", "/socket", without(tok, "Authorization: Bearer x"), []int{401}},
		{"R300 token before the handshake headers", "GET", "/socket", []string{upgrade, conn}, []int{401}},
		{"R300 path before the token", "GET", "/sockets", without(tok), []int{401}},
		{"R44 other path", "GET", "/sockets", all, []int{404}},
		{"R44 slash", "GET", "/socket/", all, []int{404}},
		{"R301 POST", "POST", "/socket", append(all, "Content-Length: 0"), []int{405}},
		{"R301 HEAD", "HEAD", "/socket", all, []int{405}},
		{"R301 no key", "GET", "/socket", without(key), []int{400}},
		{"R301 short key", "GET", "/socket", without(key, "Sec-WebSocket-Key: c2hvcnQ="), []int{400}},
		{"R301 key not base64", "GET", "/socket", without(key, "Sec-WebSocket-Key: ????????????????????????"), []int{400}},
		{"R301 long key", "GET", "/socket", without(key, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSBhbmQgbW9yZQ=="), []int{400}},
		{"R301 version 8", "GET", "/socket", without(version, "Sec-WebSocket-Version: 8"), []int{400}},
		{"R301 no version", "GET", "/socket", without(version), []int{400}},
		{"R31 no upgrade", "GET", "/socket", without(upgrade), []int{404}},
		{"R31 upgrade to something else", "GET", "/socket", without(upgrade, "Upgrade: h2c"), []int{400, 404, 426}},
	} {
		r := f.do(t, c.method, f.request(c.method, c.target, c.headers...))
		if !slices.Contains(c.status, r.Status) {
			t.Errorf("%s: status %d, want %d", c.name, r.Status, c.status)
		}
		if strings.Contains(c.name, "version") && r.Header.Get("Sec-WebSocket-Version") != "13" {
			t.Errorf("%s: Sec-WebSocket-Version %q", c.name, r.Header.Get("Sec-WebSocket-Version"))
		}
		if r.Status == 401 {
			wantCORS(t, c.name, r, true)
			if len(r.Body) != 0 || r.CloseDelimited {
				t.Errorf("W30: the 401 to an upgrade is not complete: %q", r.Head)
			}
		}
	}
	c := f.raw(t, 0)
	if r := answer(t, c, "GET", f.request("GET", "/socket", without(tok)...)); r.Status != 401 {
		t.Fatalf("status %d", r.Status)
	}
	if err := c.AwaitEOF(patience); err != nil {
		t.Errorf("R300: after the 401: %v, want close", err)
	}
	r, err := relaytest.Do(f.addr, "GET", "GET /socket HTTP/1.0\r\n"+lines(all)+"\r\n", patience)
	if err != nil || r.Status == 101 {
		t.Errorf("R300: upgrade in HTTP/1.0: %+v, %v", r, err)
	}
}

// TestR302Subprotocols: the first offer comes back, and no extension ever.
func TestR302Subprotocols(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	for _, c := range []struct {
		headers []string
		want    string
	}{
		{nil, ""},
		{[]string{"Sec-WebSocket-Protocol: aep"}, "aep"},
		{[]string{"Sec-WebSocket-Protocol: a.b-c, aep"}, "a.b-c"},
		{[]string{"Sec-WebSocket-Protocol:  first ,second"}, "first"},
		{[]string{"Sec-WebSocket-Protocol: first", "Sec-WebSocket-Protocol: second"}, "first"},
		{[]string{"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"}, ""},
	} {
		w := f.dial(t, relaytest.WSOptions{Headers: c.headers})
		got := w.Response.Header.Values("Sec-WebSocket-Protocol")
		if c.want == "" && len(got) != 0 || c.want != "" && (len(got) != 1 || got[0] != c.want) {
			t.Errorf("%q: protocol %q, want %q", c.headers, got, c.want)
		}
		if ext := w.Response.Header.Values("Sec-WebSocket-Extensions"); len(ext) != 0 {
			t.Errorf("%q: extensions %q", c.headers, ext)
		}
	}
}

// TestC18BytesAfterTheUpgrade: what is glued to the handshake counts.
func TestC18BytesAfterTheUpgrade(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	hello := relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(helloBoth)}.Bytes()
	w := f.dial(t, relaytest.WSOptions{Glued: hello})
	w.frame("hello")

	ten := slices.Clone(hello)
	for i := range 10 {
		ten = append(ten, relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(`{"type":"ping","t":` + string(rune('0'+i)) + `}`)}.Bytes()...)
	}
	w = f.dial(t, relaytest.WSOptions{Glued: ten})
	w.frame("hello")
	for i := range 10 {
		if e := w.frame("pong"); string(e.T) != string(rune('0'+i)) {
			t.Errorf("pong %d has t %s", i, e.T)
		}
	}

	head := relaytest.HandshakeRequest(f.addr, "/socket", relaytest.WSOptions{Token: testToken})
	text := head + string(hello)
	for cut := 1; cut < len(text); cut++ {
		c := f.raw(t, 0)
		if err := c.SendString(text[:cut]); err != nil {
			t.Fatal(err)
		}
		if cut >= len(head) { // the first half is certainly read alone
			if _, err := c.Upgraded(patience); err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		if err := c.SendString(text[cut:]); err != nil {
			t.Fatal(err)
		}
		ws := &relaytest.WS{Conn: c}
		if cut < len(head) {
			var err error
			if ws, err = c.Upgraded(patience); err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		(&socket{WS: ws, t: t}).frame("hello")
		_ = c.Close()
	}
}
