package repos

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client/render"
)

func lineOf(tb testing.TB, message []byte, o render.Options) string {
	tb.Helper()
	var s firehose.Scanner
	var f firehose.Frame
	if err := s.Scan(message, &f); err != nil && f.Kind() != firehose.KindUnknown {
		tb.Fatal(err)
	}
	return string(Line(nil, &f, o))
}

// Each kind of the contract's frames has a line that tells what is in it.
func TestLine(t *testing.T) {
	got := map[string]string{}
	for _, v := range readVectors(t).Frames {
		got[v.Name] = strings.Join(strings.Fields(lineOf(t, unhex(t, v.Hex), render.Options{})), " ")
	}
	for name, want := range wantLines {
		if got[name] != want {
			t.Errorf("%s\ngot  %s\nwant %s", name, got[name], want)
		}
	}
	if len(got) != len(wantLines) {
		t.Errorf("%d frames, %d lines", len(got), len(wantLines))
	}
	line := lineOf(t, identity(t, 42), render.Options{})
	if want := "42               2024-07-09T10:00:00Z identity " + did + " note.example"; line != want {
		t.Errorf("columns\ngot  %q\nwant %q", line, want)
	}
	if cut := lineOf(t, identity(t, 42), render.Options{Width: 30}); render.Columns(cut) > 30 || !strings.HasSuffix(cut, "…") {
		t.Errorf("cut to 30: %q", cut)
	}
}

// hostile returns frames whose texts try to reach the terminal.
func hostile(tb testing.TB) (frames [][]byte) {
	tb.Helper()
	const bad = "\x1b[2J\r\n\u009b31m\u202e\x07\x00"
	add := func(frame []byte, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		frames = append(frames, frame)
	}
	add((&firehose.Identity{DID: did, Time: bad, Handle: bad + strings.Repeat("é", 1000)}).Append(nil, 1))
	add((&firehose.Account{DID: did, Time: bad, Status: bad}).Append(nil, 1))
	add((&firehose.Info{Name: bad, Message: bad}).Append(nil), nil)
	add((&firehose.Error{Name: bad, Message: bad}).Append(nil), nil)
	c := firehose.Commit{Repo: did, Rev: "3kxyzabcdef2a", Time: bad, Blocks: []byte{}, Commit: dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, nil)}
	for range 300 {
		c.Ops = append(c.Ops, firehose.RepoOp{Action: bad, Path: strings.Repeat(bad, 100)})
		if n := len(c.Ops); n == 1 || n == 9 || n == 200 || n == 300 {
			add(c.Append(nil, 1))
		}
	}
	add(append([]byte("\xa2\x61t\x6a#"+bad[:9]+"\x62op\x01"), 0xa0), nil)
	return frames
}

// T3: no frame puts anything on a terminal but visible text on one line, which
// has a bound.
func TestLineOfHostileFrames(t *testing.T) {
	for i, frame := range hostile(t) {
		line := lineOf(t, frame, render.Options{})
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) || r == utf8.RuneError }) {
			t.Errorf("frame %d: %q", i, line)
		}
		if len(line) > 6*maxOps*(maxWord+10) {
			t.Errorf("frame %d has a line of %d bytes", i, len(line))
		}
	}
}

// The JSON of a hostile frame says the same, in characters that can be seen.
func TestAppendVisible(t *testing.T) {
	var s firehose.Scanner
	for i, frame := range hostile(t) {
		text, err := s.AppendJSON(nil, frame)
		if err != nil {
			t.Fatal(err)
		}
		shown := AppendVisible(nil, text)
		if strings.ContainsFunc(string(shown), func(r rune) bool { return unicode.In(r, unicode.C) }) {
			t.Errorf("frame %d: %q", i, shown)
		}
		var a, b any
		if json.Unmarshal(text, &a) != nil || json.Unmarshal(shown, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("frame %d: says something else: %q", i, shown)
		}
	}
	for in, want := range map[string]string{
		`"plain é 👍"`: `"plain é 👍"`, "\"\u202e\u009bx\U000e0001\"": `"\u202e\u009bx\udb40\udc01"`, "": "",
	} {
		if got := string(AppendVisible([]byte("_"), []byte(in))); got != "_"+want {
			t.Errorf("%q: %s", in, got)
		}
	}
}
