package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/client/render"
)

func TestNewRelay(t *testing.T) {
	f := func(address, want string) {
		t.Helper()
		r, err := NewRelay(address, "")
		if err != nil || r.URL("", nil) != want {
			t.Errorf("%q: %v, %v", address, r, err)
		}
	}
	f("", client.DefaultURL+"/aep")
	f("ws://h:1", "http://h:1/aep")
	f("WSS://h/", "https://h/aep")
	f("wss://h/x/y", "https://h/x/y")
	f("h:1", "http://h:1/aep")
	f("unix:/run/s", "http://localhost/aep")
	for _, address := range []string{"ftp://h", "ws://u:p@h", "ws://h/?access_token=x", "ws://"} {
		if _, err := NewRelay(address, ""); !errors.Is(err, client.ErrURL) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Walking finds the same members, whatever stands between them.
func TestMembers(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var got []string
		for m := membersOf([]byte(text)); m.next(); {
			got = append(got, string(m.name)+"="+string(m.value))
		}
		if strings.Join(got, ";") != want {
			t.Errorf("%s: %q, want %s", text, got, want)
		}
	}
	f(`{}`, "")
	f(" { } ", "")
	f(`{"a":1}`, "a=1")
	f("\n{ \"a\" :\t-1.5e3 ,\r\n\"b\": true}", "a=-1.5e3;b=true")
	f(`{"a":"}\"{","b":{"c":[1,{"d":"]"}],"e":null},"f":[],"":{}}`, `a="}\"{";b={"c":[1,{"d":"]"}],"e":null};f=[];={}`)
	f(`{"a\"b":[[[]]] , "c":null }`, `a\"b=[[[]]];c=null`)
}

// What waits is bounded by bytes and by messages, and comes out as it went in;
// an end is told to everybody who asks.
func TestInboxBounds(t *testing.T) {
	f := func(size, most int) {
		t.Helper()
		b := newInbox()
		ctx, cancel := context.WithCancel(t.Context())
		for range most {
			if err := b.put(ctx, message{text: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		full := make(chan error)
		go func() { full <- b.put(ctx, message{text: make([]byte, size)}) }()
		cancel()
		if err := <-full; !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes: message %d is taken: %v", size, most+1, err)
		}
		if list, ended, _ := b.take(); len(list) != most || ended {
			t.Errorf("%d bytes: %d messages", size, len(list))
		}
		if err := b.put(t.Context(), message{faulty: "after"}); err != nil {
			t.Error(err)
		}
		b.end(errEnded)
		for _, n := range []int{1, 0, 0} {
			<-b.more
			if list, ended, err := b.take(); len(list) != n || !ended || !errors.Is(err, errEnded) {
				t.Errorf("%d bytes: then %v, %v, %v", size, list, ended, err)
			}
		}
	}
	f(0, maxWaiting)
	f(1<<10, maxWaitingBytes>>10)
	f(3*maxWaitingBytes, 1)
}

func TestLineReader(t *testing.T) {
	f := func(in string, most int, want ...string) {
		t.Helper()
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			lines, got := newLineReader(r, most), []string(nil)
			for {
				l, err := lines.next()
				if err != nil {
					if err != io.EOF {
						t.Error(err)
					}
					break
				}
				text := string(l.text)
				if l.long {
					text = "long"
				}
				got = append(got, fmt.Sprintf("%d:%s", l.number, text))
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%.100q: %.300q", in, got)
			}
		}
	}
	f("", 10)
	f("\n \r\n\t", 10)
	f("a\nb", 10, "1:a", "2:b")
	f("\n a \r\n\nb\n", 10, "2:a", "4:b")
	f("aaa\naaaa\nb\n", 3, "1:aaa", "2:long", "3:b")
	long := strings.Repeat("x", 200_000) // longer than what is read at once
	f(long+"\na\n"+long+"y\n"+long+"y", 200_000, "1:"+long, "2:a", "3:long", "4:long")

	broken := errors.New("broken")
	lines := newLineReader(io.MultiReader(strings.NewReader("a\ncut"), iotest.ErrReader(broken)), 10)
	if l, err := lines.next(); err != nil || string(l.text) != "a" {
		t.Errorf("%q, %v", l.text, err)
	}
	if l, err := lines.next(); !errors.Is(err, broken) {
		t.Errorf("a cut line is given out: %q, %v", l.text, err)
	}
}

// B18 to B24, B28: what a line leaves out is filled in, once; what is no event
// or would be obeyed is refused.
func TestFill(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	f := func(mode aepws.Mode, in, want string, marks bool) {
		t.Helper()
		x := filler{source: "me", mode: mode, ids: aepws.NewIDs()}
		event, id, acknowledged, err := x.fill([]byte(in), now)
		text := strings.ReplaceAll(string(event), id, "ID")
		if err != nil || text != want || acknowledged != marks || id == "" {
			t.Errorf("%s: %v, %v\n%s\nwant\n%s", in, err, acknowledged, text, want)
		}
	}
	const all = `"aep_version":"0.1","spec_version":"0.1","id":"ID","source":"me","created_at":"2026-01-02T03:04:05.006Z"`
	f(aepws.ModeAbsent, `{"type":"a.b","payload":1.10}`, `{`+all+`,"type":"a.b","payload":1.10}`, true)
	f(aepws.BestEffort, `{"type":"a.b","payload":null}`, `{`+all+`,"delivery":{"mode":"best_effort"},"type":"a.b","payload":null}`, false)
	f(aepws.BestEffort, `{"type":"a.b","payload":{},"delivery":{}}`, `{`+all+`,"type":"a.b","payload":{},"delivery":{}}`, true)
	f(aepws.Replayable, `{"type":"a.b","payload":{},"delivery":{"mode":"best_effort"}}`,
		`{`+all+`,"type":"a.b","payload":{},"delivery":{"mode":"best_effort"}}`, false)
	f(aepws.ModeAbsent, ` {"spec_version":"0.1","id":"x:1","source":"s","created_at":"2026-01-02T03:04:05+01:00","type":"a.b","payload":0,"Id":7}`,
		` {"spec_version":"0.1","id":"ID","source":"s","created_at":"2026-01-02T03:04:05+01:00","type":"a.b","payload":0,"Id":7}`, true)

	bad := func(in, want string) {
		t.Helper()
		x := filler{source: "me", ids: aepws.NewIDs()}
		if _, _, _, err := x.fill([]byte(in), now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	bad(`{"type":"a.b"`, "unexpected end")
	bad(`[]`, "not an object")
	bad(`{}`, "type")
	bad(`{"type":"a.b"}`, "invalid_envelope: payload is missing")
	bad(`{"type":"A","payload":1}`, "invalid_event_type")
	bad(`{"type":"a.b","payload":1,"id":5}`, "invalid_envelope: id")
	bad(`{"type":"a.b","payload":1,"id":"x","i\u0064":"y"}`, "id occurs twice")
	bad(`{"type":"a.b","payload":1,"aep_version":"0.2"}`, "unsupported_version")
	bad(`{"type":"a.b","payload":1,"delivery":{"mode":"maybe"}}`, "invalid_envelope")
	for _, control := range []string{"session.closed", "subscription.cancelled", "event.acknowledged", "session.odd", "event.dead_lettered"} {
		bad(`{"type":"`+control+`","payload":{}}`, "own families")
	}
}

// lineOf is the line of a delivered event.
func lineOf(tb testing.TB, text string, o render.Options) string {
	tb.Helper()
	var s aepws.Scanner
	var e aepws.Envelope
	if err := s.Scan([]byte(text), &e); err != nil {
		tb.Fatal(err)
	}
	d, _ := deliveryOf([]byte(text), &e)
	return string(Line([]byte("_"), &Event{Text: []byte(text), Envelope: &e, Delivery: d}, o))[1:]
}

func TestLine(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := lineOf(t, text, render.Options{}); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", text, got, want)
		}
	}
	f(string(event(42)), "42       2026-01-02T15:04:05.000Z task.progress        worker n=42")
	f(`{"type":"tool.call.failed","source":"a","target":"b","topic":"t","session_id":"s","conversation_id":"c","task_id":"k",`+
		`"created_at":"2026-01-02T15:04:05.5+02:00","payload":"why","delivery":{"sequence":7,"cursor":"e:7","attempt":2}}`,
		`7        2026-01-02T13:04:05.500Z tool.call.failed     a -> b topic=t session=s conversation=c task=k attempt=2 "why"`)
	f(`{"type":"event.dead_lettered","source":"relay:x","payload":{"attempts":3}}`, "-        -                        event.dead_lettered  relay:x attempts=3")
	f(`{"type":"a.b","payload":null}`, "-        -                        a.b                 ")
	f(`{"type":"a.b","payload":"`+strings.Repeat("x", maxPayload)+`"}`, "-        -                        a.b                  65538 bytes of payload")
}

// G3: no event puts anything on a terminal but visible text on one line, which
// has a bound.
func TestLineOfHostileEvents(t *testing.T) {
	const bad = `\u001b[2J\r\n\u009b31m\u202e\u0007\u0000`
	for _, value := range []string{bad, strings.Repeat("é", 1000), strings.Repeat(bad, 50)} {
		text := `{"type":"a.b` + bad + `","id":"e"`
		for _, name := range []string{"source", "target", "topic", "session_id", "conversation_id", "task_id"} {
			text += `,"` + name + `":"` + value + `"`
		}
		text += `,"payload":{"` + bad + `":"` + value + `","b":["` + value + `"]}}`
		line := lineOf(t, text, render.Options{})
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) }) {
			t.Errorf("%q", line)
		}
		if len(line) > 9*6*maxWord {
			t.Errorf("%d bytes", len(line))
		}
		if cut := lineOf(t, text, render.Options{Width: 40}); render.Columns(cut) > 40 {
			t.Errorf("cut to 40: %q", cut)
		}
	}
}

