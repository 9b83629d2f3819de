package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestConsumersText(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	got := f.get("/consumers")
	want := "" +
		"REMOTE          KIND       LAG_EVENTS  UNSENT_BYTES  UNACKED_BYTES  SHED_EVENTS  STALLED  AGE     FILTER\n" +
		"192.0.2.2:2000  websocket  7           4096          512            3            1.5s     1h0m0s  * | type=slow\n" +
		"192.0.2.1:1000  sse        0           1             0              0            0s       1m0s    type=quick\n"
	if got.status != 200 || got.body != want {
		t.Errorf("%d\n%s\nwant\n%s", got.status, got.body, want)
	}
	if media := got.header.Get("Content-Type"); media != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type %q", media)
	}
}

func TestConsumersJSON(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	got := f.get("/consumers?format=json")
	want := `{"consumers":[` +
		`{"remote":"192.0.2.2:2000","kind":"websocket","filters":["","type=slow"],"subscriptions":2,"lag_events":7,` +
		`"unsent_bytes":4096,"unacked_bytes":512,"shed_events":3,"stalled_seconds":1.5,"age_seconds":3600},` +
		`{"remote":"192.0.2.1:1000","kind":"sse","filters":["type=quick"],"subscriptions":1,"lag_events":0,` +
		`"unsent_bytes":1,"unacked_bytes":0,"shed_events":0,"stalled_seconds":0,"age_seconds":60}]}` + "\n"
	if got.status != 200 || got.body != want {
		t.Errorf("%d\n%s\nwant\n%s", got.status, got.body, want)
	}
}

func TestConsumersForm(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	check := func(target string, status int, media string, headers ...string) {
		t.Helper()
		got := f.get(target, headers...)
		if got.status != status || !strings.HasPrefix(got.header.Get("Content-Type"), media) {
			t.Errorf("%s %q: %d %s", target, headers, got.status, got.header.Get("Content-Type"))
		}
	}
	check("/consumers", 200, "text/plain")
	check("/consumers", 200, "text/plain", "Accept", "text/html, */*")
	check("/consumers", 200, "text/plain", "Accept", "application/jsonx")
	check("/consumers", 200, "application/json", "Accept", "application/json")
	check("/consumers", 200, "application/json", "Accept", "text/html;q=0.5, Application/JSON;q=0.9")
	check("/consumers", 200, "application/json", "Accept", "text/html", "Accept", "application/json")
	check("/consumers?format=json", 200, "application/json")
	check("/consumers?format=text", 200, "text/plain", "Accept", "application/json")
	check("/consumers?format=xml", 400, "text/plain")
}

func TestConsumersNone(t *testing.T) {
	empty := func(context.Context) (*Snapshot, error) { return &Snapshot{}, nil }
	f := serveSource(t, &fakeSource{take: empty}, timing{})
	if got := f.get("/consumers"); got.status != 200 || !strings.HasPrefix(got.body, "no consumer") {
		t.Errorf("%d %q", got.status, got.body)
	}
	if got := f.get("/consumers?format=json"); got.body != "{\"consumers\":[]}\n" {
		t.Errorf("%q", got.body)
	}
}

func TestConsumersFailure(t *testing.T) {
	source := &fakeSource{}
	source.take = func(context.Context) (*Snapshot, error) {
		if source.calls.Load() == 1 {
			return nil, errors.New("loop 1 is stuck")
		}
		return fullSnapshot(), nil
	}
	f := serveSource(t, source, timing{})
	if got := f.get("/consumers"); got.status != 503 || got.body != "no snapshot: loop 1 is stuck\n" {
		t.Errorf("%d %q", got.status, got.body)
	}
	if got := f.get("/metrics"); !strings.Contains(got.body, `sluice_admin_failures_total{page="consumers"} 1`) {
		t.Errorf("not counted:\n%s", got.body)
	}
}

