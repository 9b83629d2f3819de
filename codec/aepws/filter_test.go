package aepws

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// readFilter reads a filter for a tenant.
func readFilter(t testing.TB, payload, tenant string) (FilterRequest, *Fault) {
	t.Helper()
	s, e := admitted(t, control(KindSubscriptionRequested, payload))
	var r FilterRequest
	fault := s.ReadFilter(e, tenant, testNow, &r)
	if string(r.Raw) != payload || (fault == nil) != (r.Filter != nil) {
		t.Fatalf("%s: %+v, %v", payload, r, fault)
	}
	return r, fault
}

func filterOf(t testing.TB, payload string) *Filter {
	t.Helper()
	r, fault := readFilter(t, payload, "")
	if fault != nil {
		t.Fatalf("%s: %v", payload, fault)
	}
	return r.Filter
}

// TestFilterFaults is B47, B49, B51, B54 and hard cases 22, 23 and 29.
func TestFilterFaults(t *testing.T) {
	f := func(rule, payload, reason string) {
		t.Helper()
		_, fault := readFilter(t, payload, "")
		if fault == nil || fault.Code != SubscriptionRejected || fault.Reason != reason || fault.Text == "" {
			t.Errorf("%s: %.200s: %+v", rule, payload, fault)
		}
	}
	for _, payload := range []string{`{}`, `{"session_id":"x"}`, `{"types":[]}`, `{"task_id":"x","conversation_id":"y","delivery_mode":"replayable"}`} {
		f("case 22", payload, "")
	}
	f("case 23", `{"types":"mem*"}`, "")
	for _, p := range []string{"**", "*x", "a.*b", "a..b", "", ".", "a.", ".a", "a.**", "*.", "a.b*.c"} {
		f("B49", `{"types":"`+p+`"}`, "")
		f("B49", `{"types":["a.b","`+p+`"]}`, "")
	}
	for _, name := range []string{"types", "source", "target", "topic", "session_id", "conversation_id", "task_id"} {
		for _, v := range []string{`1`, `null`, `{}`, `[1]`, `["a.b",null]`, `[]`, `[["a.b"]]`} {
			f("B47", `{"topic2":1,"from_cursor":"x:1","`+name+`":`+v+`}`, "")
		}
		f("B47", `{"from_cursor":"x:1","`+name+`":"a.b","`+name+`":"a.b"}`, "")
		f("B20", `{"from_cursor":"x:1","`+name+`":"`+strings.Repeat("x", 513)+`"}`, "")
		f("bound", `{"from_cursor":"x:1","`+name+`":["a"`+strings.Repeat(`,"a"`, MaxFilterValues)+`]}`, "")
	}
	for _, v := range []string{`"x"`, `null`, `1`, `""`} {
		f("B47", `{"types":"*","delivery_mode":`+v+`}`, "")
	}
	for _, v := range []string{`""`, `null`, `42`, `"42"`, `"evt_1:-1"`, `"evt_1:4e2"`, `"evt_1:"`, `":5"`, `"x:12345678901234567890"`} {
		f("case 29", `{"types":"*","from_cursor":`+v+`}`, ReasonCursorMalformed)
	}
	for _, v := range []string{`1`, `""`, `"tomorrow"`, `"2026-03-01T12:00:00.123Z"`, `"2020-01-01T00:00:00Z"`} {
		f("B54", `{"types":"*","expires_at":`+v+`}`, "")
	}
	f("B47", `{"types":"*","from_cursor":"a:1","fr\u006fm_cursor":"a:1"}`, "")
	f("B47", `{"types":"*","expires_at":null,"expires_at":null}`, "")
	f("B47", `{"types":"*","delivery_mode":"replayable","delivery_mode":"replayable"}`, "")
}

