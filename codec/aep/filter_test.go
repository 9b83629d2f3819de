package aep

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// admitMembers admits an event with the given members and whatever else the
// envelope demands.
func admitMembers(t testing.TB, members string) *Event {
	t.Helper()
	return mustAdmit(t, string(completeEvent(t, members)))
}

func completeEvent(t testing.TB, members string) []byte {
	t.Helper()
	var event map[string]json.RawMessage
	if err := json.Unmarshal([]byte(members), &event); err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	text := []byte(strings.TrimSpace(members))
	text = text[:len(text)-1]
	add := func(name, value string) {
		if _, ok := event[name]; !ok {
			if len(event) > 0 || len(text) > 1 {
				text = append(text, ',')
			}
			text = append(text, `"`+name+`":`+value...)
		}
	}
	for _, name := range []string{"id", "time", "source", "agent"} {
		add(name, `"`+name+`0"`)
	}
	add("aep", `"0.1"`)
	add("type", `"run.started"`)
	var typ string
	if raw, ok := event["type"]; ok && json.Unmarshal(raw, &typ) != nil {
		t.Fatalf("type %s", raw)
	}
	if class := ClassOf(typ); class != ClassLiveness {
		add("session", `"s0"`)
		if class == ClassOrdinary {
			add("seq", "0")
		}
	}
	return append(text, '}')
}

func TestFilterVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/filters.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		rule, rest, _ := strings.Cut(line, " ")
		verdict, rest, _ := strings.Cut(rest, " ")
		raw, event, _ := strings.Cut(rest, " :: ")
		checkFilterVector(t, rule, verdict, raw, event)
		count++
	}
	if count < 100 {
		t.Errorf("only %d vectors", count)
	}
}

func checkFilterVector(t *testing.T, rule, verdict, raw, event string) {
	f, err := ParseFilter([]byte(raw))
	var refused *FilterError
	switch verdict {
	case "ok":
		if err != nil {
			t.Errorf("%s: %s: %v", rule, raw, err)
		}
	case "syntax":
		if !errors.Is(err, ErrFilterSyntax) {
			t.Errorf("%s: %s: got %v, want a syntax error", rule, raw, err)
		}
	case "refuse":
		if !errors.As(err, &refused) || refused.Detail == "" {
			t.Errorf("%s: %s: got %v, want a filter error", rule, raw, err)
		}
	case "match", "miss":
		if err != nil {
			t.Errorf("%s: %s: %v", rule, raw, err)
			return
		}
		e := admitMembers(t, event)
		if got := f.Match(e); got != (verdict == "match") {
			t.Errorf("%s: %s on %s: match is %v", rule, raw, event, got)
		}
		checkCandidates(t, f, e)
	default:
		t.Errorf("bad verdict %q", verdict)
	}
}

// checkCandidates fails if the event matches and lacks a key of a set.
func checkCandidates(t testing.TB, f *Filter, e *Event) {
	t.Helper()
	if !f.Match(e) {
		return
	}
	keys := e.AppendKeys(nil)
	for i, set := range f.Candidates() {
		if !slices.ContainsFunc(set, func(k uint64) bool {
			return slices.Contains(keys, k)
		}) {
			t.Errorf("%s matches %s, which has no key of set %d",
				f.Canonical(), e.Text(), i)
		}
	}
}

func TestFilterPublishedFixture(t *testing.T) {
	var file struct {
		Match []struct {
			Name          string
			Filter, Event json.RawMessage
			Match         bool
		}
		Invalid []struct {
			Name   string
			Filter json.RawMessage
		}
	}
	text := fixture(t, "conformance/fixtures/attr-match/cases.json")
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Match) != 14 || len(file.Invalid) != 10 {
		t.Errorf("got %d and %d cases", len(file.Match), len(file.Invalid))
	}
	for _, c := range file.Match {
		f, err := ParseFilter(c.Filter)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		e := admitMembers(t, string(c.Event))
		if f.Match(e) != c.Match {
			t.Errorf("%s: match is %v", c.Name, !c.Match)
		}
		checkCandidates(t, f, e)
	}
	for _, c := range file.Invalid {
		var refused *FilterError
		if _, err := ParseFilter(c.Filter); !errors.As(err, &refused) {
			t.Errorf("%s: got %v", c.Name, err)
		}
	}
}

