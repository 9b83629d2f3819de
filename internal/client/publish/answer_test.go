package publish

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

// R70 to R73: what each answer means for a batch.
func TestJudge(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		status int
		header string // Retry-After
		body   string
		n      int
		want   answer
		reason string // a part of it
	}{
		{"R77", 202, "", "", 5, answer{verdict: taken}, ""},
		{"check 8", 400, "", `{"error":"invalid-event","line":3,"detail":"no id (R102)"}`, 5, answer{verdict: refused, line: 3}, "invalid-event: no id (R102)"},
		{"check 7", 400, "", `{"error":"invalid-json","line":0,"detail":"eof"}`, 5, answer{verdict: refused}, "invalid-json: eof"},
		{"R73 without a line", 400, "", `{"error":"invalid-json","detail":"not UTF-8"}`, 5, answer{verdict: unclear}, "not UTF-8"},
		{"R73 one line", 400, "", `{"error":"invalid-json","detail":"not UTF-8"}`, 1, answer{verdict: refused}, "not UTF-8"},
		{"a line beyond the request", 400, "", `{"error":"invalid-event","line":5}`, 5, answer{verdict: unclear}, "invalid-event"},
		{"a negative line", 400, "", `{"error":"invalid-event","line":-1}`, 5, answer{verdict: unclear}, "invalid-event"},
		{"check 9", 403, "", `{"error":"control-requires-duplex","line":2,"detail":"x"}`, 5, answer{verdict: refused, line: 2}, "--ws"},
		{"hostile detail", 400, "", `{"error":"invalid-event","line":0,"detail":"\u001b[2J\u202e"}`, 1, answer{verdict: refused}, `\x1b[2J\u{202e}`},
		{"check 4", 413, "", `{"error":"payload-too-large","max_bytes":100}`, 5, answer{verdict: tooMuch, maxBytes: 100}, "100 bytes"},
		{"check 6", 413, "", `{"error":"too-many-events","max":3,"count":5}`, 5, answer{verdict: tooMuch, maxLines: 3}, ""},
		{"413 of a proxy", 413, "", `<html>`, 5, answer{verdict: tooMuch}, ""},
		{"R46", 503, "1", ``, 5, answer{verdict: later, after: time.Second}, "503"},
		{"over the rate", 429, "7", "too many events\n", 5, answer{verdict: later, after: 7 * time.Second}, "(too many events)"},
		{"a date", 503, "Thu, 01 Jan 2026 00:00:05 GMT", "", 5, answer{verdict: later, after: 5 * time.Second}, ""},
		{"a date gone by", 503, "Thu, 01 Jan 2025 00:00:05 GMT", "", 5, answer{verdict: later}, ""},
		{"a day", 503, "86400", "", 5, answer{verdict: later, after: client.MaxRetryAfter}, ""},
		{"beyond 64 bits", 503, "99999999999999999999", "", 5, answer{verdict: later, after: client.MaxRetryAfter}, ""},
		{"below 0", 503, "-5", "", 5, answer{verdict: later}, ""},
		{"nonsense", 503, "soon", "", 5, answer{verdict: later}, ""},
		{"a gateway", 502, "", "<html>", 5, answer{verdict: later}, "502"},
		{"408", 408, "", "", 5, answer{verdict: later}, ""},
		{"check 1", 401, "", "", 5, answer{verdict: never}, "AEP_TOKEN"},
		{"R38", 403, "", "set AEP_ORIGINS", 5, answer{verdict: never}, "AEP_ORIGINS"},
		{"check 2", 426, "", `{"versions":["0.2"]}`, 5, answer{verdict: never}, "AEP 0.1"},
		{"check 3", 415, "", "", 5, answer{verdict: never}, "415"},
		{"no relay", 404, "", "", 5, answer{verdict: never}, "relay at this address"},
		{"no relay either", 200, "", "hello", 5, answer{verdict: never}, "relay at this address"},
		{"redirect", 308, "", "", 5, answer{verdict: never}, "redirected to https://x/"},
		{"400 of another", 400, "", "what?", 5, answer{verdict: never}, "what?"},
	} {
		h := http.Header{"Location": {"https://x/"}}
		if c.header != "" {
			h.Set("Retry-After", c.header)
		}
		got := judge(c.status, h, []byte(c.body), c.n, now)
		if !strings.Contains(got.reason, c.reason) || strings.ContainsAny(got.reason, "\x1b\n") {
			t.Errorf("%s: reason %q, want %q in it", c.name, got.reason, c.reason)
		}
		got.reason = ""
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(400, []byte(`{"error":"invalid-event","line":3,"detail":"x"}`), "5", 4)
	f.Add(413, []byte(`{"error":"too-many-events","max":-3}`), "", 4)
	f.Fuzz(func(t *testing.T, status int, body []byte, after string, n int) {
		n = max(n, 1)
		a := judge(status, http.Header{"Retry-After": {after}}, body, n, time.Now())
		if a.line < 0 || a.line >= n || a.after < 0 || a.after > client.MaxRetryAfter || a.maxLines < 0 || a.maxBytes < 0 {
			t.Errorf("%+v of %d lines", a, n)
		}
		if printable(a.reason) != a.reason && len(a.reason) <= maxPrintable {
			t.Errorf("reason %q", a.reason)
		}
	})
}

func TestPrintable(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
	f("", "")
	f("plain ärger 世界", "plain ärger 世界")
	f("\x1b[31m\x07\r\n\t", `\x1b[31m\x07\x0d\x0a\x09`)
	f("a\u202eb\u2066c\u200b", `a\u{202e}b\u{2066}c\u{200b}`)
	f("\u0085\u009b", `\u{85}\u{9b}`)
	f("\xff\xc3", `\xff\xc3`)
	f("\x7f", `\x7f`)
	f(strings.Repeat("x", maxPrintable+1), strings.Repeat("x", maxPrintable)+"...")
}

// The wait doubles up to its bound, and half of it is drawn.
func TestJitter(t *testing.T) {
	for tries := range 100 {
		full := min(firstWait<<min(tries, 10), maxWait)
		for range 20 {
			if d := client.Jitter(tries, firstWait, maxWait); d < full/2 || d > full {
				t.Errorf("try %d waits %v, want %v to %v", tries, d, full/2, full)
			}
		}
	}
}

// Claims are bounded in number and bytes, the oldest goes first.
func TestClaims(t *testing.T) {
	c := newClaims()
	c.add("a", []byte("first"))
	c.add("b", []byte("second"))
	c.add("a", []byte("third"))
	c.add("b2", make([]byte, maxClaimText+1))
	b := c.batch()
	if len(b.lines) != 2 || string(b.text(0)) != "second" || string(b.text(1)) != "third" {
		t.Errorf("got %q", b.body)
	}
	for i := range 2 * maxClaims {
		c.add(string(rune(0x4e00+i)), make([]byte, maxClaimText))
	}
	if len(c.of) != c.order.Len() || len(c.of) > maxClaims || c.bytes > maxClaimBytes || c.bytes != len(c.of)*maxClaimText {
		t.Errorf("%d claims of %d bytes", len(c.of), c.bytes)
	}
}
