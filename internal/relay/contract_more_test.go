package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR140Commands: which types are commands, seen by what a POST of each
// answers: a command has no sequence and is refused there, the others have one.
func TestR140Commands(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	held := 0
	for typ, command := range map[string]bool{
		"control.attention.respond": true, "control.cancel": true, "control.pause": true, "control.resume": true,
		"x.acme.control.zap": true, "x.a-b_9.control.a.b": true, "x.control.control.a": true,
		"control.accepted": false, "control.rejected": false, "control.cancelled": false, "control.cancel.all": false,
		"control.attention.responded": false, "x.control.cancel.now": false, "x.acme.controls.a": false, "x.acme.a.control": false,
	} {
		without := relaytest.Command(typ, "s").JSON()
		with := relaytest.Event{Type: typ, Session: "s", Seq: uint64(held)}.JSON()
		wantWithout, wantWith := 400, 202
		if command {
			wantWithout, wantWith = 403, 400
		} else {
			held++
		}
		if r := f.postBody(t, ndjson, without); r.Status != wantWithout {
			t.Errorf("%s without seq: %d %q, want %d", typ, r.Status, r.Body, wantWithout)
		}
		if r := f.postBody(t, ndjson, with); r.Status != wantWith {
			t.Errorf("%s with seq: %d %q, want %d", typ, r.Status, r.Body, wantWith)
		}
	}
	if got := f.held(t); len(got) != held {
		t.Errorf("%d events held, want the %d that are no commands", len(got), held)
	}
}

// TestR141CommandsMakeNoClaim: neither a command that is routed nor one that is
// refused makes a claim, a session, or anything to replay.
func TestR141CommandsMakeNoClaim(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	target, sender := f.target(t, "s", `{}`), f.socket(t, "")
	before := f.held(t)
	for _, session := range []string{"s", "t", "s", "t"} {
		command := relaytest.Command("control.pause", session).JSON()
		sender.send(command)
		if session == "s" {
			wantRefusal(t, sender, command, "")
			wantTexts(t, "target", target.replayed(1), []string{command})
		} else {
			wantRefusal(t, sender, command, "no-route")
		}
	}
	wantTexts(t, "claims", f.claims(t, sender), []string{"s"})
	wantTexts(t, "held", f.held(t), before)
	if h := f.health(t); h.Sessions != 1 {
		t.Errorf("%d sessions, want 1", h.Sessions)
	}
}