func TestFilterAbsent(t *testing.T) {
	for _, raw := range [][]byte{nil, {}} {
		f, err := ParseFilter(raw)
		if err != nil || f.Canonical() != "{}" || f.Candidates() != nil {
			t.Fatalf("R210: %v %v", f, err)
		}
		if !f.Match(admitMembers(t, `{"type":"agent.idle"}`)) {
			t.Error("R210: the empty filter must match everything")
		}
	}
	if new(Filter).Canonical() != "{}" {
		t.Error("the zero Filter is the empty filter")
	}
}

func TestFilterCanonical(t *testing.T) {
	for _, c := range []struct{ want, filter string }{
		{`{}`, `{"severity":{},"capture":["full","none","redacted","metadata"]}`},
		{`{"agent":["a"]}`, `{"agent":"a"}`},
		{`{"agent":["a","b"],"run":["r"]}`, `{ "run":["r"], "agent":["b","a","\u0062"] }`},
		{`{"acme":["a",-1,5,15e19,false,true]}`, `{"acme":[true,5e0,5,1.5e20,"a",-1,false,150000000000000000000]}`},
		{`{"agent":["a"]}`, `{"agent":[1,"a",true]}`},
		{`{"agent":[""]}`, `{"agent":5}`},
		{`{"epoch":[0,12]}`, `{"epoch":[12.0,"0",0,true,1e30]}`},
		{`{"severity":["debug","info"]}`, `{"severity":{"lte":"info"}}`},
		{`{"severity":[""]}`, `{"severity":{"gte":"error","lte":"info"}}`},
		{`{"severity":["error"]}`, `{"severity":["loud","error",5]}`},
		{`{"capture":["none","full"]}`, `{"capture":["full","none","none"]}`},
		{`{"type":["run.started","tool.*"]}`, `{"type":["tool.*","tool.a.*","run.started","tool.failed"]}`},
		{`{"acme":["\"\\\n\u0001é"]}`, `{"acme":"\"\\\n\u0001\u00e9"}`},
	} {
		f, err := ParseFilter([]byte(c.filter))
		if err != nil {
			t.Errorf("%s: %v", c.filter, err)
			continue
		}
		if f.Canonical() != c.want {
			t.Errorf("%s: got %s, want %s", c.filter, f.Canonical(), c.want)
		}
		checkCanonicalStable(t, f)
	}
}

func checkCanonicalStable(t testing.TB, f *Filter) {
	t.Helper()
	again, err := ParseFilter([]byte(f.Canonical()))
	if err != nil {
		t.Fatalf("canonical %s: %v", f.Canonical(), err)
	}
	if again.Canonical() != f.Canonical() {
		t.Errorf("canonical %s became %s", f.Canonical(), again.Canonical())
	}
	equal := slices.EqualFunc(f.Candidates(), again.Candidates(),
		slices.Equal[[]uint64])
	if !equal {
		t.Errorf("canonical %s has other candidates", f.Canonical())
	}
}

func TestFilterSessions(t *testing.T) {
	for _, c := range []struct {
		filter string
		want   []string
	}{
		{`{}`, nil},
		{`{"agent":"a"}`, nil},
		{`{"session":"b"}`, []string{"b"}},
		{`{"session":["b","a","b","\u0061"]}`, []string{"b", "a"}},
		{`{"session":5}`, nil},
		{`{"session":["",1,"c"]}`, []string{"c"}},
	} {
		f, err := ParseFilter([]byte(c.filter))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.Sessions(), c.want) {
			t.Errorf("R279: %s: got %q", c.filter, f.Sessions())
		}
	}
}

func TestFilterErrorBounded(t *testing.T) {
	raw := `{"` + strings.Repeat("A", 1<<16) + `":1}`
	_, err := ParseFilter([]byte(raw))
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("error text of %d bytes", len(err.Error()))
	}
}

func TestFilterKeepsNothingOfRaw(t *testing.T) {
	raw := []byte(`{"agent":"aaaa","acme":[123456789012345678901234567890]}`)
	f, err := ParseFilter(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone([]byte(f.Canonical()))
	for i := range raw {
		raw[i] = 'x'
	}
	if string(f.appendCanonical(nil)) != string(want) {
		t.Error("the filter shares the bytes it was parsed from")
	}
}