// TestFilterRequest: what a filter holds beside its members (B47, B54).
func TestFilterRequest(t *testing.T) {
	r, fault := readFilter(t, `{"from_cursor":"a:b:7","delivery_mode":"at_least_once","expires_at":"2026-03-01T13:00:00+00:30","x":{"types":1},"x":2}`, "te")
	if fault != nil || !r.HasCursor || r.CursorID != "a:b" || r.CursorSequence != 7 || r.Mode != AtLeastOnce ||
		!r.ExpiresAt.Equal(time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)) || r.Filter.Tenant() != "te" {
		t.Errorf("%+v, %v", r, fault)
	}
	if !r.Filter.Match(&Attributes{Type: "a.b", TenantID: "te"}) {
		t.Error("B47: a cursor alone does not stand for all types")
	}
	r, fault = readFilter(t, `{"session_id":"s","from_cursor":"a:0","expires_at":null}`, "")
	if fault != nil || r.Filter.Match(&Attributes{Type: "a.b"}) || !r.Filter.Match(&Attributes{Type: "a.b", SessionID: "s"}) || !r.ExpiresAt.IsZero() {
		t.Errorf("B47: %+v, %v", r, fault)
	}
	values := make([]string, MaxFilterValues)
	for i := range values {
		values[i] = `"v` + strconv.Itoa(i) + `"`
	}
	f := filterOf(t, `{"topic":[`+strings.Join(values, ",")+`]}`)
	if !f.Match(&Attributes{Type: "a.b", Topic: "v63"}) || f.Match(&Attributes{Type: "a.b", Topic: "v64"}) {
		t.Error("B47: 64 values")
	}
}

// TestPatterns is the table of B49.
func TestPatterns(t *testing.T) {
	for _, row := range rows(t, "patterns.txt", 3) {
		f := filterOf(t, `{"types":"`+row[0]+`"}`)
		for i, want := range []bool{true, false} {
			for typ := range strings.FieldsSeq(row[1+i]) {
				if got := f.Match(&Attributes{Type: typ}); got != want {
					t.Errorf("B49: %s and %s: %v", row[0], typ, got)
				}
			}
		}
	}
}

// TestMatch is B46, B48 and hard case 24.
func TestMatch(t *testing.T) {
	a := Attributes{Type: "task.progress", Source: "s", Target: "t", Topic: "to", SessionID: "se", ConversationID: "co", TaskID: "ta"}
	f := func(rule, payload string, want bool) {
		t.Helper()
		if got := filterOf(t, payload).Match(&a); got != want {
			t.Errorf("%s: %s: %v", rule, payload, got)
		}
	}
	f("B48", `{"types":"*"}`, true)
	f("B48", `{"source":"s"}`, true)
	f("B48", `{"source":["x","s"],"target":"t","topic":"to","session_id":"se","conversation_id":"co","task_id":["ta"],"types":["x.y","task.*"]}`, true)
	for _, name := range attrNames {
		f("B48", `{"types":"*","`+name+`":"x"}`, false)
		f("B48", `{"types":"*","`+name+`":["x",""]}`, false)
	}
	f("B48", `{"source":"S"}`, false)
	f("B48", `{"source":"s","types":"task.output"}`, false)
	f("B48", `{"source":"\u0073"}`, true)
	a = Attributes{Type: "a.b", Source: "s"}
	f("B48", `{"target":"t"}`, false)
	f("B48", `{"target":["t",""]}`, false)
	f("B48", `{"source":"s"}`, true)
	for _, c := range []struct {
		filter, event string
		want          bool
	}{{"", "", true}, {"x", "x", true}, {"x", "", false}, {"", "x", false}, {"x", "y", false}} {
		r, fault := readFilter(t, `{"types":["*"]}`, c.filter)
		if fault != nil {
			t.Fatal(fault)
		}
		if got := r.Filter.Match(&Attributes{Type: "a.b", TenantID: c.event}); got != c.want {
			t.Errorf("B46, case 24: filter of %q, event of %q: %v", c.filter, c.event, got)
		}
	}
}