func TestNotices(t *testing.T) {
	seen := map[string]bool{}
	for k := Unreachable; k <= Unsaved; k++ {
		text := Notice{Kind: k, Text: "x", Count: 2}.String()
		if seen[text] || strings.HasPrefix(text, "notice ") {
			t.Errorf("%d: %s", k, text)
		}
		seen[text] = true
	}
	if got := (Notice{Kind: Unsaved + 1}).String(); !strings.HasPrefix(got, "notice ") {
		t.Errorf("a kind is not covered: %s", got)
	}
}

func cursorIn(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return string(text)
}

// One run goes on where the last one ended, and the file goes before Cursor.
func TestCursorFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor")
	var cursors []string
	s := startScript(t, func(n int64, w *wire) {
		asked := w.subscribe(nil)
		cursors = append(cursors, asked.cursor())
		w.say(event(10*n), event(10*n+1))
		w.hold()
	})
	for n, file := range []string{"e11:11\n", "e20:20\n", "e31:31\n"} {
		count := int64(2)
		if n == 1 {
			count = 1 // the event behind it was read, and is not in the file
		}
		r := startFollow(t, Options{Peer: at(t, s.URL), CursorFile: path, Count: count, Cursor: "e5:5"}, newCollector())
		if err := r.wait(t); err != nil {
			t.Fatal(err)
		}
		if got := cursorIn(t, path); got != file {
			t.Errorf("run %d leaves %q, want %q", n, got, file)
		}
	}
	s.live.Wait()
	if got := strings.Join(cursors, " "); got != "e5:5 e11:11 e20:20" {
		t.Errorf("cursors %s", got)
	}
}

