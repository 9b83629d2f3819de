package http1

import (
	"strings"
	"testing"
)

func TestKeepAlive(t *testing.T) {
	for _, c := range []struct {
		rule, version, lines string
		want                 bool
	}{
		{"C12: 1.1 goes on", "1.1", "", true},
		{"C12: 1.1 with close", "1.1", "Connection: close\r\n", false},
		{"close in a list", "1.1", "Connection: x , CLOSE\r\n", false},
		{"close in a second field", "1.1", "Connection: x\r\nconnection: close\r\n", false},
		{"not a token", "1.1", "Connection: closed\r\n", true},
		{"C12: 1.0 ends", "1.0", "", false},
		{"C12: 1.0 with keep-alive", "1.0", "Connection: Keep-Alive\r\n", true},
		{"1.0 with both", "1.0", "Connection: keep-alive, close\r\n", false},
		{"1.0 with close", "1.0", "Connection: close\r\n", false},
	} {
		h, err := parseOne(t, "GET / HTTP/"+c.version+"\r\nHost: a\r\n"+c.lines+"\r\n")
		if err != nil || h.KeepAlive != c.want {
			t.Errorf("%s: %q: %v, want %v", c.rule, c.lines, err, c.want)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	const expect = "Expect: 100-Continue\r\n"
	for _, c := range []struct {
		rule, in string
		want     bool
	}{
		{"C04: length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n" + expect + "\r\n", true},
		{"C04: chunked", "POST / HTTP/1.1\r\nHost: a\r\n" + expect + "Transfer-Encoding: chunked\r\n\r\n", true},
		{"no body", "POST / HTTP/1.1\r\nHost: a\r\n" + expect + "\r\n", false},
		{"1.0", "POST / HTTP/1.0\r\nContent-Length: 1\r\n" + expect + "\r\n", false},
		{"not asked", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", false},
	} {
		h, err := parseOne(t, c.in)
		if err != nil || h.ExpectContinue != c.want {
			t.Errorf("%s: %v, want %v", c.rule, err, c.want)
		}
	}
}

func TestWebSocketUpgrade(t *testing.T) {
	for _, c := range []struct {
		rule, in string
		want     bool
	}{
		{"R300", "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", true},
		{"R300: lists and case", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x, WebSocket\r\nConnection: keep-alive, upgrade\r\n\r\n", true},
		{"two fields", "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", true},
		{"R301: method is not looked at", "PUT / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", true},
		{"no Connection", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", false},
		{"Connection without upgrade", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive\r\n\r\n", false},
		{"no Upgrade", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\r\n", false},
		{"R44: h2c", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", false},
		{"R300: 1.0", "GET / HTTP/1.0\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", false},
	} {
		h, err := parseOne(t, c.in)
		if err != nil || h.IsWebSocketUpgrade() != c.want {
			t.Errorf("%s: %v, want %v", c.rule, err, c.want)
		}
	}
}

func TestHeaderLookup(t *testing.T) {
	h, err := parseOne(t, get("X-One: 1", "x-ONE: 2", "Empty:", "Blank: \t", "Trailer: X-T",
		"Cookie: a=b", "Connection: close", "Content-Type: text/plain"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		count      int
	}{
		{"X-One", "1", 2},
		{"x-one", "1", 2},
		{"Empty", "", 1},
		{"BLANK", "", 1},
		{"trailer", "X-T", 1},
		{"cookie", "a=b", 1},
		{"Connection", "close", 1},
		{"content-type", "text/plain", 1},
		{"HOST", "a", 1},
		{"X-On", "", 0},
		{"", "", 0},
	} {
		value, count := h.Header(c.name), h.HeaderCount(c.name)
		if string(value) != c.want || count != c.count || (value != nil) != (count > 0) {
			t.Errorf("%q: %q (nil: %v), %d times; want %q, %d times", c.name, value, value == nil, count, c.want, c.count)
		}
	}
	var names []string
	h.Each(func(name, _ []byte) bool {
		names = append(names, string(name))
		return len(names) < 3
	})
	if got := strings.Join(names, " "); got != "Host X-One x-ONE" {
		t.Errorf("Each gave %q", got)
	}
}

// TestAbsoluteFormHost: RFC 9112 section 3.2.2 puts the target's authority in
// the place of the header, which stays readable by its name.
func TestAbsoluteFormHost(t *testing.T) {
	h, err := parseOne(t, line("GET http://evil.example:81/x HTTP/1.1"))
	if err != nil || string(h.Host) != "evil.example:81" || string(h.Header("host")) != "a" {
		t.Errorf("%v %q %q", err, h.Host, h.Header("host"))
	}
}
