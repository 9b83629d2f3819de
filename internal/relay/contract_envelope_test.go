package relay_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// base is a valid envelope without its closing brace and without type,
// session and seq.
const base = `{"aep":"0.1","id":"e","time":"t","source":"s","agent":"a"`

// TestEnvelopeVerdicts covers section 5 (R100 to R118, W25) on both bindings.
func TestEnvelopeVerdicts(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	run := base + `,"type":"run.started"`
	ord := run + `,"session":"s","seq":1`
	cases := []struct {
		rule, event string
		ok          bool
	}{
		{"R101", strings.Replace(ord, `"0.1"`, `"0.2"`, 1) + "}", false},
		{"R101", strings.Replace(ord, `"0.1"`, `0.1`, 1) + "}", false},
		{"R101", strings.Replace(ord, `"aep":"0.1",`, ``, 1) + "}", false},
		{"R102", strings.Replace(ord, `"id":"e"`, `"id":""`, 1) + "}", false},
		{"R102", strings.Replace(ord, `"id":"e",`, ``, 1) + "}", false},
		{"R102", strings.Replace(ord, `"id":"e"`, `"id":5`, 1) + "}", false},
		{"R102", strings.Replace(ord, `"time":"t"`, `"time":""`, 1) + "}", false},
		{"R102", strings.Replace(ord, `"source":"s"`, `"source":{}`, 1) + "}", false},
		{"R102", strings.Replace(ord, `,"agent":"a"`, ``, 1) + "}", false},
		{"R104", base + `,"type":"agent.idle"}`, true},
		{"R104", base + `,"type":"agent.idle","run":"r"}`, false},
		{"R104", base + `,"type":"agent.idle","step":"r"}`, false},
		{"R104", base + `,"type":"agent.idle","session":"s"}`, false},
		{"R104", base + `,"type":"agent.idle","seq":0}`, false},
		{"R104", base + `,"type":"agent.idle","epoch":3}`, true},
		{"R105", base + `,"type":"control.cancel"}`, false},
		{"R105", base + `,"type":"control.cancel","session":"s","seq":0}`, false},
		{"R105", base + `,"type":"x.a.control.b","session":"s","seq":0}`, false},
		{"R106", base + `,"type":"attention.routed","session":"s"}`, true},
		{"R106", base + `,"type":"attention.routed","session":"s","seq":1}`, false},
		{"R106", base + `,"type":"attention.routed"}`, false},
		{"R107", run + `,"session":"s"}`, false},
		{"R107", run + `,"seq":0}`, false},
		{"R107", base + `,"type":"x.acme.a.b","session":"s"}`, false},
		{"R107", base + `,"type":"control.accepted","session":"s"}`, false},
		{"R107", base + `,"type":"control.foo","session":"s","seq":0}`, true},
		{"R108", run + `,"session":"s","seq":0}`, true},
		{"R108", run + `,"session":"s","seq":9223372036854775807}`, true},
		{"R108", run + `,"session":"s","seq":9223372036854775808}`, false},
		{"R108", run + `,"session":"s","seq":-1}`, false},
		{"R108", run + `,"session":"s","seq":-0}`, true},
		{"R108", run + `,"session":"s","seq":"1"}`, false},
		{"R108", run + `,"session":"s","seq":1.5}`, false},
		{"R117", run + `,"session":"s","seq":5.0}`, true},
		{"R117", run + `,"session":"s","seq":5e0}`, true},
		{"R117", run + `,"session":"s","seq":50e-1}`, true},
		{"R117", run + `,"session":"s","seq":5e-1}`, false},
		{"R117", run + `,"session":"s","seq":1e1000000000}`, false},
		{"R117", run + `,"session":"s","seq":0e1000000000}`, true},
		{"R117", run + `,"session":"s","seq":1e-1000000000}`, false},
		{"R117", ord + `,"big":1e1000000000}`, true},
		{"R117", ord + `,"big":123456789012345678901234567890}`, true},
		{"R108", ord + `,"epoch":9223372036854775807}`, true},
		{"R108", ord + `,"epoch":9223372036854775808}`, false},
		{"R108", ord + `,"epoch":-1}`, false},
		{"R108", ord + `,"epoch":true}`, false},
		{"R109", run + `,"session":"","seq":1}`, false},
		{"R109", run + `,"session":5,"seq":1}`, false},
		{"R109", run + `,"session":"` + strings.Repeat("é", 512) + `","seq":1}`, true},
		{"R109", run + `,"session":"` + strings.Repeat("é", 512) + `x","seq":1}`, false},
		{"R109", ord + `,"subject":""}`, false},
		{"R109", ord + `,"run":5}`, false},
		{"R109", ord + `,"step":""}`, false},
		{"R109", ord + `,"cause":[]}`, false},
		{"R109", ord + `,"subject":"a","run":"b","step":"c","cause":"d"}`, true},
		{"R110", ord + `,"severity":"fatal"}`, false},
		{"R110", ord + `,"severity":"Info"}`, false},
		{"R110", ord + `,"severity":3}`, false},
		{"R110", ord + `,"severity":"critical"}`, true},
		{"R110", ord + `,"capture":"some"}`, false},
		{"R110", ord + `,"capture":"none"}`, true},
		{"R110", ord + `,"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`, true},
		{"R110", ord + `,"traceparent":"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"}`, false},
		{"R110", ord + `,"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-"}`, false},
		{"R110", ord + `,"traceparent":""}`, false},
		{"R110", ord + `,"data":[]}`, false},
		{"R110", ord + `,"data":"x"}`, false},
		{"R110", ord + `,"data":{}}`, true},
		{"R111", ord + `,"abcdefghijklmnopqrst":1}`, true},
		{"R111", ord + `,"abcdefghijklmnopqrstu":1}`, false},
		{"R111", ord + `,"Upper":1}`, false},
		{"R111", ord + `,"under_score":1}`, false},
		{"R111", ord + `,"":1}`, false},
		{"R111", ord + `,"0":1}`, true},
		{"R111", ord + `,"é":1}`, false},
		{"R112", ord + `,"x":{}}`, false},
		{"R112", ord + `,"x":[]}`, false},
		{"R112", ord + `,"x":1.5}`, false},
		{"R112", ord + `,"x":1.0}`, true},
		{"R112", ord + `,"x":""}`, true},
		{"R112", ord + `,"x":false}`, true},
		{"R113", ord + `,"x":null}`, false},
		{"R113", ord + `,"epoch":null}`, false},
		{"R113", ord + `,"data":null}`, false},
		{"R113", ord + `,"subject":null}`, false},
		{"R114", ord + `,"x":1,"x":1}`, false},
		{"R114", ord + `,"id":"e"}`, false},
		{"R114", ord + `,"\u0069d":"e"}`, false},
		{"R114 below the top", ord + `,"data":{"a":1,"a":2}}`, true},
		{"R115 time", strings.Replace(ord, `"time":"t"`, `"time":"2026-02-30T99:99:99Z"`, 1) + "}", true},
		{"R115 unknown member type", base + `,"type":"progress.some_future_member","session":"s","seq":0}`, true},
		{"R118 escaped names", `{"\u0061ep":"0.\u0031","id":"e","type":"run\u002estarted","time":"t","source":"s","agent":"a","session":"s","seq":1}`, true},
		{"R118 escaped type", base + `,"type":"agent\u002eidle","session":"s","seq":1}`, false},
		{"R118 escaped command", base + `,"type":"control\u002ecancel","session":"s","seq":1}`, false},
	}
	for _, typ := range []string{
		"banana.peeled", "tool.Completed", "x.acme.foo", "x.acme", "tool.", ".tool", "tool..x", "tool.a-b",
		"x.Acme.a.b", "x.acme.a-b.c", "X.acme.a.b", "stream.started", "tool.é", "toolx.a", "x..a.b", "x.acme.a.", " tool.a",
	} {
		cases = append(cases, struct {
			rule, event string
			ok          bool
		}{"R103", base + `,"type":` + relaytest.Quote(typ) + `,"session":"s","seq":0}`, false})
	}
	for _, typ := range []string{
		"run.started", "session.a", "progress.a.b_c.9", "tool._", "delegation.a", "attention.a", "resource.a", "error.a",
		"state.a", "assessment.a", "message.a", "control.accepted", "x.acme.a.b", "x.a-c_9.a_b.c.d", "x.acme.foo.control.zap",
	} {
		cases = append(cases, struct {
			rule, event string
			ok          bool
		}{"R103", base + `,"type":` + relaytest.Quote(typ) + `,"session":"s","seq":0}`, true})
	}
	for _, c := range cases {
		want := 400
		if c.ok {
			want = 202
		}
		if r := f.postBody(t, ndjson, c.event+"\n"); r.Status != want || want == 400 && !strings.Contains(string(r.Body), `invalid-event`) {
			t.Errorf("%s: %.300s: %d %q, want %d", c.rule, c.event, r.Status, r.Body, want)
		}
		w.send(c.event)
		got := w.barrier()
		if c.ok != (len(got) == 0) {
			t.Errorf("%s: %.300s on WebSocket: answers %q, want ok: %v", c.rule, c.event, got, c.ok)
		}
		if !c.ok && len(got) == 1 {
			wantInvalidEvent(t, c.event, got[0])
		}
	}
}