// TestR147IdentityIsNotCompared: who a connection says it is has nothing to do
// with the agent and source of its events.
func TestR147IdentityIsNotCompared(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"emitter","identity":{"agent":"me","instance":"i"}}`)
	var want []string
	for i, agent := range []string{"me", "somebody else", "aep-relay"} {
		e := relaytest.Event{Session: "s", Seq: uint64(i), Agent: agent, Source: "aep://elsewhere/agent/" + fmt.Sprint(i)}.JSON()
		w.send(e)
		want = append(want, e)
	}
	wantTexts(t, "answers", w.barrier(), nil)
	wantTexts(t, "held", f.held(t), want)
	wantTexts(t, "claims", f.claims(t, w), []string{"s"})
}

// TestR160SessionNames: one buffer for each name, whoever writes it and however
// it is escaped; names are compared code point for code point.
func TestR160SessionNames(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	named := func(spelled string, seq int) string {
		e := relaytest.Event{Session: "NAME", Seq: uint64(seq)}
		e.Source, e.Agent = fmt.Sprint("aep://emitter/", seq), fmt.Sprint("agent ", seq)
		return strings.Replace(e.JSON(), `"NAME"`, spelled, 1)
	}
	for i, group := range [][]string{
		{`"caf\u00e9"`, `"café"`, `"c\u0061fé"`}, // composed
		{"\"cafe\u0301\"", `"cafe\u0301"`},       // decomposed
		{`"Café"`},
		{`"café "`},
		{`"a\/b"`, `"a/b"`},
		{`"\ud83d\ude00"`, `"😀"`},
		{`"a\u0000b"`},
		{`"ab"`},
		{"\"\ufffd\"", `"\ud800"`, `"\udfff"`}, // lone surrogates are U+FFFD
	} {
		if h := f.health(t); h.Sessions != i {
			t.Errorf("before %s: %d sessions held, want %d", group[0], h.Sessions, i)
		}
		var want []string
		for seq, spelled := range group {
			e := named(spelled, seq)
			f.post(t, e)
			want = append(want, e)
		}
		for _, spelled := range group {
			got := texts(f.replay(t, query("from", `[{"session":`+spelled+`}]`)))
			wantTexts(t, "session "+spelled, got, want)
		}
	}
}

// TestR277AllWins: under from=all a cursor adds neither a marker nor events.
func TestR277AllWins(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "2"})
	for seq := range uint64(4) {
		f.post(t, at{3, seq}.event("s"))
	}
	want := []string{at{3, 2}.event("s"), at{3, 3}.event("s")}
	for _, cursor := range []string{"s:3:0", "s:3:2", "s:3:3", "s:9:9"} {
		wantTexts(t, "Last-Event-ID "+cursor, texts(f.replay(t, "from=all", "Last-Event-ID: "+cursor)), want)
	}
	wantTexts(t, "the cursor alone", texts(f.replay(t, "", "Last-Event-ID: s:3:2")), want[1:])
}

// TestR324ReplacedFilter: a filter that is replaced no longer counts against
// the 1 MiB of its connection (R320).
func TestR324ReplacedFilter(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	filter := func(c string) string { return `{"id":"` + strings.Repeat(c, 64<<10-len(`{"id":""}`)) + `"}` }
	for i := range 15 {
		w.subscribe(fmt.Sprintf(`{"type":"subscribe","id":%d,"filter":%s}`, i, filter("x")))
	}
	for i := range 40 {
		w.subscribe(`{"type":"subscribe","id":"q","filter":` + filter(string(rune('a'+i%26))) + `}`)
	}
	w.send(`{"type":"subscribe","id":"more","filter":{"id":"x"}}`)
	w.refused("limit-exceeded")
	w.subscribe(`{"type":"subscribe","id":"q"}`)
	w.subscribe(`{"type":"subscribe","id":"more","filter":{"id":"x"}}`)
}

// TestR305DotDecides: what has a dot in its type is an event, whatever the rest
// of it looks like.
func TestR305DotDecides(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	for _, typ := range []string{".", "a.", ".hello", "ping.", "subscribe.now", "roster.", "tool.completed"} {
		w.send(`{"type":` + relaytest.Quote(typ) + `,"id":"x"}`)
		if got := w.barrier(); len(got) != 1 || !strings.Contains(got[0], `"invalid-event"`) {
			t.Errorf("type %q answered %q, want invalid-event", typ, got)
		}
	}
	e := relaytest.Event{Session: "s"}.JSON()
	for _, typ := range []string{"toolcompleted", "progress_status", "progress\u2024status"} {
		w.send(strings.Replace(e, "progress.status", typ, 1))
		wantTexts(t, "an unknown frame of type "+typ, w.barrier(), nil)
	}
	wantTexts(t, "held", f.held(t), nil)
	w.send(strings.Replace(e, "progress.status", `progress\u002estatus`, 1))
	wantTexts(t, "an escaped dot is a dot", w.barrier(), nil)
	if got := f.held(t); len(got) != 1 {
		t.Errorf("held %q, want the event", got)
	}
}

// TestR402UpgradeIsAuthorization: with the token, in either form, any role may
// command; nothing else is asked.
func TestR402UpgradeIsAuthorization(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	target := f.target(t, "s", `{"control":{"accepts":["control.pause"]}}`)
	for _, role := range []string{"consumer", "emitter", "both", "stranger"} {
		rw, err := relaytest.DialWS(f.addr, relaytest.WithToken("/socket", testToken), relaytest.WSOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rw.Close() })
		query := &socket{WS: rw, t: t}
		query.send(`{"type":"hello","versions":["0.1"],"role":"` + role + `"}`)
		query.frame("hello")
		header := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"`+role+`"}`)
		for _, w := range []*socket{query, header} {
			command := relaytest.Command("control.pause", "s").JSON()
			w.send(command)
			wantTexts(t, "R394: the sender, role "+role, w.barrier(), nil)
			wantTexts(t, "the target, role "+role, target.replayed(1), []string{command})
		}
	}
}

// refusalTime is what refusing 4 MiB may take on a machine that is slow and has
// other work. With the square of their length it would be hours.
const refusalTime = time.Minute