// Each key decides only where those before it are equal.
func TestSlowestFirst(t *testing.T) {
	want := []Consumer{
		{QueuedBytes: 2},
		{QueuedBytes: 1, LagEvents: 2},
		{QueuedBytes: 1, LagEvents: 1, Stalled: 2},
		{QueuedBytes: 1, LagEvents: 1, Stalled: 1, UnackedBytes: 2},
		{QueuedBytes: 1, LagEvents: 1, Stalled: 1, UnackedBytes: 1, Age: 2},
		{QueuedBytes: 1, LagEvents: 1, Stalled: 1, UnackedBytes: 1, Age: 1},
		{Age: time.Hour},
	}
	list := make([]Consumer, len(want))
	for i := range want {
		list[len(want)-1-i] = want[i]
	}
	if got := slowestFirst(list); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant\n%v", got, want)
	}
}

// The page is bounded whatever the source and the clients do.
func TestConsumersAreBounded(t *testing.T) {
	filters := make([]string, 1000)
	for i := range filters {
		filters[i] = strings.Repeat("é", 1000)
	}
	many := func(context.Context) (*Snapshot, error) {
		s := &Snapshot{}
		for range 5000 {
			s.Slowest = append(s.Slowest, Consumer{Remote: strings.Repeat("r", 1000), Kind: "sse", Filters: filters})
		}
		return s, nil
	}
	f := serveSource(t, &fakeSource{take: many}, timing{})
	lines := strings.Split(strings.TrimSpace(f.get("/consumers").body), "\n")
	if len(lines) != maxConsumers+1 {
		t.Errorf("%d lines", len(lines))
	}
	if n := len(lines[1]); n > 500 {
		t.Errorf("a line of %d bytes", n)
	}
	var page struct {
		Consumers []struct {
			Filters       []string
			Subscriptions int
		}
	}
	if err := json.Unmarshal([]byte(f.get("/consumers?format=json").body), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Consumers) != maxConsumers {
		t.Fatalf("%d consumers", len(page.Consumers))
	}
	c := page.Consumers[0]
	if len(c.Filters) != maxFilters || c.Subscriptions != 1000 || len(c.Filters[0]) > maxFilterBytes {
		t.Errorf("%d filters of %d, the first of %d bytes", len(c.Filters), c.Subscriptions, len(c.Filters[0]))
	}
}

func TestFilterText(t *testing.T) {
	f := func(want string, filters ...string) {
		t.Helper()
		if got := filterText(filters); got != want {
			t.Errorf("%q: %q, want %q", filters, got, want)
		}
	}
	f("-")
	f("*", "")
	f("a=1", "a=1")
	f("a=1 | * | b=2", "a=1", "", "b=2")
	f(strings.Repeat("x", 200), strings.Repeat("x", 200))
	f(strings.Repeat("x", 197)+"…", strings.Repeat("x", 201))
	f(strings.Repeat("x", 150)+" | "+strings.Repeat("y", 44)+"…", strings.Repeat("x", 150), strings.Repeat("y", 150))
}

// A client's text neither moves the terminal's cursor nor breaks the table.
func TestClean(t *testing.T) {
	f := func(in string, limit int, want string) {
		t.Helper()
		if got := clean(in, limit); got != want {
			t.Errorf("clean(%q, %d) = %q, want %q", in, limit, got, want)
		}
	}
	f("", 10, "")
	f("plain text", 10, "plain text")
	f("é=\"ü\"", 10, "é=\"ü\"")
	f("a\tb\nc\x1b[2Jd", 20, "a�b�c�[2Jd")
	f("\u202eright to left", 30, "�right to left")
	f("bad\xffbyte", 20, "bad�byte")
	f("éééééé", 8, "éé…")
	f("abcdefgh", 8, "abcdefgh")
	f("abcdefghi", 8, "abcde…")
	f("\x80\x80\x80\x80\x80\x80", 5, "…")
}

func FuzzClean(f *testing.F) {
	f.Add("type=a\x1b[0m", 5)
	f.Add("\xff\xfe\x80", 3)
	f.Add(strings.Repeat("é", 100), 150)
	f.Fuzz(func(t *testing.T, in string, limit int) {
		limit = 3 + (limit&0x7fffffff)%300
		got := clean(in, limit)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\t\r\n\x1b\x7f") {
			t.Fatalf("clean(%q) = %q", in, got)
		}
		if len(got) > 3*limit || len(in) <= limit && utf8.RuneCountInString(got) != utf8.RuneCountInString(in) {
			t.Fatalf("clean(%q, %d) = %q", in, limit, got)
		}
	})
}
