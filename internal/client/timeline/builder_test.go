package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// event returns the text of an event at a position of session s.
func event(typ string, epoch, seq int, members string) string {
	return fmt.Sprintf(`{"aep":"0.1","id":"e%d-%d","type":%q,"time":"2026-07-03T10:00:%02dZ","source":"s","agent":"a",`+
		`"session":"s","epoch":%d,"seq":%d%s}`, epoch, seq, typ, seq%60, epoch, seq, members)
}

// T1: any order of arrival and any repetition give the same timeline.
func TestOrderOfArrival(t *testing.T) {
	events, err := os.ReadFile("testdata/sessions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range sessionsOf(events) {
		want := timelineOf(t, events, session)
		want.Repeated = 0
		wantText := string(want.AppendText(nil, TextOptions{}))
		lines := bytes.Split(bytes.TrimSpace(events), []byte("\n"))
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			shuffled := append(append([][]byte{}, lines...), lines[:r.IntN(len(lines))]...)
			r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			got := timelineOf(t, bytes.Join(shuffled, []byte("\n")), session)
			got.Repeated = 0
			if text := string(got.AppendText(nil, TextOptions{})); text != wantText {
				t.Fatalf("session %q, seed %d: got\n%s\nwant\n%s", session, seed, text, wantText)
			}
		}
	}
}

// count returns how many nodes are told of below some.
func count(nodes []*Node) (n int) {
	for _, node := range nodes {
		n += 1 + count(node.Children)
	}
	return n
}