// TestR472RefusalCost: what is refused is refused in a time that grows with its
// length, not with its square: 4 MiB of the worst in far less than refusalTime.
func TestR472RefusalCost(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	const size = 4 << 20
	good := relaytest.Event{Session: "s"}.JSON()
	open := good[:len(good)-1] // without its closing brace
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	counted := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		code                    string
	}{
		{"open brackets", jsonType, fill("["), 400, "invalid-json"},
		{"open objects", jsonType, fill(`{"a":`), 400, "invalid-json"},
		{"one name again and again", jsonType, open + fill(`,"x":1`) + "}", 400, "invalid-event"},
		{"many names, the last a repeat", jsonType, open + counted(`,"a%d":1`) + `,"a0":1}`, 400, "invalid-event"},
		{"many escaped names", jsonType, open + counted(`,"\u0061%d":1`) + `,"A":1}`, 400, "invalid-event"},
		{"long name", jsonType, open + `,"` + fill("a") + `":1}`, 400, "invalid-event"},
		{"long sequence number", jsonType, open + `,"epoch":1` + fill("0") + "}", 400, "invalid-event"},
		{"long exponent", jsonType, open + `,"epoch":1e` + fill("9") + "}", 400, "invalid-event"},
		{"long fraction", jsonType, open + `,"x":1.` + fill("0") + "1}", 400, "invalid-event"},
		{"escapes with a bad end", jsonType, open + `,"x":"` + fill(`\u00e9`) + `\u12"}`, 400, "invalid-json"},
		{"white space with a bad end", jsonType, open + fill(" ") + "x", 400, "invalid-json"},
		{"deep and wide data with a bad end", jsonType, open + `,"data":{"a":[` + fill(`{"b":[1,2]},`) + `}`, 400, "invalid-json"},
		{"too many lines", ndjson, fill("{}\n"), 413, "too-many-events"},
		{"blank lines and a bad end", ndjson, fill(" \t\r\n") + "x\n", 400, "invalid-json"},
		{"bad lines", ndjson, strings.Repeat("{\n", 10_000), 400, "invalid-json"},
		{"good events and a bad end", ndjson, strings.Repeat(good+"\n", 9_999) + "{}\n", 400, "invalid-event"},
		{"not UTF-8 at the end", ndjson, `"` + fill("é") + "\xff\"\n", 400, "invalid-json"},
	} {
		begin := time.Now()
		r := f.postBody(t, c.contentType, c.body)
		took := time.Since(begin)
		if r.Status != c.status || !strings.Contains(string(r.Body), `"`+c.code+`"`) {
			t.Errorf("%s: %d %.200q, want %d %s", c.name, r.Status, r.Body, c.status, c.code)
		}
		if took > refusalTime {
			t.Errorf("%s: refused after %v", c.name, took)
		}
	}
	w := f.socket(t, "")
	for name, message := range map[string]string{
		"limit-exceeded, entries of from": `{"type":"subscribe","id":1,"from":[` + fill(`{"session":"a"},`) + `{"session":"a"}]}`,
		"limit-exceeded, a long filter":   `{"type":"subscribe","id":1,"filter":{"id":[` + fill(`"a",`) + `"a"]}}`,
		"invalid-filter, a long id":       `{"type":"subscribe","id":"` + fill("i") + `"}`,
		"invalid-filter, an id of digits": `{"type":"subscribe","id":1e` + fill("9") + `}`,
		"invalid-event, repeated names":   open + fill(`,"x":1`) + "}",
		"bad-json, brackets":              fill("["),
	} {
		begin := time.Now()
		w.send(message)
		code, _, _ := strings.Cut(name, ",")
		w.refused(code)
		if took := time.Since(begin); took > refusalTime {
			t.Errorf("%s: refused after %v", name, took)
		}
	}
	for name, q := range map[string]string{
		"from":   "from=[" + strings.Repeat(`[],`, 30_000) + "[]]",
		"filter": `filter={"id":[` + strings.Repeat(`1.5,`, 25_000) + `1]}`,
	} {
		begin := time.Now()
		if r := f.get(t, "/stream?"+q); r.Status != 400 {
			t.Errorf("%s: %d", name, r.Status)
		}
		if took := time.Since(begin); took > refusalTime {
			t.Errorf("%s: refused after %v", name, took)
		}
	}
	wantTexts(t, "held", f.held(t), nil)
}

