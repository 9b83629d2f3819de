package relay_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// raw opens a connection of the test.
func (f *fixture) raw(t *testing.T, recvBytes int) *relaytest.Conn {
	t.Helper()
	c, err := relaytest.DialRecvBuf(f.addr, recvBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// answer sends text and reads one answer.
func answer(t *testing.T, c *relaytest.Conn, method, text string) *relaytest.Response {
	t.Helper()
	if err := c.SendString(text); err != nil {
		t.Fatalf("send %.100q: %v", text, err)
	}
	return reads(t, c, method)
}

func reads(t *testing.T, c *relaytest.Conn, method string) *relaytest.Response {
	t.Helper()
	r, err := c.ReadResponse(method, patience)
	if err != nil {
		t.Fatalf("answer to %s: %v", method, err)
	}
	return r
}

// TestR47HeadSize covers R47, W31 and C06: heads up to 128 KiB, then 431.
func TestR47HeadSize(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	long := func(n int) string { return strings.Repeat("x", n) }
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat("X-Many: yes\r\n", n), "\r\n") }
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"64 KiB header", f.request("GET", "/healthz", "X-Long: "+long(64<<10)), 200},
		{"127 KiB header", f.request("GET", "/healthz", "X-Long: "+long(127<<10)), 200},
		{"64 KiB request line", f.request("GET", "/healthz?q="+long(64<<10)), 200},
		{"127 KiB request line", f.request("GET", "/healthz?q="+long(127<<10)), 200},
		{"1 MiB header", f.request("GET", "/healthz", "X-Long: "+long(1<<20)), 431},
		{"1 MiB request line", f.request("GET", "/healthz?q="+long(1<<20)), 431},
		{"1 MiB of small headers", f.request("GET", "/healthz", many(80_000)), 431},
		{"head without an end", "GET /healthz HTTP/1.1\r\nX: " + long(1<<20), 431},
	} {
		conn := f.raw(t, 0)
		_ = conn.SendString(c.request) // the relay may cut a long one short
		r, err := conn.ReadResponse("GET", patience)
		if err != nil || r.Status != c.status {
			t.Errorf("%s: %+v, %v; want %d", c.name, r, err, c.status)
			continue
		}
		if c.status == 431 {
			if _, err := conn.Drain(patience); relaytest.IsTimeout(err) {
				t.Errorf("%s: connection stays open after 431", c.name)
			}
		}
	}
}

func TestR47FullFromFitsInAQuery(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	var from []string
	for i := range 500 {
		from = append(from, fmt.Sprintf(`{"session":"01JX9YB0AAAA000000000000000-%03d","epoch":1767225600000,"seq":123456}`, i))
	}
	if got := f.replay(t, query("from", "["+strings.Join(from, ",")+"]")); len(got) != 0 {
		t.Errorf("R169: unknown sessions gave %q", texts(got))
	}
}

func TestR47SlowHeadIsCut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	f := startRelay(t, nil)
	c := f.raw(t, 0)
	begin := time.Now()
	for _, b := range "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: " + strings.Repeat("z", 100) {
		if c.SendString(string(b)) != nil {
			break
		}
		if _, err := c.ReadHead(300 * time.Millisecond); !relaytest.IsTimeout(err) {
			break
		}
	}
	took := time.Since(begin)
	if took < 5*time.Second || took > 25*time.Second { // all of it would take over 40 s
		t.Errorf("a head sent byte by byte was cut after %v, want about 10 s", took)
	}
}

func TestR49PipelineOrder(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	c := f.raw(t, 0)
	e := relaytest.Event{Session: "s"}
	var all strings.Builder
	want := []int{200, 202, 404, 200, 202, 400, 204, 200}
	all.WriteString(f.request("GET", "/healthz"))
	all.WriteString(f.postRequest(jsonType, e.JSON()))
	all.WriteString(f.request("GET", "/nope"))
	all.WriteString(f.request("GET", "/stream?live=0&from=all"))
	all.WriteString(f.request("POST", "/events", "AEP-Version: 0.1", "Content-Type: "+jsonType, "Transfer-Encoding: chunked") + chunks(e.JSON()))
	all.WriteString(f.postRequest(jsonType, "{"))
	all.WriteString(f.request("OPTIONS", "/stream"))
	all.WriteString(f.request("GET", "/connections"))
	if err := c.SendString(all.String()); err != nil {
		t.Fatal(err)
	}
	for i, status := range want {
		if r := reads(t, c, "GET"); r.Status != status {
			t.Errorf("answer %d: status %d, want %d", i, r.Status, status)
		}
	}
}

