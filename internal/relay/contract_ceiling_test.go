package relay_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// lowered is one event, a ceiling, and what has to come out.
type lowered struct {
	name, ceiling, event, want string
}

// checkLowered feeds each event and compares what every path delivers under
// each ceiling: live and replayed, on both bindings, and as Last-Event-ID,
// live=0, from positions and from=all (R241). Commands have no replay; they
// enter by WebSocket, which is also their target.
func checkLowered(t *testing.T, cases []lowered) {
	t.Helper()
	f := startTokenRelay(t, nil)
	emitter := f.socket(t, "")
	w := f.socket(t, "")
	streams := map[string]*stream{}
	for _, c := range cases {
		if streams[c.ceiling] == nil {
			streams[c.ceiling] = f.stream(t, query("capture", c.ceiling), relaytest.StreamOptions{})
		}
	}
	same := func(where string, c lowered, got string) {
		t.Helper()
		if c.want == c.event && got != c.event {
			t.Errorf("R194: %s, %s under %s:\ngot  %s\nwant %s", where, c.name, c.ceiling, got, c.want)
		} else if !reflect.DeepEqual(decode(t, got), decode(t, c.want)) {
			t.Errorf("%s, %s under %s:\ngot  %s\nwant %s", where, c.name, c.ceiling, got, c.want)
		}
	}
	for i, c := range cases {
		e, err := relaytest.ParseEnvelope(c.event)
		if err != nil {
			t.Fatal(err)
		}
		w.subscribe(fmt.Sprintf(`{"type":"subscribe","id":"q","capture":%q}`, c.ceiling))
		if relaytest.IsCommand(e.Type) {
			emitter.send(relaytest.Event{Session: e.Session, Seq: 1 << 40, ID: "claim"}.JSON())
			emitter.barrier()
			if got := w.barrier(); len(got) != 1 {
				t.Fatalf("claim event came %d times", len(got))
			}
			for _, s := range streams {
				s.event()
			}
			emitter.send(c.event)
			if got := emitter.barrier(); len(got) != 1 || got[0] != c.event {
				t.Errorf("R241: the target's copy of %s: %q", c.name, got)
			}
		} else {
			f.post(t, c.event)
		}
		same("live WebSocket", c, w.text())
		for ceiling, s := range streams {
			if got := s.event().Data; ceiling == c.ceiling {
				same("live SSE", c, got)
			}
		}
		if relaytest.IsCommand(e.Type) || e.Session == "" {
			continue
		}
		before := fmt.Sprintf(`[{"session":%s,"epoch":0,"seq":-1}]`, relaytest.Quote(e.Session))
		filter := `{"id":` + string(e.ID) + `}`
		for where, q := range map[string]string{
			"SSE from position": query("from", before, "filter", filter, "capture", c.ceiling),
			"SSE from=all":      query("from", "all", "filter", filter, "capture", c.ceiling),
			"SSE R279":          query("filter", `{"id":`+string(e.ID)+`,"session":`+relaytest.Quote(e.Session)+`}`, "capture", c.ceiling),
		} {
			got := f.replay(t, q)
			if len(got) != 1 || !got[0].IsEvent() {
				t.Fatalf("%s, case %d %s: %q", where, i, c.name, texts(got))
			}
			same(where, c, got[0].Data)
		}
		for _, from := range []string{`"all"`, before} {
			w2 := f.socket(t, "")
			w2.subscribe(fmt.Sprintf(`{"type":"subscribe","id":"q","filter":%s,"capture":%q,"from":%s}`, filter, c.ceiling, from))
			same("WebSocket from="+from, c, w2.text())
			_ = w2.Close()
		}
		if seq := e.SeqNumber(); seq > 0 {
			got := f.replay(t, query("filter", filter, "capture", c.ceiling), fmt.Sprintf("Last-Event-ID: %s:0:%d", e.Session, seq-1))
			if len(got) != 1 || !got[0].IsEvent() {
				t.Fatalf("Last-Event-ID, %s: %q", c.name, texts(got))
			}
			same("SSE Last-Event-ID", c, got[0].Data)
		}
	}
}

