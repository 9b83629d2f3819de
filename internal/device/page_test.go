package device

import (
	"encoding/json"
	"strings"
	"testing"
)

// S32: pages as they may be spelled.
func TestSplitPage(t *testing.T) {
	f := func(body, next string, events ...string) {
		t.Helper()
		p, err := splitPage([]byte(body))
		if err != nil || p.next != next || len(p.events) != len(events) {
			t.Errorf("%s: %q, %d events, %v", body, p.next, len(p.events), err)
			return
		}
		for i, e := range p.events {
			if string(e) != events[i] {
				t.Errorf("%s: event %d is %s, want %s", body, i, e, events[i])
			}
		}
	}
	f(`{"events":[],"nextCursor":"0"}`, "0")
	f(` { "nextCursor" : "a\u002Fb" , "events" : [ ] } `, "a/b")
	f(`{"events":[{"a":1},{"b":[2,{"c":"}"}]}],"nextCursor":"7"}`, "7", `{"a":1}`, `{"b":[2,{"c":"}"}]}`)
	f(`{"events":[{"a":"\\"},"\"]",1.5e3,null],"nextCursor":"7"}`, "7", `{"a":"\\"}`, `"\"]"`, `1.5e3`, `null`)
	f(`{"x":{"events":[1]},"events":[2],"y":true,"nextCursor":"7","z":"\\\""}`, "7", `2`)

	for _, bad := range []string{
		``, `{`, `{}`, `[]`, `null`, `{"events":[]}`, `{"nextCursor":"1"}`, `{"events":[],"nextCursor":"1"`,
		`{"events":[1,],"nextCursor":"1"}`, `{"events":[,1],"nextCursor":"1"}`, `{"events":[1 2],"nextCursor":"1"}`,
		`{"events":[{],"nextCursor":"1"}`, `{"events":[}],"nextCursor":"1"}`, `{"events":["],"nextCursor":"1"}`,
		`{"events":[],"events":[],"nextCursor":"1"}`, `{"events":[],"nextCursor":"1","nextCursor":"1"}`,
		`{"events":[],"nextCursor":"1"}}`, `{"events":[],"nextCursor":"1"},`, `{events:[],"nextCursor":"1"}`,
		`{"events":[] "nextCursor":"1"}`, `{,"events":[],"nextCursor":"1"}`, `{"events":[],"nextCursor":"1",}`,
		`{"events":[],"nextCursor":1}`, `{"events":[],"nextCursor":"1}`, "\ufeff" + `{"events":[],"nextCursor":"1"}`,
	} {
		if p, err := splitPage([]byte(bad)); err == nil {
			t.Errorf("%s: %d events, %q", bad, len(p.events), p.next)
		}
	}
}

// A page that is cut anywhere is refused.
func TestCutPage(t *testing.T) {
	body := `{"events":[{"a":"\\\"}"},[1,{"b":null}]],"x":[{}],"nextCursor":"12"}`
	for n := range len(body) {
		if p, err := splitPage([]byte(body[:n])); err == nil {
			t.Errorf("%s: %d events, %q", body[:n], len(p.events), p.next)
		}
	}
}

// Whatever comes, a page that is admitted is read as encoding/json reads it.
func FuzzSplitPage(f *testing.F) {
	f.Add(`{"events":[{"a":1},{"b":"\\"}],"nextCursor":"7"}`)
	f.Add(`{"x":[1,"]"],"nextCursor":"\u0031","events":[[],{}]}`)
	f.Add(strings.Repeat("[", 80))
	f.Fuzz(func(t *testing.T, body string) {
		p, err := splitPage([]byte(body))
		var want struct {
			Events     []json.RawMessage `json:"events"`
			NextCursor string            `json:"nextCursor"`
		}
		if err != nil || len(p.next) == 0 || len(p.next) > maxCursorChars {
			if err == nil {
				t.Errorf("cursor %q", p.next)
			}
			return
		}
		if !json.Valid([]byte(body)) || json.Unmarshal([]byte(body), &want) != nil {
			return // the inside is for who opens it
		}
		if strings.Contains(strings.ToLower(body), "\\u") || strings.Count(strings.ToLower(body), `"events"`) != 1 ||
			strings.Count(strings.ToLower(body), `"nextcursor"`) != 1 {
			return // encoding/json folds names
		}
		if p.next != want.NextCursor || len(p.events) != len(want.Events) {
			t.Fatalf("%q and %d events, want %q and %d", p.next, len(p.events), want.NextCursor, len(want.Events))
		}
		for i := range p.events {
			if string(p.events[i]) != string(want.Events[i]) {
				t.Errorf("event %d: %s, want %s", i, p.events[i], want.Events[i])
			}
		}
	})
}
