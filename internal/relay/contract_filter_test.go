package relay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// filterRefused wants filter refused on both bindings.
func filterRefused(t *testing.T, f *fixture, w *socket, name, filter string) {
	t.Helper()
	r := f.get(t, "/stream?"+query("filter", filter))
	if r.Status != 400 || len(r.Body) == 0 {
		t.Errorf("%s: SSE filter=%s: %d %q, want 400", name, filter, r.Status, r.Body)
	}
	wantCORS(t, name, r, true)
	w.send(`{"type":"subscribe","id":"q","filter":` + filter + `}`)
	if e := w.refused("invalid-filter"); e.IDString() != "q" || e.Detail == "" {
		t.Errorf("%s: WebSocket filter %s: %+v", name, filter, e)
	}
}

// TestR210FilterValidity covers R210 to R217 on both bindings.
func TestR210FilterValidity(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	for _, c := range []struct {
		rule    string
		filters []string
	}{
		{"R210", []string{`[]`, `5`, `"x"`, `true`}},
		{"R212", []string{`{"time":"x"}`, `{"seq":1}`, `{"aep":"0.1"}`, `{"data":{}}`, `{"data":"x"}`, `{"traceparent":"x"}`, `{"Type":"a.b"}`, `{"":1}`, `{"a_b":1}`, `{"abcdefghijklmnopqrstu":1}`, `{"se\u0071":1}`}},
		{"R213", []string{`{"agent":null}`, `{"agent":{}}`, `{"agent":{"gte":"info"}}`, `{"agent":[]}`, `{"agent":[[]]}`, `{"agent":["a",null]}`, `{"agent":["a",{}]}`, `{"x1":null}`}},
		{"R214", []string{`{"epoch":1.5}`, `{"x1":0.1}`, `{"x1":[1,2.5]}`, `{"x1":1e-1}`}},
		{"R215", []string{`{"severity":{"gt":"info"}}`, `{"severity":{"gte":"loud"}}`, `{"severity":{"gte":5}}`, `{"severity":{"gte":["info"]}}`, `{"severity":{"gte":"info","x":1}}`, `{"severity":[{"gte":"info"}]}`, `{"severity":{"gte":null}}`, `{"capture":{"gte":"none"}}`}},
		{"R216", []string{`{"type":"*"}`, `{"type":"a*"}`, `{"type":"a.*.b"}`, `{"type":"*.a"}`, `{"type":".*"}`, `{"type":"a..*"}`, `{"type":"A.*"}`, `{"type":"a.**"}`, `{"type":["tool.*","*"]}`, `{"agent":"a*"}`, `{"session":["x","*"]}`, `{"severity":"in*"}`, `{"x1":"*"}`}},
	} {
		for _, filter := range c.filters {
			filterRefused(t, f, w, c.rule, filter)
		}
	}
	for _, filter := range []string{`null`, `x`, `{`, `{}{}`, `{"a":01}`} {
		r := f.get(t, "/stream?"+query("filter", filter))
		if r.Status != 400 || filter != "null" && strings.TrimSpace(string(r.Body)) != "bad filter JSON" {
			t.Errorf("R210, R270: SSE filter=%s: %d %q", filter, r.Status, r.Body)
		}
	}
	for _, filter := range []string{
		`{}`, `{"type":"nothing"}`, `{"type":"tool.*"}`, `{"type":["x.a-b.*","tool.a_b.*"]}`, `{"severity":"loud"}`, `{"capture":"odd"}`,
		`{"severity":{}}`, `{"severity":{"lte":"error"}}`, `{"x1":[1,"a",true]}`, `{"epoch":1.0}`, `{"epoch":10e-1}`,
		`{"id":"a","type":"a","subject":"a","source":"a","agent":"a","session":"a","run":"a","step":"a","epoch":1,"cause":"a","severity":"info","capture":"full"}`,
	} {
		if r := f.get(t, "/stream?live=0&"+query("filter", filter)); r.Status != 200 {
			t.Errorf("SSE filter=%s: %d %q, want 200", filter, r.Status, r.Body)
		}
		w.subscribe(`{"type":"subscribe","id":"q","filter":` + filter + `}`)
	}
	w.subscribe(`{"type":"subscribe","id":"q","filter":null}`)
	if r := f.get(t, "/stream?live=0&filter="); r.Status != 200 {
		t.Errorf("R34: empty filter: %d", r.Status)
	}
}