// G1: a cursor whose event could not be flushed is not saved; the one before it
// is, also at the end.
func TestCursorIsNotAheadOfTheOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor")
	flushed := make(chan struct{})
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		w.say(event(1))
		<-flushed
		w.say(event(2))
		w.hold()
	})
	broken := errors.New("broken")
	c := newCollector()
	var seen int64
	once := false
	c.event = func(e *Event) error { seen = e.Delivery.Sequence; return nil }
	c.flush = func() error {
		if seen == 2 {
			return broken
		}
		if seen == 1 && !once {
			once = true
			close(flushed)
		}
		return nil
	}
	r := startFollow(t, Options{Peer: at(t, s.URL), CursorFile: path}, c)
	if err := r.wait(t); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got := cursorIn(t, path); got != "e1:1\n" {
		t.Errorf("file has %q", got)
	}
}

// A file that cannot be used is an error before anything is asked, and stays.
func TestBadCursorFiles(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) { t.Error("a connection was made") })
	for _, text := range []string{"", "x", "e:-1\n", "e:1 2", ":5", strings.Repeat(" ", 300) + "e:1"} {
		path := filepath.Join(t.TempDir(), "cursor")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Follow(t.Context(), Options{Peer: at(t, s.URL), CursorFile: path}, newCollector())
		if !errors.Is(err, ErrCursorFile) || cursorIn(t, path) != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Follow(t.Context(), Options{Peer: at(t, s.URL), CursorFile: t.TempDir()}, newCollector()); !errors.Is(err, ErrCursorFile) {
		t.Errorf("a directory: %v", err)
	}
}

// A file that cannot be written is told, and is the error at the end.
func TestCursorFileThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "cursor")
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		w.say(event(1))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Peer: at(t, s.URL), CursorFile: path}, c)
	c.await(t, "# the cursor cannot be saved: cursor file: ")
	if err := r.end(t); !errors.Is(err, ErrCursorFile) {
		t.Error(err)
	}
}