// TestR49PipelineSplit covers C07: two requests cut at each byte.
func TestR49PipelineSplit(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "10"})
	e := relaytest.Event{Session: "s"}
	text := f.postRequest(ndjson, e.JSON()) +
		f.request("POST", "/events", "AEP-Version: 0.1", "Content-Type: "+ndjson, "Transfer-Encoding: chunked") + chunks(e.JSON()+"\n")
	c := f.raw(t, 0)
	two := func(what string) {
		for i := range 2 {
			if r := reads(t, c, "POST"); r.Status != 202 {
				t.Fatalf("%s: answer %d has status %d", what, i, r.Status)
			}
		}
	}
	for cut := 1; cut < len(text); cut++ {
		if err := c.SendString(text[:cut]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // let the first part be read alone
		if err := c.SendString(text[cut:]); err != nil {
			t.Fatal(err)
		}
		two(fmt.Sprintf("cut at %d", cut))
	}
	for i := range len(text) {
		if err := c.SendString(text[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	two("one byte a write")
}

func TestR49BehindStreams(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	f.post(t, relaytest.Event{Session: "s"}.JSON())
	c := f.raw(t, 0)
	text := f.request("GET", "/stream?live=0&from=all") + f.request("GET", "/healthz") +
		relaytest.HandshakeRequest(f.addr, "/socket", relaytest.WSOptions{}) +
		string(relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(helloBoth)}.Bytes())
	if r := answer(t, c, "GET", text); !strings.HasSuffix(string(r.Body), ": replay-complete\n\n") {
		t.Errorf("first answer %q", r.Body)
	}
	if r := reads(t, c, "GET"); r.Status != 200 || !strings.Contains(string(r.Body), `"ok":true`) {
		t.Errorf("second answer %d %q", r.Status, r.Body)
	}
	w, err := c.Upgraded(patience)
	if err != nil {
		t.Fatalf("the upgrade has to wait its turn: %v", err)
	}
	if e := (&socket{WS: w, t: t}).frame("hello"); e.Role != "both" {
		t.Errorf("hello %+v", e)
	}

	live := f.stream(t, "", relaytest.StreamOptions{})
	if err := live.SendString(f.request("GET", "/healthz") + "junk"); err != nil {
		t.Fatal(err)
	}
	f.post(t, relaytest.Event{Session: "s", Seq: 1}.JSON())
	live.event()
}

func TestR49PipelineBound(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	f.fill(t, "s", 6000, 1000)
	const waiting = 200
	s := f.stream(t, "live=0&from=all", relaytest.StreamOptions{RecvBytes: 4 << 10})
	_ = s.SendString(strings.Repeat(f.request("GET", "/nope"), waiting)) // may be cut
	var err error
	for err == nil {
		_, err = s.Next(patience)
	}
	if relaytest.IsTimeout(err) {
		t.Fatal("more than 64 requests behind an unfinished answer: neither served nor cut")
	}
	if !errors.Is(err, io.EOF) {
		return // cut inside the replay
	}
	served := 0
	for ; served < waiting; served++ {
		if _, err = s.ReadResponse("GET", patience); err != nil {
			break
		}
	}
	if served == waiting || relaytest.IsTimeout(err) {
		t.Errorf("%d of %d requests behind an unfinished answer were served, then %v", served, waiting, err)
	}
}

// fill posts n events of about size bytes to session, from sequence 0 on.
func (f *fixture) fill(t *testing.T, session string, n, size int) {
	t.Helper()
	var batch []string
	for i := range n {
		batch = append(batch, relaytest.Padded(session, uint64(i), "notice", size).JSON())
		if len(batch) == 500 || i == n-1 {
			f.post(t, batch...)
			batch = batch[:0]
		}
	}
}

// TestC01SmugglingIsRefused covers C01, C03, C09 and plain syntax faults: the
// request is refused, the connection ends, and what follows is not answered.
func TestC01SmugglingIsRefused(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	post := func(framing, body string) string {
		return "POST /events HTTP/1.1\r\nHost: " + f.addr + "\r\nAEP-Version: 0.1\r\nContent-Type: application/x-ndjson\r\n" + framing + "\r\n\r\n" + body
	}
	te := func(body string) string { return post("Transfer-Encoding: chunked", body) }
	hidden := "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	head := func(s string) string { return s + hidden }
	cases := []struct{ name, request string }{
		{"C01 length and chunked", post("Content-Length: 6\r\nTransfer-Encoding: chunked", "0\r\n\r\n"+hidden)},
		{"C01 chunked and length", post("Transfer-Encoding: chunked\r\nContent-Length: 6", "0\r\n\r\n"+hidden)},
		{"C03 conflict", post("Content-Length: 37\r\nContent-Length: 0", hidden)},
		{"C03 conflict", post("Content-Length: 0\r\nContent-Length: 37", hidden)},
		{"C03 list", post("Content-Length: 0, 37", hidden)},
		{"C03 plus", post("Content-Length: +5", hidden)},
		{"C03 minus", post("Content-Length: -1", hidden)},
		{"C03 hex", post("Content-Length: 0x5", hidden)},
		{"C03 letters", post("Content-Length: 5a", hidden)},
		{"C03 empty", post("Content-Length: ", hidden)},
		{"C03 20 digits", post("Content-Length: 99999999999999999999", hidden)},
		{"C09 overflow", te("ffffffffffffffff\r\n" + hidden)},
		{"C09 overflow", te("10000000000000000\r\n" + hidden)},
		{"C09 negative", te("-1\r\n" + hidden)},
		{"C09 leading space", te(" 5\r\nabcde\r\n0\r\n\r\n" + hidden)},
		{"C09 trailing space", te("5 \r\nabcde\r\n0\r\n\r\n" + hidden)},
		{"C09 empty", te("\r\n\r\n" + hidden)},
		{"C09 prefix", te("0x5\r\nabcde\r\n0\r\n\r\n" + hidden)},
		{"C09 data overruns", te("1\r\n\n\n0\r\n\r\n" + hidden)},
		{"C09 bare LF", te("1\n\n\r\n0\r\n\r\n" + hidden)},
		{"coding before chunked", post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"+hidden)},
		{"chunked not last", post("Transfer-Encoding: chunked, gzip", "0\r\n\r\n"+hidden)},
		{"chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"+hidden)},
		{"unknown coding", post("Transfer-Encoding: xchunked", "0\r\n\r\n"+hidden)},
		{"space before colon", post("Content-Length : 37", hidden)},
		{"folded header", post("X-A: b\r\n folded: c\r\nContent-Length: 0", hidden)},
		{"bare LF", head("GET /healthz HTTP/1.1\nHost: x\n\n")},
		{"bare CR in a header", head("GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n")},
		{"NUL in a header", head("GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n")},
		{"no host", head("GET /healthz HTTP/1.1\r\n\r\n")},
		{"two hosts", head("GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n")},
		{"W1 host with a space", head("GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n")},
		{"no version", head("GET /healthz\r\nHost: x\r\n\r\n")},
		{"version 2.0", head("GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n")},
		{"space in the target", head("GET /he althz HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"header without a name", head("GET /healthz HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n")},
		{"not HTTP", head("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")},
	}
	for _, c := range cases {
		conn := f.raw(t, 0)
		if err := conn.SendString(c.request); err != nil {
			t.Errorf("%s: send: %v", c.name, err)
			continue
		}
		r, err := conn.ReadResponse("POST", patience)
		if err != nil || r.Status < 400 || r.Status > 505 || r.Status == 500 {
			t.Errorf("%s: %+v, %v; want a refusal", c.name, r, err)
			continue
		}
		if (c.name[0] == 'C' || c.name[0] == 'W') && r.Status != 400 {
			t.Errorf("%s: status %d, want 400", c.name, r.Status)
		}
		if err := conn.AwaitEOF(patience); err != nil {
			t.Errorf("%s: after the refusal: %v, want the end of the connection", c.name, err)
		}
	}
	if got := f.held(t); len(got) != 0 {
		t.Errorf("refused requests left %q", got)
	}
}

func TestC03EqualLengthsAreTreatedAlike(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	body := relaytest.Event{Session: "s"}.JSON()
	var seen []int
	for _, framing := range []string{"Content-Length: %[1]d\r\nContent-Length: %[1]d", "Content-Length: %[1]d, %[1]d"} {
		for range 3 {
			r := f.do(t, "POST", f.request("POST", "/events", "AEP-Version: 0.1", "Content-Type: "+jsonType,
				fmt.Sprintf(framing, len(body)))+body)
			seen = append(seen, r.Status)
		}
	}
	for _, s := range seen {
		if s != seen[0] || s != 202 && s != 400 {
			t.Fatalf("equal lengths answered %v, want all 202 or all 400", seen)
		}
	}
}

// TestW1StrangeTargets: whatever the target, the relay answers and lives.
func TestW1StrangeTargets(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	for _, target := range []string{"//", "///", "/\\", "*", "http://", "http:///", "://x", "?", "/%", "/%zz", "/%00", "/..", "http://[::1/healthz", "x"} {
		r, err := relaytest.Do(f.addr, "GET", f.request("GET", target), patience)
		if err != nil || r.Status != 400 && r.Status != 401 && r.Status != 404 {
			t.Errorf("GET %s: %+v, %v", target, r, err)
		}
	}
	f.health(t)
}

// TestC04Expect: 100 Continue when a body is wanted, the refusal at once when
// the head alone decides.
func TestC04Expect(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, map[string]string{"AEP_MAX_BODY": "4194304"})
	body := relaytest.NDJSON(relaytest.Padded("s", 0, "info", 1<<20).JSON(), relaytest.Padded("s", 1, "info", 1<<20).JSON())
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d", n) }
	good := []string{"Authorization: Bearer " + testToken, "AEP-Version: 0.1", "Content-Type: " + ndjson}
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"bad token", []string{"Authorization: Bearer no", "AEP-Version: 0.1", "Content-Type: " + ndjson, length(len(body))}, 401},
		{"no version", []string{good[0], good[2], length(len(body))}, 426},
		{"bad type", []string{good[0], good[1], "Content-Type: text/plain", length(len(body))}, 415},
		{"too long", append(good[:3:3], length(4194305)), 413},
		{"unknown path", nil, 404},
	} {
		target := "/events"
		if c.status == 404 {
			target, c.headers = "/nope", append(good[:3:3], length(len(body)))
		}
		r := answer(t, f.raw(t, 0), "POST", f.request("POST", target, append(c.headers, "Expect: 100-continue")...))
		if r.Status != c.status {
			t.Errorf("%s: first answer %d, want %d and no 100", c.name, r.Status, c.status)
		}
	}
	for _, framing := range []string{length(len(body)), "Transfer-Encoding: chunked"} {
		c := f.raw(t, 0)
		if r := answer(t, c, "POST", f.request("POST", "/events", append(good[:3:3], framing, "Expect: 100-continue")...)); r.Status != 100 {
			t.Fatalf("%s: first answer %d, want 100", framing, r.Status)
		}
		sent := body
		if framing[0] == 'T' {
			sent = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
		if r := answer(t, c, "POST", sent); r.Status != 202 {
			t.Errorf("%s: after the body: %d %q", framing, r.Status, r.Body)
		}
	}
	if r := f.postBody(t, ndjson, body, "Expect: 100-continue"); r.Status != 100 && r.Status != 202 {
		t.Errorf("body sent without waiting: %d", r.Status)
	}
}

// TestC12KeepAlive: when a connection outlives its answer.
func TestC12KeepAlive(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	for _, c := range []struct {
		name, version, connection string
		keeps                     bool
	}{
		{"HTTP/1.1", "HTTP/1.1", "", true},
		{"HTTP/1.1 keep-alive", "HTTP/1.1", "keep-alive", true},
		{"HTTP/1.1 close", "HTTP/1.1", "close", false},
		{"HTTP/1.1 Close in a list", "HTTP/1.1", "x, Close", false},
		{"HTTP/1.0", "HTTP/1.0", "", false},
		{"HTTP/1.0 keep-alive", "HTTP/1.0", "keep-alive", true},
		{"HTTP/1.0 close", "HTTP/1.0", "close", false},
	} {
		for _, target := range []string{"/healthz", "/events", "/nope"} {
			request := "GET " + target + " " + c.version + "\r\nHost: " + f.addr + "\r\n"
			if c.connection != "" {
				request += "Connection: " + c.connection + "\r\n"
			}
			conn := f.raw(t, 0)
			r := answer(t, conn, "GET", request+"\r\n")
			if target != "/nope" && (r.Status != 200 || len(r.Body) == 0 || r.Chunked) {
				t.Errorf("%s %s: %+v", c.name, target, r)
			}
			if c.keeps {
				if r := answer(t, conn, "GET", request+"\r\n"); r.Status/100 != 2 && target != "/nope" {
					t.Errorf("%s %s: second answer %d", c.name, target, r.Status)
				}
				continue
			}
			if err := conn.AwaitEOF(patience); err != nil {
				t.Errorf("%s %s: %v, want the end of the connection", c.name, target, err)
			}
		}
	}
}

// TestC12Streams10: a stream for HTTP/1.0 is plain and ends with the
// connection (R271, R272a).
func TestC12Streams10(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	a, b := relaytest.Event{Session: "s"}.JSON(), relaytest.Event{Session: "s", Seq: 1}.JSON()
	f.post(t, a)
	for _, headers := range [][]string{nil, {"Connection: close"}, {"Connection: keep-alive"}} {
		s := f.stream(t, "live=0&from=all", relaytest.StreamOptions{HTTP10: true, Headers: headers})
		if te := s.Response.Header.Get("Transfer-Encoding"); te != "" || s.Response.Header.Get("Content-Length") != "" {
			t.Errorf("head %q", s.Response.Head)
		}
		wantTexts(t, "live=0 in HTTP/1.0", texts(s.until(": replay-complete")), []string{a})
		s.ended()
	}
	live := f.stream(t, query("from", `[{"session":"s"}]`), relaytest.StreamOptions{HTTP10: true})
	if live.event().Data != a {
		t.Error("HTTP/1.0: no replay")
	}
	f.post(t, b)
	if live.event().Data != b {
		t.Error("HTTP/1.0: no live event")
	}
}