// TestR15AccessLog: a line for each request has its path and never its query,
// in whatever form the target comes, nor a header.
func TestR15AccessLog(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, map[string]string{"SLUICE_ACCESS_LOG": "on"})
	q := "access_token=" + testToken
	body := relaytest.Event{Session: "s"}.JSON()
	for _, c := range []struct{ request, line string }{
		{f.request("GET", "/connections?"+q), "method=GET path=/connections status=200"},
		{f.request("GET", "/connections?x="+testToken), "method=GET path=/connections status=401"},
		{f.request("GET", "/nope?a=b?"+q), "method=GET path=/nope status=401"},
		{f.request("GET", "http://relay/healthz?"+q), "method=GET path=/healthz status=200"},
		{f.request("GET", "/stream?live=0&"+q), "method=GET path=/stream status=200"},
		{f.request("POST", "/events?"+q, "AEP-Version: 0.1", "Content-Type: "+jsonType, fmt.Sprintf("Content-Length: %d", len(body))) + body, "method=POST path=/events status=202"},
		{f.request("OPTIONS", "/stream", f.auth()...), "method=OPTIONS path=/stream status=204"},
		{relaytest.HandshakeRequest(f.addr, "/socket?"+q, relaytest.WSOptions{}), "method=GET path=/socket status=101"},
		{f.request("GET", "/socket?"+q, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: "+testToken), "method=GET path=/socket status=400"},
		{f.request("GET", "/events?"+q+" x"), ""}, // no HTTP
	} {
		seen := len(f.log.String())
		if _, err := relaytest.Do(f.addr, "GET", c.request, patience); err != nil {
			t.Errorf("%.60q: %v", c.request, err)
		}
		// The line is written behind the answer.
		deadline := time.Now().Add(patience)
		for c.line != "" && !strings.Contains(f.log.String()[seen:], "msg=request "+c.line+" ") {
			if time.Now().After(deadline) {
				t.Fatalf("%.60q: logged %q, want %s", c.request, f.log.String()[seen:], c.line)
			}
			time.Sleep(time.Millisecond) // polling
		}
	}
	if text := f.log.String(); strings.Contains(text, "?") || strings.Contains(text, "access_token") {
		t.Errorf("a raw target is logged:\n%s", text)
	}
}

// TestR460Hurry: the second signal skips what is left of the drain window, and
// changes nothing else: who was not told is told now, and the end is orderly.
func TestR460Hurry(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"SLUICE_DRAIN": "10m", "SLUICE_LOOPS": "1"})
	w := f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"q"}`)
	var streams []*stream
	for range 300 { // of one loop, 20 are told in a second
		streams = append(streams, f.stream(t, "", relaytest.StreamOptions{}))
	}
	done := f.stopping(t)
	e := relaytest.Event{Session: "s"}.JSON()
	w.send(e) // who was not told yet is served on
	if got := w.text(); got != e {
		t.Errorf("during the drain window: %s", got)
	}
	f.relay.Hurry()
	f.relay.Hurry()
	for _, s := range streams {
		b := s.block()
		if b.Data == e {
			b = s.block()
		}
		if b.Raw != ": shutting-down" {
			t.Errorf("stream: %q, want : shutting-down", b.Raw)
		}
		s.ended()
		_ = s.Close()
	}
	w.frame("closing")
	w.closes(1001)
	drained(t, done)
}

// TestC61DrainIsSpread: with a drain window few streams, too, are told evenly
// over it: neither all at once nor all at its end.
func TestC61DrainIsSpread(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("drains for 3 s")
	}
	const count, window = 6, 3 * time.Second
	f := startRelay(t, map[string]string{"SLUICE_DRAIN": window.String(), "SLUICE_LOOPS": "1"})
	var streams []*stream
	for range count {
		streams = append(streams, f.stream(t, "", relaytest.StreamOptions{}))
	}
	begin := time.Now()
	stopped := f.stopping(t)
	ends := make(chan time.Duration, count)
	for _, s := range streams {
		go func() {
			for {
				if _, err := s.Next(patience); err != nil {
					ends <- time.Since(begin)
					_ = s.Close()
					return
				}
			}
		}()
	}
	var at []time.Duration
	for range count {
		at = append(at, <-ends)
	}
	slices.Sort(at)
	if at[0] > window || at[count/2] < window/6 || at[count-1] < window/2 {
		t.Errorf("streams ended after %v of a window of %v", at, window)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
