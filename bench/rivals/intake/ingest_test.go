package intake

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func line(session string, epoch, seq int, id string) string {
	return fmt.Sprintf(`{"id":%q,"type":"message.text","time":"2026-01-02T03:04:05Z","session":%q,"epoch":%d,"seq":%d,"data":{"n":[1,2]}}`,
		id, session, epoch, seq)
}

// post hands a body to the handler and returns the status.
func post(h http.Handler, body string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/events", strings.NewReader(body)))
	return w.Code
}

// TestIngest lists bodies with their answers and what reaches the sink.
func TestIngest(t *testing.T) {
	a1, a2, b1 := line("a", 0, 1, "1"), line("a", 0, 2, "2"), line("b", 0, 1, "1")
	cases := []struct {
		name  string
		posts []string
		codes string
		want  []string
	}{
		{"one event", []string{a1}, "[202]", []string{"a|" + a1}},
		{"a batch in order (I1)", []string{a2 + "\n" + b1 + "\n" + a1 + "\n"}, "[202]", []string{"a|" + a2, "b|" + b1, "a|" + a1}},
		{"blank lines, CR and indents", []string{"\n\r\n \t" + a1 + " \r\n\n"}, "[202]", []string{"a|" + a1}},
		{"an empty body", []string{""}, "[202]", nil},
		{"a duplicate in the body", []string{a1 + "\n" + a1}, "[202]", []string{"a|" + a1}},
		{"a duplicate in a later body", []string{a1, a1 + "\n" + a2}, "[202 202]", []string{"a|" + a1, "a|" + a2}},
		{"the same id in another session", []string{a1 + "\n" + b1}, "[202]", []string{"a|" + a1, "b|" + b1}},
		{
			"the same id at another place",
			[]string{line("a", 0, 1, "1") + "\n" + line("a", 1, 1, "1") + "\n" + line("a", 1, 2, "1")},
			"[202]",
			[]string{"a|" + line("a", 0, 1, "1"), "a|" + line("a", 1, 1, "1"), "a|" + line("a", 1, 2, "1")},
		},
		{"a bad line refuses all (I2)", []string{a1 + "\n{\n" + a2, a1}, "[400 202]", []string{"a|" + a1}},
		{"garbage behind an event", []string{a1 + "x"}, "[400]", nil},
		{"bad JSON in what is not read", []string{strings.Replace(a1, "[1,2]", "[1,,2]", 1)}, "[400]", nil},
		{"a wrong type", []string{strings.Replace(a1, `"seq":1`, `"seq":"1"`, 1)}, "[400]", nil},
		{"not an object", []string{"[]"}, "[400]", nil},
		{"null", []string{"null"}, "[400]", nil},
		{"no session", []string{line("", 0, 1, "1")}, "[400]", nil},
		{"no id", []string{line("a", 0, 1, "")}, "[400]", nil},
		{"too long", []string{strings.Repeat(" ", maxBodyBytes+1)}, "[413]", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var r recorder
			h := NewIngest(&r)
			var codes []int
			for _, body := range c.posts {
				codes = append(codes, post(h, body))
			}
			if got := fmt.Sprint(codes); got != c.codes {
				t.Errorf("answers %s, want %s", got, c.codes)
			}
			if got, want := fmt.Sprintf("%q", r.events), fmt.Sprintf("%q", c.want); got != want {
				t.Errorf("events %s, want %s", got, want)
			}
		})
	}
}

// TestHistoryIsBounded checks that a key is forgotten after maxHistory others
// of its session, and a session after maxSessions others (I3).
func TestHistoryIsBounded(t *testing.T) {
	all := newHistories()
	h := all.of("a")
	for i := range maxHistory {
		if !h.admit(key{seq: int64(i)}, nil) {
			t.Fatalf("key %d is not new", i)
		}
	}
	if h.admit(key{seq: 0}, nil) {
		t.Error("the oldest key is forgotten too early")
	}
	h.admit(key{seq: maxHistory}, nil)
	if !h.admit(key{seq: 0}, nil) {
		t.Error("the oldest key is still known")
	}
	if h.admit(key{seq: 2}, nil) {
		t.Error("more than the oldest key is forgotten")
	}
	if len(h.seen) != maxHistory || len(h.ring) != maxHistory {
		t.Errorf("%d seen, %d in the ring, want %d", len(h.seen), len(h.ring), maxHistory)
	}

	for i := range maxSessions {
		all.of(fmt.Sprint(i))
	}
	if len(all.byName) != maxSessions || all.byName["a"] != nil {
		t.Errorf("%d sessions, a is %v; want %d without a", len(all.byName), all.byName["a"], maxSessions)
	}
}
