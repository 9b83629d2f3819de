package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// postCase is one POST /events. Empty fields take what is right.
type postCase struct {
	name    string
	headers []string // instead of token, version and type
	body    string
	status  int
	answer  string // whole JSON body, free text members left out
	chunked bool   // send the body chunked
}

// run sends c and compares status, type and body.
func (c postCase) run(t *testing.T, f *fixture) *relaytest.Response {
	t.Helper()
	headers, body := slices.Clone(c.headers), c.body
	if headers == nil {
		headers = append(f.auth(), "AEP-Version: 0.1", "Content-Type: "+ndjson)
	}
	if c.chunked {
		headers, body = append(headers, "Transfer-Encoding: chunked"), chunks(body)
	} else {
		headers = append(headers, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	r := f.do(t, "POST", f.request("POST", "/events", headers...)+body)
	if r.Status != c.status {
		t.Errorf("%s: status %d %q, want %d", c.name, r.Status, r.Body, c.status)
		return r
	}
	wantCORS(t, c.name, r, c.status == 401)
	if c.answer == "" {
		if len(r.Body) != 0 {
			t.Errorf("%s: body %q, want none", c.name, r.Body)
		}
		return r
	}
	if ct := r.Header.Get("Content-Type"); ct != jsonType {
		t.Errorf("%s: Content-Type %q", c.name, ct)
	}
	got, _ := decode(t, string(r.Body)).(map[string]any)
	want := decode(t, c.answer).(map[string]any)
	kind, _ := want["error"].(string)
	if d, _ := got["detail"].(string); d == "" && (strings.HasPrefix(kind, "invalid-") || strings.HasPrefix(kind, "control-")) {
		t.Errorf("%s: no detail in %s", c.name, r.Body)
	}
	delete(got, "detail")
	if _, ok := want["line"]; !ok && want["error"] == "invalid-json" {
		delete(got, "line") // optional for application/json (R73)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: body %s, want %s and detail", c.name, r.Body, c.answer)
	}
	return r
}

const (
	versions    = `{"versions":["0.1"]}`
	invalidJSON = `{"error":"invalid-json"}`
)

func invalidEvent(line int) string { return fmt.Sprintf(`{"error":"invalid-event","line":%d}`, line) }

func invalidLine(line int) string { return fmt.Sprintf(`{"error":"invalid-json","line":%d}`, line) }

func duplexOnly(line int) string {
	return fmt.Sprintf(`{"error":"control-requires-duplex","line":%d}`, line)
}

// TestR70Precedence: the first failed check answers (R70, R72, W20).
func TestR70Precedence(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, map[string]string{"AEP_MAX_BODY": "4000", "AEP_MAX_BATCH": "5"})
	good := func() string { return relaytest.Event{Session: "s"}.JSON() }
	bad := `{"aep":"0.1","id":"x"}`
	command := relaytest.Command("control.cancel", "s").JSON()
	tok, ver := "Authorization: Bearer "+testToken, "AEP-Version: 0.1"
	huge := strings.Repeat("\xff\n", 3000)
	tooLarge := `{"error":"payload-too-large","max_bytes":4000}`
	cases := []postCase{
		{name: "1 token before version", headers: []string{"AEP-Version: 9", "Content-Type: x/y"}, body: huge, status: 401},
		{name: "2 version before type", headers: []string{tok, "Content-Type: x/y"}, body: huge, status: 426, answer: versions},
		{name: "3 type before size", headers: []string{tok, ver, "Content-Type: x/y"}, body: huge, status: 415},
		{name: "4 size before UTF-8", body: huge, status: 413, answer: tooLarge},
		{name: "4 size before UTF-8", body: huge, chunked: true, status: 413, answer: tooLarge},
		{name: "5 UTF-8 before count", body: strings.Repeat("\xff\n", 9), status: 400, answer: invalidLine(0)},
		{name: "5 UTF-8 on a late line before count", body: relaytest.NDJSON(slices.Repeat([]string{"{}"}, 8)...) + "\"\xc3\"\n", status: 400, answer: invalidLine(8)},
		{name: "6 count before JSON", body: strings.Repeat("{\n", 6), status: 413, answer: `{"error":"too-many-events","max":5,"count":6}`},
		{name: "6 blank lines do not count", body: "\n\r\n \t\n" + relaytest.NDJSON(good(), good(), good(), good(), good()) + "\n\n", status: 202},
		{name: "7 JSON anywhere before event", body: relaytest.NDJSON(bad, good(), "{", "]"), status: 400, answer: invalidLine(2)},
		{name: "8 first offender", body: relaytest.NDJSON(good(), bad, "5", bad), status: 400, answer: invalidEvent(1)},
		{name: "8 event anywhere before command", body: relaytest.NDJSON(command, good(), good(), bad), status: 400, answer: invalidEvent(3)},
		{name: "9 command", body: relaytest.NDJSON(good(), good(), command, command), status: 403, answer: duplexOnly(2)},
		{name: "9 vendor command", body: relaytest.NDJSON(relaytest.Command("x.acme.control.zap", "s").JSON()), status: 403, answer: duplexOnly(0)},
		{name: "9 JSON command", headers: []string{tok, ver, "Content-Type: application/json"}, body: command, status: 403, answer: duplexOnly(0)},
		{name: "R72 line counts non-blank lines", body: "\n\n" + good() + "\n\r\n \n" + bad + "\n", status: 400, answer: invalidEvent(1)},
		{name: "10", body: relaytest.NDJSON(good()), status: 202},
		{name: "10 chunked", body: relaytest.NDJSON(good()), chunked: true, status: 202},
	}
	for _, c := range cases {
		c.run(t, f)
	}
	if got := f.held(t); len(got) != 7 {
		t.Errorf("R71: relay holds %d events, want the 7 of accepted bodies", len(got))
	}
}

func TestR70VersionAndType(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	body := relaytest.Event{Session: "s"}.JSON()
	ct, ver := "Content-Type: application/json", "AEP-Version: 0.1"
	for _, c := range []postCase{
		{name: "no version", headers: []string{ct}, status: 426, answer: versions},
		{name: "other version", headers: []string{ct, "AEP-Version: 0.2"}, status: 426, answer: versions},
		{name: "empty version", headers: []string{ct, "AEP-Version:"}, status: 426, answer: versions},
		{name: "version repeated", headers: []string{ct, ver, ver}, status: 426, answer: versions},
		{name: "version list", headers: []string{ct, "AEP-Version: 0.1, 0.1"}, status: 426, answer: versions},
		{name: "version number near", headers: []string{ct, "AEP-Version: 0.10"}, status: 426, answer: versions},
		{name: "version name in another case", headers: []string{ct, "aep-version: 0.1"}, status: 202},
		{name: "no type", headers: []string{ver}, status: 415},
		{name: "text", headers: []string{ver, "Content-Type: text/plain"}, status: 415},
		{name: "near", headers: []string{ver, "Content-Type: application/json2"}, status: 415},
		{name: "near", headers: []string{ver, "Content-Type: application/jsonl"}, status: 415},
		{name: "only parameters", headers: []string{ver, "Content-Type: ;application/json"}, status: 415},
		{name: "charset", headers: []string{ver, "Content-Type: application/json; charset=utf-8"}, status: 202},
		{name: "space before ;", headers: []string{ver, "Content-Type: application/x-ndjson ;x=y"}, status: 202},
		{name: "W37 case", headers: []string{ver, "Content-Type: Application/JSON"}, status: 202},
		{name: "W37 case", headers: []string{ver, "Content-Type: APPLICATION/X-NDJSON"}, status: 202},
	} {
		c.body = body
		c.run(t, f)
	}
}

// TestR75Bodies covers R73, R74, R75 and C73: what a body may hold.
func TestR75Bodies(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_BATCH": "3"})
	j := []string{"AEP-Version: 0.1", "Content-Type: application/json"}
	e := func() string { return relaytest.Event{Session: "s"}.JSON() }
	held := 0
	for _, c := range []postCase{
		{name: "array", headers: j, body: "[" + e() + "]", status: 400, answer: invalidEvent(0)},
		{name: "empty array", headers: j, body: "[]", status: 400, answer: invalidEvent(0)},
		{name: "null", headers: j, body: "null", status: 400, answer: invalidEvent(0)},
		{name: "number", headers: j, body: "5", status: 400, answer: invalidEvent(0)},
		{name: "string", headers: j, body: `"x"`, status: 400, answer: invalidEvent(0)},
		{name: "empty", headers: j, body: "", status: 400, answer: invalidJSON},
		{name: "empty, chunked", headers: j, body: "", chunked: true, status: 400, answer: invalidJSON},
		{name: "white space", headers: j, body: " \r\n\t", status: 400, answer: invalidJSON},
		{name: "two objects", headers: j, body: e() + "\n" + e(), status: 400, answer: invalidJSON},
		{name: "junk after", headers: j, body: e() + " x", status: 400, answer: invalidJSON},
		{name: "byte order mark", headers: j, body: "\ufeff" + e(), status: 400, answer: invalidJSON},
		{name: "one object with white space around", headers: j, body: "\r\n\t " + e() + " \n", status: 202},
		{name: "R75 batch limit plays no part", headers: j, body: "{" + strings.Repeat("\n", 9) + e()[1:], status: 202},
		{name: "R74 no event", body: "", status: 202},
		{name: "R74 no event, chunked", body: "", chunked: true, status: 202},
		{name: "R74 blank lines", body: "\n \r\n\t\n\n\n\n", status: 202},
		{name: "R74 no final LF", body: e() + "\n" + e(), status: 202},
		{name: "R74 CRLF", body: e() + "\r\n\r\n" + e() + "\r\n", status: 202},
		{name: "R74 space and tab around", body: " \t" + e() + "\t \r\n", status: 202},
		{name: "C73 one event as NDJSON", body: e(), status: 202},
		{name: "C73 two on a line", body: e() + e() + "\n", status: 400, answer: invalidLine(0)},
		{name: "C73 two on a line", body: e() + "\n" + e() + " " + e() + "\n", status: 400, answer: invalidLine(1)},
		{name: "C73 junk", body: e() + "\n" + e() + " junk\n", status: 400, answer: invalidLine(1)},
		{name: "C73 byte order mark", body: "\ufeff" + e() + "\n", status: 400, answer: invalidLine(0)},
		{name: "C73 lone CR does not end a line", body: e() + "\r" + e() + "\n", status: 400, answer: invalidLine(0)},
		{name: "C73 event over two lines", body: "{\n" + e()[1:], status: 400, answer: invalidLine(0)},
		{name: "array line", body: "[]\n", status: 400, answer: invalidEvent(0)},
		{name: "null line", body: e() + "\nnull\n", status: 400, answer: invalidEvent(1)},
		{name: "no-break space is not white space", body: "\u00a0" + e() + "\n", status: 400, answer: invalidLine(0)},
		{name: "form feed is not white space", body: "\f\n", status: 400, answer: invalidLine(0)},
	} {
		c.run(t, f)
		if c.status == 202 {
			held += strings.Count(c.body, `"aep"`)
		}
	}
	if got := f.held(t); len(got) != held {
		t.Errorf("R71: relay holds %d events, want %d", len(got), held)
	}
}

// TestC69SkippedValuesAreValidated: a fault deep inside data refuses the body.
func TestC69SkippedValuesAreValidated(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	j := []string{"AEP-Version: 0.1", "Content-Type: application/json"}
	deep := func(v string) string { return strings.Repeat(`[{"a":`, 10) + v + strings.Repeat("}]", 10) }
	for _, v := range []string{
		"1e2e3", "01", "-01", "+1", ".5", "1.", "1.e2", "1e", "1e+", "-", "NaN", "Infinity", "-Infinity", "0x1",
		"[1,]", "[,1]", "[1 2]", `{"a":1,}`, `{a:1}`, `{"a" 1}`, `{"a":}`, `{"a"}`, `{,}`, "tru", "True", "nulll", "undefined",
		`"`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\t\"", "\"\x00\"", `'a'`, "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"", "\"\xf4\x90\x80\x80\"",
		"[}", "[", "{", "]", "/*c*/1", "1//c", "",
	} {
		for _, data := range []string{`{"v":` + v + `}`, `{"v":` + deep(v) + `}`} {
			body := relaytest.Event{Session: "s", Data: data}.JSON()
			postCase{name: body, headers: j, body: body, status: 400, answer: invalidJSON}.run(t, f)
			postCase{name: "NDJSON " + body, body: relaytest.Event{Session: "s"}.JSON() + "\n" + strings.ReplaceAll(body, "\n", "") + "\n", status: 400, answer: invalidLine(1)}.skipIf(strings.Contains(v, "\n")).run(t, f)
		}
	}
	if got := f.held(t); len(got) != 0 {
		t.Errorf("R71: refused bodies left %q", got)
	}
}

// skipIf turns c into a case that posts nothing when b holds.
func (c postCase) skipIf(b bool) postCase {
	if b {
		return postCase{name: c.name, status: 202}
	}
	return c
}

func TestR80Depth(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	j := []string{"AEP-Version: 0.1", "Content-Type: application/json"}
	nested := func(levels int) string { // the envelope and data are two levels
		return relaytest.Event{Session: "s", Data: `{"v":` + strings.Repeat("[", levels-2) + strings.Repeat("]", levels-2) + "}"}.JSON()
	}
	for _, c := range []postCase{
		{name: "1000 levels", headers: j, body: nested(1000), status: 202},
		{name: "1001 levels", headers: j, body: nested(1001), status: 400, answer: invalidJSON},
		{name: "1001 levels, NDJSON", body: nested(1001), status: 400, answer: invalidLine(0)},
		{name: "a million open brackets", headers: j, body: strings.Repeat("[", 1_000_000), status: 400, answer: invalidJSON},
		{name: "a million open objects", headers: j, body: strings.Repeat(`{"a":`, 1_000_000), status: 400, answer: invalidJSON},
	} {
		c.run(t, f)
	}
	w := f.socket(t, "")
	w.send(nested(1001))
	w.refused("bad-json")
}

// TestR71AllOrNothing covers R71 and W15 on live subscribers and replay.
func TestR71AllOrNothing(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_BODY": "100000"})
	s, w := f.stream(t, "", relaytest.StreamOptions{}), f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"a"}`)
	var prefix []string
	for i := range 20 {
		prefix = append(prefix, relaytest.Event{Session: "s", Seq: uint64(i)}.JSON())
	}
	for _, bad := range []string{
		"{", "[]", `{"aep":"0.1"}`, "\"\xff\"", relaytest.Command("control.cancel", "s").JSON(),
		relaytest.Event{Session: "s", Data: `"text"`}.JSON(), strings.Repeat("x", 100_000),
	} {
		if r := f.postBody(t, ndjson, relaytest.NDJSON(append(prefix, bad)...)); r.Status < 400 {
			t.Errorf("%.50q: status %d", bad, r.Status)
		}
	}
	// A body that never ends is no request.
	c := f.raw(t, 0)
	body := relaytest.NDJSON(prefix...)
	if err := c.SendString(strings.TrimSuffix(f.postRequest(ndjson, body+"\n"), "\n")); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	if _, err := c.Drain(patience); relaytest.IsTimeout(err) {
		t.Error("half a body and FIN: the connection stays")
	}
	after := relaytest.Event{Session: "other"}.JSON()
	f.post(t, after)
	if got := s.event().Data; got != after {
		t.Errorf("SSE got %s of a refused batch", got)
	}
	if got := w.text(); got != after {
		t.Errorf("WebSocket got %s of a refused batch", got)
	}
	wantTexts(t, "replay", f.held(t), []string{after})
	if h := f.health(t); h.Sessions != 1 {
		t.Errorf("refused batches made %d sessions", h.Sessions-1)
	}
}

// TestR76BodyLimit: octets are counted, and the refusal can be read.
func TestR76BodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 2000
	f := startRelay(t, map[string]string{"AEP_MAX_BODY": fmt.Sprint(limit)})
	sized := func(n int) string { // two-byte characters: octets count, not UTF-16 units (W26)
		e := relaytest.Event{Session: "s", Data: `{"v":""}`}.JSON()
		room := n - len(e)
		return e[:len(e)-3] + strings.Repeat("é", room/2) + strings.Repeat("x", room%2) + e[len(e)-3:]
	}
	for _, chunked := range []bool{false, true} {
		for _, ct := range []string{jsonType, ndjson} {
			h := []string{"AEP-Version: 0.1", "Content-Type: " + ct}
			postCase{name: "at the limit", headers: h, body: sized(limit), chunked: chunked, status: 202}.run(t, f)
			r := postCase{name: "one over", headers: h, body: sized(limit + 1), chunked: chunked, status: 413, answer: `{"error":"payload-too-large","max_bytes":2000}`}.run(t, f)
			if !strings.EqualFold(r.Header.Get("Connection"), "close") {
				t.Errorf("413 has Connection %q, want close", r.Header.Get("Connection"))
			}
		}
	}
	head := f.request("POST", "/events", "AEP-Version: 0.1", "Content-Type: "+ndjson, "Content-Length: 2001")
	if r := answer(t, f.raw(t, 0), "POST", head); r.Status != 413 {
		t.Errorf("declared length alone: %d, want 413", r.Status)
	}
	open := f.raw(t, 0)
	head = f.request("POST", "/events", "AEP-Version: 0.1", "Content-Type: "+ndjson, "Transfer-Encoding: chunked")
	if r := answer(t, open, "POST", head+"7d1\r\n"+strings.Repeat(" ", 2001)); r.Status != 413 {
		t.Errorf("unfinished chunk over the limit: %d, want 413", r.Status)
	}
	// The answer survives a client that writes on.
	for _, framing := range []string{"Content-Length: 3000000", "Transfer-Encoding: chunked"} {
		c := f.raw(t, 0)
		head := f.request("POST", "/events", "AEP-Version: 0.1", "Content-Type: "+ndjson, framing)
		if framing[0] == 'T' {
			head += "2dc6c0\r\n"
		}
		if err := c.SendString(head + strings.Repeat("\n", 3_000_000)); err != nil {
			t.Errorf("%s: the relay cut the body: %v", framing, err)
			continue
		}
		r := reads(t, c, "POST")
		if r.Status != 413 {
			t.Errorf("%s: %d", framing, r.Status)
		}
		if _, err := c.Drain(patience); relaytest.IsTimeout(err) {
			t.Errorf("%s: connection stays open after 413", framing)
		}
	}
}

// TestW16CharacterAcrossReads: multi-byte characters cut anywhere stay whole.
func TestW16CharacterAcrossReads(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	e := relaytest.Event{Session: "sé😀", Data: `{"v":"äöü€😀"}`}.JSON()
	body := ""
	for i := range len(e) {
		body += "1\r\n" + e[i:i+1] + "\r\n"
	}
	c := f.raw(t, 0)
	head := f.request("POST", "/events", "AEP-Version: 0.1", "Content-Type: "+jsonType, "Transfer-Encoding: chunked")
	for _, piece := range strings.SplitAfter(head+body+"0\r\n\r\n", "\n") {
		if err := c.SendString(piece); err != nil {
			t.Fatal(err)
		}
	}
	if r := reads(t, c, "POST"); r.Status != 202 {
		t.Fatalf("status %d %q", r.Status, r.Body)
	}
	wantTexts(t, "replay", f.held(t), []string{e})
}

// TestR78VisibleAt202 covers R78 and R79.
func TestR78VisibleAt202(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	s := f.stream(t, "", relaytest.StreamOptions{})
	var all []string
	for i := range 50 {
		var batch []string
		for k := range 4 {
			batch = append(batch, relaytest.Event{Session: "s", Seq: uint64(4*i + k)}.JSON())
		}
		all = append(all, batch...)
		f.post(t, batch...)
		if got := f.held(t); len(got) != len(all) {
			t.Fatalf("after the 202 of batch %d a replay shows %d events, want %d", i, len(got), len(all))
		}
	}
	for i, want := range all {
		if got := s.event().Data; got != want {
			t.Fatalf("R79: live event %d: got %s, want %s", i, got, want)
		}
	}
}

// TestC39IdempotentPublish: many copies at once, one held (R161, R190).
func TestC39IdempotentPublish(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	s := f.stream(t, "", relaytest.StreamOptions{})
	e := relaytest.Event{ID: "same", Session: "s"}.JSON()
	errs := make(chan error, 50)
	for range cap(errs) {
		go func() {
			r, err := relaytest.Do(f.addr, "POST", f.postRequest(jsonType, e), patience)
			if err == nil && r.Status != 202 {
				err = fmt.Errorf("status %d", r.Status)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for range cap(errs) {
		if got := s.event().Data; got != e {
			t.Fatalf("live: %s", got)
		}
	}
	wantTexts(t, "R161: replay", f.held(t), []string{e})
}