// withCapture is event with capture and data replaced. data "" takes it away.
func withCapture(t *testing.T, event, capture, data string) string {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(event), &m); err != nil {
		t.Fatal(err)
	}
	m["capture"] = json.RawMessage(relaytest.Quote(capture))
	delete(m, "data")
	if data != "" {
		m["data"] = json.RawMessage(data)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestR241PublishedDownlevel runs the published cases over the wire (W8).
func TestR241PublishedDownlevel(t *testing.T) {
	t.Parallel()
	var published struct {
		Cases []struct {
			Name, Ceiling string
			Event         json.RawMessage
			ExpectCapture string          `json:"expect_capture"`
			ExpectData    json.RawMessage `json:"expect_data"`
		}
	}
	if err := json.Unmarshal(fixtureFile(t, "conformance/fixtures/downlevel/cases.json"), &published); err != nil {
		t.Fatal(err)
	}
	if len(published.Cases) != 18 {
		t.Fatalf("%d cases, want 18", len(published.Cases))
	}
	var cases []lowered
	for _, c := range published.Cases {
		event := compact(t, string(c.Event))
		e, err := relaytest.ParseEnvelope(event)
		if err != nil {
			t.Fatal(err)
		}
		data := string(c.ExpectData)
		if data == "null" {
			data = ""
		}
		want := withCapture(t, event, c.ExpectCapture, data)
		if e.Capture == c.ExpectCapture {
			want = event
		}
		cases = append(cases, lowered{c.Name, c.Ceiling, event, want})
	}
	checkLowered(t, cases)
}

// TestR242Levels is the table of R242.
func TestR242Levels(t *testing.T) {
	t.Parallel()
	result := map[string]map[string]string{ // ceiling -> event level -> result, "" is unchanged
		"none":     {"none": "none", "": "none", "metadata": "none", "redacted": "none", "full": "none"},
		"metadata": {"none": "", "": "", "metadata": "", "redacted": "metadata", "full": "metadata"},
		"redacted": {"none": "", "": "", "metadata": "", "redacted": "", "full": "metadata"},
		"full":     {"none": "", "": "", "metadata": "", "redacted": "", "full": ""},
	}
	var cases []lowered
	for ceiling, levels := range result {
		for level, to := range levels {
			for _, data := range []string{"", `{"trigger":"user","prompt":"SECRET"}`} {
				c := lowered{name: "level " + level + " data " + data, ceiling: ceiling}
				c.event = relaytest.Event{Type: "run.started", Session: "s", Seq: uint64(len(cases)), Capture: level, Data: data, Extra: `"big":123456789012345678901234567890`}.JSON()
				kept := data
				if data != "" {
					kept = `{"trigger":"user"}`
				}
				switch to {
				case "":
					c.want = c.event
				case "none":
					c.want = withCapture(t, c.event, "none", "")
				default:
					c.want = withCapture(t, c.event, to, kept)
				}
				if to == "none" && level == "none" && data == "" {
					c.want = c.event // not relabelled, nothing to remove
				}
				cases = append(cases, c)
			}
		}
	}
	checkLowered(t, cases)
}

// TestR245Payloads covers R244 to R253 and W10 on chosen payloads.
func TestR245Payloads(t *testing.T) {
	t.Parallel()
	var cases []lowered
	add := func(rule, typ, subject, data, want string) {
		e := relaytest.Event{Type: typ, Session: "s", Seq: uint64(len(cases)), Capture: "full", Subject: subject, Data: data}.JSON()
		cases = append(cases, lowered{rule + " " + typ + " " + data, "metadata", e, withCapture(t, e, "metadata", want)})
	}
	add("R245 vendor", "x.acme.a.b", "", `{"a":1}`, "")
	add("R245 unknown member", "progress.future", "", `{"a":1}`, "")
	add("R245 message", "message.a", "", `{"a":1}`, "")
	add("R244 no data", "run.started", "", "", "")
	add("R246", "run.started", "", `{"prompt":"SECRET","trigger":"user","other":{"kept":1.0,"big":9007199254740993}}`, `{"trigger":"user","other":{"kept":1.0,"big":9007199254740993}}`)
	add("R246 nested", "tool.failed", "", `{"error":{"type":"E","message":"SECRET"}}`, `{"error":{"type":"E"}}`)
	add("R246 literal path", "tool.failed", "", `{"error.message":"SECRET","error":{"type":"E"}}`, `{"error":{"type":"E"}}`)
	add("R246 array", "resource.retrieval.returned", "", `{"documents":[{"id":"a","content":"SECRET"},{"id":"b"}]}`, `{"documents":[{"id":"a"},{"id":"b"}]}`)
	add("R247 empty table", "control.accepted", "", `{"note":"kept"}`, `{"note":"kept"}`)
	add("R248 object expected", "tool.failed", "", `{"error":"SECRET","tool":{"name":"B"}}`, `{"tool":{"name":"B"}}`)
	add("R248 object expected", "tool.failed", "", `{"error":["SECRET"],"tool":{"name":"B"}}`, `{"tool":{"name":"B"}}`)
	add("R248 object expected", "tool.failed", "", `{"error":null,"tool":{"name":"B"}}`, `{"tool":{"name":"B"}}`)
	add("R248 array expected", "resource.retrieval.returned", "", `{"documents":{"content":"SECRET"},"x":1}`, `{"x":1}`)
	add("R248 array expected", "resource.retrieval.returned", "", `{"documents":"SECRET","x":1}`, `{"x":1}`)
	add("R248 elements", "resource.retrieval.returned", "", `{"documents":["SECRET",{"id":"a"},null,[{"id":"b"}],5]}`, `{"documents":[{"id":"a"}]}`)
	add("R249", "attention.requested", "", `{"kind":"permission","prompt":"SECRET"}`, `{"kind":"permission","prompt":"probe requests permission"}`)
	add("R249 subject", "attention.requested", "Bash \"x\" é", `{"kind":"permission","prompt":"SECRET"}`, `{"kind":"permission","prompt":"probe requests permission: Bash \"x\" é"}`)
	add("R249 no kind", "attention.requested", "", `{"prompt":"SECRET"}`, `{"prompt":"probe requests attention"}`)
	add("R249 kind not a string", "attention.requested", "", `{"kind":7,"prompt":"SECRET"}`, `{"kind":7,"prompt":"probe requests attention"}`)
	add("R249 prompt not a string", "attention.requested", "", `{"kind":"a","prompt":{"t":"SECRET"}}`, `{"kind":"a"}`)
	add("R250", "attention.requested", "", `{"options":[{"id":"allow","label":"SECRET"},{"id":1.50,"label":"SECRET"},{"label":"SECRET"},{"id":"x"},{"id":{},"label":"SECRET"}]}`,
		`{"options":[{"id":"allow","label":"allow"},{"id":1.50,"label":"1.50"},{"label":"3"},{"id":"x","label":"x"},{"id":{},"label":"5"}]}`)
	add("R250 fields", "attention.requested", "", `{"fields":[{"id":"f","label":"SECRET","choices":[{"id":"c","label":"SECRET"},{"label":"SECRET"}]}]}`,
		`{"fields":[{"id":"f","label":"f","choices":[{"id":"c","label":"c"},{"label":"2"}]}]}`)
	add("W10 options of strings", "attention.requested", "", `{"options":["SECRET","b"],"kind":"k"}`, `{"options":[],"kind":"k"}`)
	add("W5 options of null", "attention.requested", "", `{"options":[null],"kind":"k"}`, `{"options":[],"kind":"k"}`)
	add("W10 options no array", "attention.requested", "", `{"options":"SECRET","kind":"k"}`, `{"kind":"k"}`)
	add("R251", "attention.answered", "", `{"answer":{"option":"1","text":"SECRET","values":{"a":"SECRET","b":1.0,"c":true,"d":["SECRET"],"e":null,"f":{}}}}`, `{"answer":{"option":"1","values":{"b":1.0,"c":true}}}`)
	add("R251 left empty", "attention.answered", "", `{"answer":{"values":{"a":"SECRET"}}}`, `{"answer":{"values":{}}}`)
	add("W10 values no object", "attention.answered", "", `{"answer":{"values":"SECRET"}}`, `{"answer":{}}`)
	add("R251 values array", "attention.answered", "", `{"answer":{"values":[1,true]}}`, `{"answer":{}}`)
	add("R248 answer no object", "attention.answered", "", `{"answer":"SECRET","via":"x"}`, `{"via":"x"}`)
	checkLowered(t, cases)
}

// TestR248NoPayloadSurvivesByShape throws odd shapes at every text-carrying
// member and looks for the text (R253: and for a relay that still lives).
func TestR248NoPayloadSurvivesByShape(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"q","capture":"metadata"}`)
	members := map[string][]string{
		"run.started": {"prompt"}, "tool.failed": {"error"}, "attention.requested": {"prompt", "options", "fields"},
		"attention.answered": {"answer"}, "resource.retrieval.returned": {"documents"},
	}
	shapes := []string{
		`"TELLTALE"`, `["TELLTALE"]`, `[["TELLTALE"]]`, `[[{"label":"TELLTALE","message":"TELLTALE","content":"TELLTALE","text":"TELLTALE"}]]`,
		`[null,{"choices":"TELLTALE","label":["TELLTALE"]}]`, `[{"choices":[null,"TELLTALE",["TELLTALE"]]}]`,
		`{"message":"TELLTALE","text":"TELLTALE","values":["TELLTALE"]}`, `{"values":{"a":{"b":"TELLTALE"}}}`, `{"values":"TELLTALE"}`,
		`[{"label":{"x":"TELLTALE"}}]`, `[{"content":{"x":"TELLTALE"}},{"content":["TELLTALE"]}]`, `null`, `5`, `[]`, `{}`, `true`,
	}
	seq := uint64(0)
	for typ, names := range members {
		for _, name := range names {
			for _, shape := range shapes {
				if keptByR247(name, shape) {
					continue
				}
				f.post(t, relaytest.Event{Type: typ, Session: "s", Seq: seq, Capture: "full", Data: `{"` + name + `":` + shape + `}`}.JSON())
				seq++
				if got := w.text(); strings.Contains(got, "TELLTALE") {
					t.Errorf("%s, %s of shape %s: %s", typ, name, shape, got)
				}
			}
		}
	}
}

// keptByR247 tells whether shape has the text in a member that the table of
// name does not list, so that it stays.
func keptByR247(name, shape string) bool {
	object, elements := shape[0] == '{', strings.HasPrefix(shape, "[{") || strings.HasPrefix(shape, "[null")
	switch name {
	case "error":
		return object && (strings.Contains(shape, "text") || strings.Contains(shape, "values"))
	case "answer":
		return object && strings.Contains(shape, "message")
	case "options":
		return elements && (strings.Contains(shape, "choices") || strings.Contains(shape, "content"))
	case "fields":
		return elements && strings.Contains(shape, "content")
	case "documents":
		return elements && (strings.Contains(shape, "label") || strings.Contains(shape, "choices"))
	}
	return false
}
