package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-relay/sluice/bench/report"
	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

// Every load is one that the report knows, and every one that the report knows
// is run: a goal that nobody measures would say nothing for ever.
func TestSuiteIsTheReports(t *testing.T) {
	var run []string
	for _, s := range Suite() {
		if s.Rounds < 1 || len(s.Targets) == 0 {
			t.Errorf("%s: %d rounds, targets %v", s.Name, s.Rounds, s.Targets)
		}
		for _, once := range s.Once {
			if !slices.Contains(s.Targets, once) {
				t.Errorf("%s: %s is measured once and not a target", s.Name, once)
			}
		}
		for _, l := range s.Loads {
			if l.Name != "" {
				run = append(run, l.Name)
			}
		}
	}
	known := report.Scenarios()
	slices.Sort(run)
	slices.Sort(known)
	if !slices.Equal(run, known) {
		t.Errorf("run   %v\nknown %v", run, known)
	}
}

func TestEventTexts(t *testing.T) {
	for _, size := range []int{small, usual, large} {
		s, err := newShape(size, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range []int{0, 9, 10, 12345, 8_999_999} {
			text := s.appendText(nil, event)
			if len(text) != size {
				t.Errorf("event %d has %d bytes, not %d", event, len(text), size)
			}
			var got struct {
				ID, Session, Severity string
				Seq                   int
			}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("event %d: %v", event, err)
			}
			if got.ID != fmt.Sprintf("bench-%010d", event) || got.Session != fmt.Sprintf("s%05d", event%10) ||
				got.Seq != firstSeq+event/10 {
				t.Errorf("event %d is %+v", event, got)
			}
		}
	}
	for _, bad := range [][2]int{{10, 1}, {usual, 0}, {usual, 100_000}} {
		if _, err := newShape(bad[0], bad[1]); err == nil {
			t.Errorf("a shape of %d bytes and %d sessions", bad[0], bad[1])
		}
	}
}

// The relay takes the events as they are, or nothing would be measured.
func TestEventsAreAdmitted(t *testing.T) {
	s, err := newShape(small, 1)
	if err != nil {
		t.Fatal(err)
	}
	var scan aep.Scanner
	if err := scan.Scan(s.appendText(nil, 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := scan.Event(); err != nil {
		t.Error(err)
	}
}

func TestMessageFrames(t *testing.T) {
	for _, size := range []int{small, usual, large, 70_000} {
		s, err := newShape(size, 1)
		if err != nil {
			t.Fatal(err)
		}
		r := wsframe.Reader{Limit: 1 << 20}
		frame := s.appendMessage(nil, 3)
		n, msg, err := r.Feed(frame, &wsframe.Scratch{})
		if err != nil || n != len(frame) || msg.Op != wsframe.OpText || !bytes.Equal(msg.Payload, s.appendText(nil, 3)) {
			t.Errorf("%d bytes: read %d of %d, %v %d bytes, %v", size, n, len(frame), msg.Op, len(msg.Payload), err)
		}
	}
}

func TestRequests(t *testing.T) {
	s, err := newShape(small, 1)
	if err != nil {
		t.Fatal(err)
	}
	request := s.appendRequest(nil, 5, 3)
	head, body, found := bytes.Cut(request, []byte("\r\n\r\n"))
	if !found || !bytes.Contains(head, fmt.Appendf(nil, "Content-Length: %d", len(body))) {
		t.Errorf("a body of %d bytes behind\n%s", len(body), head)
	}
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		if want := s.appendText(nil, 5+i); !bytes.Equal(line, want) {
			t.Errorf("line %d is %s", i, line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestPlan(t *testing.T) {
	suite := []Scenario{
		{Name: "a", Targets: []string{sluice, floor, "gws"}, Once: []string{"gws"}, Rounds: 2, Quick: true},
		{Name: "alt", Targets: []string{"gws"}, Alternate: []string{"gws"}, Rounds: 4},
		{Name: "ab", Targets: []string{sluice}, Rounds: 1, Loads: []Load{{Events: 9, Warmup: 1}}},
		{Name: "x", Group: "g", Targets: []string{sluice}, Rounds: 2},
		{Name: "y", Group: "g", Targets: []string{sluice}, Rounds: 2},
	}
	f := func(o Options, want ...string) {
		t.Helper()
		steps, err := o.plan(suite)
		var got []string
		for _, s := range steps {
			got = append(got, fmt.Sprint(s.s.Name, " ", s.target, " ", s.round))
		}
		if !slices.Equal(got, want) || (err == nil) != (len(want) > 0) {
			t.Errorf("%+v: %q, %v, want %q", o, got, err, want)
		}
	}
	f(Options{Rivals: "r", Only: []string{"alt"}}, "alt gws 1", "alt gws 3")
	f(Options{Rivals: "r", Only: []string{"a", "ab", "x", "y"}}, "a sluice 1", "a floor 1", "a gws 1", "a sluice 2", "a floor 2", "ab sluice 1",
		"x sluice 1", "y sluice 1", "x sluice 2", "y sluice 2")
	f(Options{}, "a sluice 1", "a sluice 2", "ab sluice 1", "x sluice 1", "y sluice 1", "x sluice 2", "y sluice 2")
	f(Options{Quick: true, Rivals: "r"}, "a sluice 1", "a floor 1", "a gws 1")
	f(Options{Rounds: 1}, "a sluice 1", "ab sluice 1", "x sluice 1", "y sluice 1")
	f(Options{Only: []string{"?b"}}, "ab sluice 1")
	f(Options{Targets: []string{floor}, Rivals: "r"}, "a floor 1", "a floor 2")
	f(Options{Targets: []string{"nobody"}, Rivals: "r"})
	f(Options{Only: []string{"c"}})
	if _, err := (&Options{Only: []string{"["}}).plan(suite); err == nil || errors.Is(err, ErrNothing) {
		t.Errorf("a bad pattern: %v", err)
	}
}