// TestDeadLetterFilters is B58: only who names them gets them.
func TestDeadLetterFilters(t *testing.T) {
	a := NewAuthor("r", NewIDs()).DeadLetterAttributes("")
	f := func(payload string, want bool) {
		t.Helper()
		filter := filterOf(t, payload)
		if got := filter.MatchDeadLetter(&a); got != want {
			t.Errorf("B58: %s: %v", payload, got)
		}
		if want && !found(filter, &a) {
			t.Errorf("E4: %s: the index does not find a dead letter", payload)
		}
		other := a
		other.TenantID = "x"
		if filter.MatchDeadLetter(&other) {
			t.Errorf("B46: %s: dead letter of another tenant", payload)
		}
	}
	f(`{"types":"*"}`, false)
	f(`{"types":["event.*","*.dead_lettered"]}`, false)
	f(`{"types":"event.dead_lettered"}`, true)
	f(`{"types":["*","event.dead_lettered"]}`, true)
	f(`{"types":["event.*","event.dead_lettered"]}`, true)
	f(`{"types":"event.dead_lettered","source":"relay:r"}`, true)
	f(`{"types":"event.dead_lettered","source":"relay:x"}`, false)
	f(`{"types":"event.dead_lettered","target":"x"}`, false)
}

// TestCanonical: equal filters have equal texts, others do not.
func TestCanonical(t *testing.T) {
	same := [][]string{
		{`{"types":"*"}`, `{"types":["*"]}`, `{"types":["a.b","*","x.*"],"x":1}`, `{"from_cursor":"a:1"}`, `{"types":"*","delivery_mode":"replayable","expires_at":null}`},
		{`{"types":["*","event.dead_lettered"]}`, `{"types":["event.dead_lettered","a.b","*"]}`},
		{`{"types":["a.b","c.d"]}`, `{"types":["c.d","a.b","c.d"]}`},
		{`{"types":["a.*"]}`, `{"types":["a.b","a.*","a.b.c"]}`},
		{`{"types":["event.*","event.dead_lettered"]}`},
		{`{"types":"event.*"}`},
		{`{"source":["a","b"],"target":"t"}`, `{"target":["t","t"],"source":["b","a",""],"types":"*"}`},
		{`{"source":"a,b"}`},
		{`{"source":["a\",\"b"]}`},
		{`{"target":["a","b"]}`},
		{`{"source":""}`, `{"source":["",""]}`},
	}
	texts := map[string]int{}
	for i, group := range same {
		for _, payload := range group {
			text := filterOf(t, payload).Canonical()
			if other, ok := texts[text]; ok && other != i {
				t.Errorf("%s: %s is that of group %d too", payload, text, other)
			} else if !ok && payload != group[0] {
				t.Errorf("%s: %s is not that of %s", payload, text, group[0])
			}
			texts[text] = i
			if stdMembers(t, []byte(text)) == nil {
				t.Errorf("%s: no members", text)
			}
		}
	}
	r, _ := readFilter(t, `{"types":"*"}`, "te")
	if r.Filter.Canonical() == filterOf(t, `{"types":"*"}`).Canonical() {
		t.Error("B46: filters of two tenants share a text")
	}
}

// found tells if an index that files the filter under any of its candidate
// sets finds it for an event.
func found(f *Filter, a *Attributes) bool {
	keys := a.AppendKeys(nil)
	for _, set := range f.Candidates() {
		if !slices.ContainsFunc(set, func(k uint64) bool { return slices.Contains(keys, k) }) {
			return false
		}
	}
	return true
}

// TestCandidates: the sets come most selective first, and nothing is filed
// under a tenant that has a better place.
func TestCandidates(t *testing.T) {
	f := func(payload string, sizes ...int) {
		t.Helper()
		var got []int
		for _, set := range filterOf(t, payload).Candidates() {
			got = append(got, len(set))
		}
		if !slices.Equal(got, sizes) {
			t.Errorf("%s: sets of %v keys, want %v", payload, got, sizes)
		}
	}
	f(`{"types":"*"}`, 1)
	f(`{"types":"*.progress"}`, 1)
	f(`{"types":["a.b","a.c","t.*"]}`, 3)
	f(`{"types":["a.b","*.c"]}`, 1)
	f(`{"types":["a.*","a.*.c"]}`, 1)
	f(`{"source":["a","b"],"task_id":["1","2","3"],"types":"a.b"}`, 3, 2, 1)
	f(`{"source":"","types":"*"}`, 0)
	if n := len((&Attributes{Type: "a.b.c.d.e.f.g.h", Source: "s", Target: "t", Topic: "t", SessionID: "s", ConversationID: "c", TaskID: "t"}).AppendKeys(nil)); n > 16 {
		t.Errorf("%d keys", n)
	}
}