// TestR210PublishedFilters runs the published attr-match cases over the wire.
func TestR210PublishedFilters(t *testing.T) {
	t.Parallel()
	var cases struct {
		Match []struct {
			Name   string
			Filter json.RawMessage
			Event  map[string]any
			Match  bool
		}
		Invalid []struct {
			Name   string
			Filter json.RawMessage
		}
	}
	if err := json.Unmarshal(fixtureFile(t, "conformance/fixtures/attr-match/cases.json"), &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases.Match) != 14 || len(cases.Invalid) != 10 {
		t.Fatalf("%d verdicts and %d refusals, want 14 and 10", len(cases.Match), len(cases.Invalid))
	}
	f := startRelay(t, nil)
	w := f.socket(t, "")
	for _, c := range cases.Invalid {
		filterRefused(t, f, w, c.Name, string(c.Filter))
	}
	for i, c := range cases.Match {
		w.subscribe(`{"type":"subscribe","id":"q","filter":` + string(c.Filter) + `}`)
		s := f.stream(t, query("filter", string(c.Filter)), relaytest.StreamOptions{})
		e := map[string]any{"aep": "0.1", "id": fmt.Sprint("m", i), "time": "t", "source": "s", "agent": "other"}
		if typ, _ := c.Event["type"].(string); !strings.HasPrefix(typ, "agent.") {
			e["session"], e["seq"] = "other", 0
		}
		for k, v := range c.Event {
			e[k] = v
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		f.post(t, string(text))
		if got := w.barrier(); c.Match != (len(got) == 1) {
			t.Errorf("%s: WebSocket got %q, want a match: %v", c.Name, got, c.Match)
		}
		if c.Match {
			if got := s.event().Data; got != string(text) {
				t.Errorf("%s: SSE got %s", c.Name, got)
			}
		}
		_ = s.Close()
	}
}

// TestR220Matching covers R220 to R225, replayed and live, on both bindings.
func TestR220Matching(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	events := map[string]string{}
	var all []string
	add := func(id string, e relaytest.Event) {
		e.ID, e.Session, e.Seq = id, "s", uint64(len(all))
		events[id] = e.JSON()
		all = append(all, id)
	}
	add("plain", relaytest.Event{Type: "tool.completed"})
	add("warn", relaytest.Event{Type: "tool.failed", Severity: "warning", Capture: "full", Data: "{}"})
	add("debug", relaytest.Event{Type: "tool.requested", Severity: "debug"})
	add("critical", relaytest.Event{Type: "error.raised", Severity: "critical", Capture: "none"})
	add("epoch1", relaytest.Event{Type: "run.started", Epoch: 1, Run: "r"})
	add("five", relaytest.Event{Type: "run.started", Extra: `"x1":5`})
	add("fivepoint", relaytest.Event{Type: "run.started", Extra: `"x1":5.0`})
	add("fivetext", relaytest.Event{Type: "run.started", Extra: `"x1":"5"`})
	add("one", relaytest.Event{Type: "run.started", Extra: `"x1":1`})
	add("true", relaytest.Event{Type: "run.started", Extra: `"x1":true`})
	add("huge", relaytest.Event{Type: "run.started", Extra: `"x1":123456789012345678901234567890`})
	add("star", relaytest.Event{Type: "x.acme.tool.run", Subject: "é"})
	add("deep", relaytest.Event{Type: "x.acme.tool.run.more"})
	f.post(t, values(events, all)...)
	cases := []struct{ rule, filter, want string }{
		{"R210", `{}`, strings.Join(all, " ")},
		{"R220 severity", `{"severity":"info"}`, "plain epoch1 five fivepoint fivetext one true huge star deep"},
		{"R220 capture", `{"capture":"metadata"}`, "plain debug epoch1 five fivepoint fivetext one true huge star deep"},
		{"R220 epoch", `{"epoch":[1,7]}`, "epoch1"},
		{"R220 epoch", `{"epoch":0,"type":"tool.*"}`, "plain warn debug"},
		{"R220 absent", `{"run":["r","q"]}`, "epoch1"},
		{"R221", `{"x1":5}`, "five fivepoint"},
		{"R221", `{"x1":5.0}`, "five fivepoint"},
		{"R221", `{"x1":50e-1}`, "five fivepoint"},
		{"R221", `{"x1":"5"}`, "fivetext"},
		{"R221", `{"x1":true}`, "true"},
		{"R221", `{"x1":1}`, "one"},
		{"R221", `{"x1":123456789012345678901234567890}`, "huge"},
		{"R221", `{"x1":123456789012345678901234567891}`, ""},
		{"R221", `{"epoch":"1"}`, ""},
		{"R221", `{"agent":true}`, ""},
		{"R222", `{"x1":[5,"5",true]}`, "five fivepoint fivetext true"},
		{"R223", `{"type":"tool.*"}`, "plain warn debug"},
		{"R223", `{"type":"x.acme.tool.run.*"}`, "deep"},
		{"R223", `{"type":"x.acme.*"}`, "star deep"},
		{"R223", `{"type":"x.ac.*"}`, ""},
		{"R223", `{"type":["error.*","tool.failed"]}`, "warn critical"},
		{"R217", `{"type":"tool"}`, ""},
		{"R217", `{"severity":"loud"}`, ""},
		{"R224", `{"severity":{"gte":"warning"}}`, "warn critical"},
		{"R224", `{"severity":{"lte":"debug"}}`, "debug"},
		{"R224", `{"severity":{"gte":"info","lte":"warning"},"type":"tool.*"}`, "plain warn"},
		{"R224", `{"severity":{"gte":"error","lte":"debug"}}`, ""},
		{"R215", `{"severity":{}}`, strings.Join(all, " ")},
		{"R225", `{"capture":"full"}`, "warn"},
		{"R118", `{"subject":"\u00e9"}`, "star"},
		{"R118", `{"\u0074ype":"tool.\u0066ailed"}`, "warn"},
		{"several", `{"type":"tool.*","severity":["debug","warning"],"session":["a","s"]}`, "warn debug"},
		{"id", `{"id":["one","star","nothing"]}`, "one star"},
	}
	live := f.socket(t, "")
	for i, c := range cases {
		live.subscribe(fmt.Sprintf(`{"type":"subscribe","id":%d,"filter":{"session":"none"}}`, i))
		want := values(events, slices.DeleteFunc(strings.Split(c.want, " "), func(s string) bool { return s == "" }))
		slices.Sort(want)
		got := texts(f.replay(t, query("from", "all", "filter", c.filter, "capture", "full")))
		slices.Sort(got)
		wantTexts(t, c.rule+": SSE replay "+c.filter, got, want)
		got = texts(f.replay(t, query("from", `[{"session":"s"}]`, "filter", c.filter, "capture", "metadata")))
		if len(got) != len(want) {
			t.Errorf("R225: %s under a ceiling gives %d events, want %d", c.filter, len(got), len(want))
		}
		w := f.socket(t, "")
		w.subscribe(`{"type":"subscribe","id":"q","from":"all","filter":` + c.filter + `}`)
		got = w.replayed(len(want))
		slices.Sort(got)
		wantTexts(t, c.rule+": WebSocket replay "+c.filter, got, want)
		f.post(t, values(events, all)...)
		got = w.replayed(len(want))
		slices.Sort(got)
		wantTexts(t, c.rule+": WebSocket live "+c.filter, got, want)
		_ = w.Close()
	}
}

func values(events map[string]string, ids []string) []string {
	var out []string
	for _, id := range ids {
		out = append(out, events[id])
	}
	return out
}

// TestR240Ceiling: one of four names, or nothing (W9).
func TestR240Ceiling(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	for _, c := range []string{"bogus", "Metadata", "none ", "all", "0"} {
		if r := f.get(t, "/stream?"+query("capture", c)); r.Status != 400 || len(r.Body) == 0 {
			t.Errorf("SSE capture=%s: %d %q", c, r.Status, r.Body)
		}
	}
	for _, c := range []string{`"bogus"`, `""`, `5`, `["full"]`, `true`, `{}`} {
		w.send(`{"type":"subscribe","id":"q","capture":` + c + `}`)
		w.refused("invalid-filter")
	}
	for _, c := range []string{"none", "metadata", "redacted", "full", ""} {
		if r := f.get(t, "/stream?live=0&capture="+c); r.Status != 200 {
			t.Errorf("SSE capture=%s: %d", c, r.Status)
		}
		value := relaytest.Quote(c)
		if c == "" {
			value = "null"
		}
		w.subscribe(`{"type":"subscribe","id":"q","capture":` + value + `}`)
	}
}