// T6: many events in few or many runs, with what is slow in a naive way: open
// tools of one name, a run that begins again and again, commands among all.
func TestManyEvents(t *testing.T) {
	f := func(name string, text func(seq int) string, wantNodes int) {
		t.Helper()
		const events = 10_000
		b := New("s")
		begin := time.Now()
		for seq := range events {
			if !b.Add([]byte(text(seq))) {
				t.Fatalf("%s: event %d is not taken", name, seq)
			}
		}
		timeline := b.Timeline()
		out := timeline.AppendText(nil, TextOptions{All: true})
		if got := count(timeline.Children); got != wantNodes {
			t.Errorf("%s: %d nodes, want %d", name, got, wantNodes)
		}
		if lines := bytes.Count(out, []byte("\n")); lines < wantNodes {
			t.Errorf("%s: %d lines for %d nodes", name, lines, wantNodes)
		}
		// A square of 10,000 steps takes much longer under any load.
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
	f("one run", func(seq int) string { return event("progress.status", 0, seq, `,"run":"r"`) }, 10_001)
	f("a run each", func(seq int) string {
		return event("run.started", 0, seq, fmt.Sprintf(`,"run":"r%d"`, seq))
	}, 10_000)
	f("a run again and again", func(seq int) string {
		return event([]string{"run.started", "run.step.started", "run.finished"}[seq%3], 0, seq,
			fmt.Sprintf(`,"run":"r","step":"s%d"`, seq%3))
	}, 6667)
	f("open tools of one name", func(seq int) string {
		typ := "tool.requested"
		if seq >= 5000 {
			typ = "tool.completed"
		}
		return event(typ, 0, seq, `,"run":"r","data":{"tool":{"name":"Bash"}}`)
	}, 5001)
	f("restarts", func(seq int) string { return event("progress.status", seq, 0, "") }, 19_999)
	f("commands", func(seq int) string {
		if seq%2 == 0 {
			return event("control.accepted", 0, seq/2, fmt.Sprintf(`,"cause":"c%d"`, seq+1))
		}
		return fmt.Sprintf(`{"id":"c%d","type":"control.pause","time":"2026-07-03T10:00:00Z","source":"s","session":"s"}`, seq)
	}, 5000)
}

// T5: what does not fit is counted, and texts are cut.
func TestBounds(t *testing.T) {
	b := New("s")
	b.maxEvents = 3
	for seq := range 5 {
		b.Add([]byte(event("progress.status", 0, seq, "")))
	}
	b.Add([]byte(event("progress.status", 0, 0, "")))
	tl := b.Timeline()
	if tl.Events != 3 || tl.LeftOut != 2 || tl.Repeated != 1 {
		t.Errorf("%d events, %d left out, %d repeated", tl.Events, tl.LeftOut, tl.Repeated)
	}
	if text := string(tl.AppendText(nil, TextOptions{})); !strings.Contains(text, "2 events left out") {
		t.Error(text)
	}

	b = New("s")
	long := strings.Repeat("ä", 1_000_000)
	b.Add([]byte(event("run.started", 0, 0, `,"run":"`+long+`","data":{"prompt":"`+long+`"}`)))
	if b.bytes > 10*maxWordBytes {
		t.Errorf("%d bytes are kept", b.bytes)
	}
	n := b.Timeline().Children[0]
	if !strings.HasSuffix(n.Name, "ä…") || len(n.Detail) > maxWordBytes+len("…") {
		t.Errorf("name %.20q, detail of %d bytes", n.Name[len(n.Name)-10:], len(n.Detail))
	}
}

// Only events of the session are taken.
func TestAddRefuses(t *testing.T) {
	b := New("s")
	for _, text := range []string{
		"", "x", "[]", "null", `{}`, `{"session":7}`, `{"session":"t"}`, `{"session":"s"} {}`,
		`{"type":"agent.presence","agent":"a"}`,
	} {
		if b.Add([]byte(text)) {
			t.Errorf("%q is taken", text)
		}
	}
	if !b.Add([]byte(`{"session":"s"}`)) || b.Len() != 1 {
		t.Error("an object of the session is not taken")
	}
}

// T4: what the relay has announced is told where it is, with and without
// events that are missing.
func TestAnnouncedGap(t *testing.T) {
	b := New("s")
	for _, seq := range []int{0, 1, 7, 8} {
		b.Add([]byte(event("progress.status", 2, seq, "")))
	}
	b.Gap(2, 7)
	b.Gap(2, 8)
	b.Gap(9, 9)
	want := "--- gap: 5 events are not here: seq 2 to 6, as the relay has said ---"
	text := string(b.Timeline().AppendText(nil, TextOptions{}))
	if !strings.Contains(text, want) || !strings.Contains(text, "--- gap: the relay has dropped events before this ---") ||
		strings.Count(text, "--- gap") != 2 {
		t.Error(text)
	}
}

// Nothing in a text makes the package fail, and what it makes is JSON.
func FuzzAdd(f *testing.F) {
	events, err := os.ReadFile("testdata/sessions.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(events) {
		f.Add(line)
	}
	f.Add([]byte(event("tool.completed", 1, 2, `,"run":"r","data":{"tool":[],"duration_ms":1e99}`) + "\n" +
		event("run.finished", 1, 2, `,"run":"r","data":{"duration_ms":-1}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, session := range append(sessionsOf(text), "") {
			b := New(session)
			if _, err := b.Read(bytes.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			tl := b.Timeline()
			if _, err := json.Marshal(tl); err != nil {
				t.Fatal(err)
			}
			if text := tl.AppendText(nil, TextOptions{}); bytes.ContainsAny(text, "\x1b\r\x00") {
				t.Fatalf("%q", text)
			}
		}
	})
}

// A session has ended until something of its own comes: an answer to a command
// is none.
func TestEnded(t *testing.T) {
	f := func(want bool, types ...string) {
		t.Helper()
		b := New("s")
		for seq, typ := range types {
			if !b.Add([]byte(event(typ, 1, seq, ""))) {
				t.Fatalf("%s is not taken", typ)
			}
		}
		if got := b.Timeline().Ended; got != want {
			t.Errorf("%v: ended %v, want %v", types, got, want)
		}
	}
	f(false, "session.started")
	f(true, "session.started", "session.ended")
	f(true, "session.started", "session.ended", "control.accepted")
	f(true, "session.started", "session.ended", "control.rejected", "control.cancel")
	f(false, "session.started", "control.accepted")
	f(false, "session.started", "session.ended", "session.started")
}