// wantInvalidEvent checks an invalid-event frame (R340).
func wantInvalidEvent(t *testing.T, event, frame string) {
	t.Helper()
	e, err := relaytest.ParseEnvelope(frame)
	if err != nil || e.Type != "error" || e.Code != "invalid-event" || e.Detail == "" || len(e.ID) != 0 {
		t.Errorf("event %.200s answered %s, want error invalid-event with a detail", event, frame)
		return
	}
	var in struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal([]byte(event), &in) != nil || len(in.ID) == 0 || in.ID[0] != '"' {
		if strings.Contains(frame, `"cause"`) {
			t.Errorf("R340: %.200s answered with a cause: %s", event, frame)
		}
		return
	}
	if relaytest.Quote(e.Cause) != string(in.ID) {
		t.Errorf("R340: cause %q, want %s", e.Cause, in.ID)
	}
}

// TestR119PublishedVerdicts runs the published invalid cases on both bindings.
func TestR119PublishedVerdicts(t *testing.T) {
	t.Parallel()
	var published struct {
		Cases []struct {
			Name   string
			Event  json.RawMessage
			Events []json.RawMessage
		}
	}
	var verdicts struct {
		Cases []struct {
			Name, Verdict, Rule string
			HasCommand          bool `json:"has_command"`
		}
	}
	for name, v := range map[string]any{"conformance/fixtures/invalid/cases.json": &published, "relay-verdicts.json": &verdicts} {
		if err := json.Unmarshal(fixtureFile(t, name), v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if len(published.Cases) != 35 || len(verdicts.Cases) != 35 {
		t.Fatalf("%d cases, %d verdicts, want 35 each", len(published.Cases), len(verdicts.Cases))
	}
	f := startRelay(t, nil)
	w := f.socket(t, "")
	for i, c := range published.Cases {
		v := verdicts.Cases[i]
		if v.Name != c.Name {
			t.Fatalf("verdict %d is for %q, not %q", i, v.Name, c.Name)
		}
		var events []string
		for _, e := range append(c.Events, c.Event) {
			if len(e) > 0 {
				events = append(events, compact(t, string(e)))
			}
		}
		want := 202
		switch {
		case v.Verdict == "reject":
			want = 400
		case v.HasCommand:
			want = 403
		}
		if r := f.postBody(t, ndjson, relaytest.NDJSON(events...)); r.Status != want {
			t.Errorf("%s: HTTP %d %q, want %d (%s)", c.Name, r.Status, r.Body, want, v.Rule)
		}
		w.send(events...)
		answers := w.barrier()
		if v.Verdict == "reject" && len(answers) == 0 && c.Name != "single-segment type" {
			t.Errorf("%s: WebSocket takes it", c.Name)
		}
		for _, answer := range answers {
			switch {
			case v.Verdict == "reject":
				wantInvalidEvent(t, events[0], answer)
			case !v.HasCommand || !strings.Contains(answer, `"unauthorized"`):
				t.Errorf("%s: WebSocket answers %s", c.Name, answer)
			}
		}
	}
}

// compact removes insignificant white space.
func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// replayOrder is what a replay of all sessions gives for ordinary events that
// came in the order of all: per session ascending, duplicates out.
func replayOrder(t *testing.T, all []string) map[string][]string {
	t.Helper()
	type held struct {
		text  string
		epoch int64
		seq   int64
	}
	buffers, seen := map[string][]held{}, map[string]bool{}
	for _, text := range all {
		e, err := relaytest.ParseEnvelope(text)
		if err != nil {
			t.Fatal(err)
		}
		key := relaytest.Quote(e.Session) + relaytest.Quote(e.Source) + string(e.ID)
		if seen[key] || relaytest.IsCommand(e.Type) || strings.HasPrefix(e.Type, "agent.") || e.Type == "attention.routed" {
			continue
		}
		seen[key] = true
		epoch, _ := e.Epoch.Int64()
		seq, _ := e.Seq.Int64()
		buffers[e.Session] = append(buffers[e.Session], held{text, epoch, seq})
	}
	out := map[string][]string{}
	for session, b := range buffers {
		sort.SliceStable(b, func(i, j int) bool {
			return b[i].epoch < b[j].epoch || b[i].epoch == b[j].epoch && b[i].seq < b[j].seq
		})
		for _, h := range b {
			out[session] = append(out[session], h.text)
		}
	}
	return out
}

// bySession groups event texts by session.
func bySession(t *testing.T, all []string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, text := range all {
		e, err := relaytest.ParseEnvelope(text)
		if err != nil {
			t.Fatal(err)
		}
		out[e.Session] = append(out[e.Session], text)
	}
	return out
}

// TestR194Fidelity covers R194, R195, W17, C68, C74 and C76: what comes in goes
// out as the same text, on both bindings, live and replayed.
func TestR194Fidelity(t *testing.T) {
	t.Parallel()
	line := func(extra, data string) string {
		return relaytest.Event{Session: "s", Extra: extra, Data: data}.JSON()
	}
	verbatim := []string{
		line(`"ext":123456789012345678901234567890`, `{"a":9007199254740993,"b":18446744073709551616,"c":1.0,"d":1E2,"e":-0,"f":0.6667,"g":1e400,"h":1e-400,"i":-0.0e-0}`),
		line("", `{"10":1,"9":2,"z":3,"a":4,"":5,"a":6}`),
		line("", `{"v":"\u00e9é\/\u2028\ud83d\ude00😀\u0000\u001f<>&\"\\\b\f\n\r\t","\u0061":1}`),
		line("", `{"v":"\ud800"}`),
		line("", `{ "spaced" : [ 1 , 2 ,	3 ] , "tab"	:	{ } }`),
		line(`"x" : true , "y":"z"`, `{}`),
		strings.Replace(line("", "{}"), `"seq":0`, `"seq":7.0`, 1),
		strings.Replace(line("", "{}"), `"seq":0`, `"seq":80e-1`, 1),
		relaytest.Event{Session: "s", Time: "1970-01-01T00:00:00.123456789012+14:00"}.JSON(),
		relaytest.Event{Session: "s", Time: "9999-12-31t23:59:60z"}.JSON(),
		relaytest.Event{Session: "s", Time: "2026-02-30"}.JSON(),
		relaytest.Event{Session: "s", Data: `{"long":"` + strings.Repeat("0123456789", 20_000) + `"}`}.JSON(),
	}
	type sent struct{ in, out string }
	cases := make([]sent, 0, 32)
	for _, v := range verbatim {
		cases = append(cases, sent{v, v}, sent{" \t" + v + "\t ", v})
	}
	pretty := func(eol string) sent {
		v := line("", `{"a":{"b":[1,2.0,"x  y\n"]},"c":"  ","d":1E2}`)
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(v), "", "\t "); err != nil {
			t.Fatal(err)
		}
		return sent{"\n" + strings.ReplaceAll(b.String(), "\n", eol) + eol, v}
	}
	cases = append(cases, pretty("\n"), pretty("\r\n"), pretty("\r"))
	lone := line("", `{"a": 1}`)
	cases = append(cases, sent{"{ \n" + lone[1:], strings.ReplaceAll(lone, ": ", ":")}) // one LF: all white space goes

	for _, binding := range []string{"HTTP", "WebSocket"} {
		f := startRelay(t, nil)
		s, w := f.stream(t, "", relaytest.StreamOptions{}), f.socket(t, "")
		w.subscribe(`{"type":"subscribe","id":"a"}`)
		emitter := f.socket(t, "")
		var all []string
		for _, c := range cases {
			if binding == "HTTP" {
				if r := f.postBody(t, jsonType, c.in); r.Status != 202 {
					t.Fatalf("%.200q: %d %q", c.in, r.Status, r.Body)
				}
			} else {
				emitter.send(c.in)
			}
			if got := s.event().Data; got != c.out {
				t.Errorf("%s, live SSE:\ngot  %.300q\nwant %.300q", binding, got, c.out)
			}
			if got := w.text(); got != c.out {
				t.Errorf("%s, live WebSocket:\ngot  %.300q\nwant %.300q", binding, got, c.out)
			}
			all = append(all, c.out)
		}
		want := replayOrder(t, normalSeqs(all))["s"]
		got := f.held(t)
		wantTexts(t, "replay SSE from "+binding, normalSeqs(got), want)
		w2 := f.socket(t, "")
		w2.subscribe(`{"type":"subscribe","id":"a","from":"all"}`)
		wantTexts(t, "replay WebSocket from "+binding, w2.replayed(len(got)), got)
		for _, text := range got {
			if !slices.Contains(all, text) {
				t.Errorf("replayed text was never sent: %.300q", text)
			}
		}
	}
}

// normalSeqs spells the two odd sequence numbers of TestR194Fidelity plainly,
// so that the model can sort them.
func normalSeqs(all []string) []string {
	var out []string
	for _, s := range all {
		out = append(out, strings.NewReplacer(`"seq":7.0,`, `"seq":7,`, `"seq":80e-1,`, `"seq":8,`).Replace(s))
	}
	return out
}

// TestR194Golden sends the published golden events over a WebSocket that is its
// own command target, and by HTTP without the commands.
func TestR194Golden(t *testing.T) {
	t.Parallel()
	golden := strings.Split(strings.TrimSuffix(string(fixtureFile(t, "conformance/fixtures/golden/golden.jsonl")), "\n"), "\n")
	if len(golden) != 64 {
		t.Fatalf("%d golden events, want 64", len(golden))
	}
	for _, binding := range []string{"HTTP", "WebSocket"} {
		f := startTokenRelay(t, nil)
		s, w := f.stream(t, "", relaytest.StreamOptions{}), f.socket(t, "")
		w.subscribe(`{"type":"subscribe","id":"a"}`)
		sent := golden
		if binding == "HTTP" {
			sent = slices.DeleteFunc(slices.Clone(golden), func(line string) bool {
				e, err := relaytest.ParseEnvelope(line)
				return err == nil && relaytest.IsCommand(e.Type)
			})
			if len(sent) != 62 {
				t.Fatalf("%d golden events are no commands, want 62", len(sent))
			}
			f.post(t, sent...)
		} else {
			emitter := f.socket(t, "")
			emitter.send(sent...)
			var routed []string
			for _, text := range emitter.barrier() {
				if !slices.Contains(sent, text) {
					t.Errorf("emitter of golden events got %s", text)
				}
				routed = append(routed, text)
			}
			if len(routed) != 2 {
				t.Errorf("R394: emitter was routed %d commands, want 2", len(routed))
			}
		}
		for i, want := range sent {
			if got := s.event().Data; got != want {
				t.Fatalf("%s, live SSE, line %d:\ngot  %s\nwant %s", binding, i, got, want)
			}
			if got := w.text(); got != want {
				t.Fatalf("%s, live WebSocket, line %d:\ngot  %s\nwant %s", binding, i, got, want)
			}
		}
		w2 := f.socket(t, "")
		w2.subscribe(`{"type":"subscribe","id":"a","from":"all"}`)
		held := f.held(t)
		for where, got := range map[string][]string{"SSE": held, "WebSocket": w2.replayed(len(held))} {
			for session, want := range replayOrder(t, sent) {
				wantTexts(t, binding+", replay "+where+", session "+session, bySession(t, got)[session], want)
			}
		}
	}
}
