package render

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// N1: what is shown and what is not.
func TestEscape(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := Escape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	f("", "")
	f("plain text ~", "plain text ~")
	f(`a\b`, `a\b`)
	f("ÄÖ 漢字 é ñ", "ÄÖ 漢字 é ñ")
	f("\x00\a\b\t\n\v\f\r\x1b[2J\x7f", `\x00\x07\x08\t\n\x0b\x0c\r\x1b[2J\x7f`)
	f("C1 \u0080\u009b31m\u009f", `C1 \x80\x9b31m\x9f`)
	f("bidi \u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
		`bidi \u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069`)
	f("hidden \u00ad\u200b\u2060\ufeff\u2028\u2029\U000e0041\ufff9\ue000",
		`hidden \xad\u200b\u2060\ufeff\u2028\u2029\U000e0041\ufff9\ue000`)
	f("spaces \u00a0\u3000.", "spaces \u00a0\u3000.")
	f("not UTF-8 \xff\xc3\xc3(", `not UTF-8 \xff\xc3\xc3(`)
	f("cut off \xe6\xbc", `cut off \xe6\xbc`)
	f("replaced \ufffd", "replaced \ufffd")
	f("joiners a\u200cb می\u200cخواهم", "joiners a\u200cb می\u200cخواهم")
	f("\u200d\u0301 alone", `\u200d\u0301 alone`)
	f("👩🏽‍👩🏽‍👧🏽‍👦🏽🇩🇪", "👩🏽‍👩🏽‍👧🏽‍👦🏽🇩🇪")
}

// N3: marks piled on a letter take columns from some number on.
func TestPiledMarks(t *testing.T) {
	in := "a" + strings.Repeat("\u0301", 1000)
	if got, want := Escape(in), "a"+strings.Repeat("\u0301", maxClusterRunes-1)+
		strings.Repeat(`\u0301`, 1001-maxClusterRunes); got != want {
		t.Errorf("%.100q", got)
	}
	chain := strings.Repeat("👩\u200d", 1000)
	if n := Columns(chain); n < 2000 {
		t.Errorf("a chain of 1,000 emoji has %d columns", n)
	}
}

// N2: a line is cut where the width ends, never within a cluster, an escape or
// an SGR sequence.
func TestCut(t *testing.T) {
	f := func(in string, width int, want string) {
		t.Helper()
		p := NewPen(nil, width, false)
		p.Put(Plain, in)
		p.Put(Plain, "")
		if got := string(p.End()); got != want {
			t.Errorf("%q, %d columns: got %q, want %q", in, width, got, want)
		}
	}
	f("abc", 0, "abc")
	f("abc", -1, "abc")
	f("abc", 4, "abc")
	f("abc", 3, "abc")
	f("abc", 2, "a…")
	f("abc", 1, "…")
	f("漢字", 4, "漢字")
	f("漢字", 3, "漢…")
	f("漢字", 2, "…")
	f("漢字", 1, "…")
	f("a\x1bb", 6, `a\x1bb`)
	f("a\x1bb", 5, "a…")
	f("ab\x1bb", 5, "ab…")
	f("e\u0301e\u0301e\u0301", 2, "e\u0301…")
	f("👩🏽‍👩🏽", 1, "…")

	p := NewPen([]byte("x"), 5, true)
	p.Put(Red, "ab")
	p.Put(Green, "cd")
	p.Put(Red, "ef")
	p.Word(Plain, "more")
	p.Pad(9)
	if got, want := string(p.End()), "x\x1b[31mab\x1b[0m\x1b[32mcd\x1b[0m\x1b[31m…\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Cost is linear in the text, for texts made to be slow, and a narrow line
// does not cost what its text is long.
func TestSlowTexts(t *testing.T) {
	const size = 1 << 20
	begin := time.Now()
	for _, unit := range []string{"\u0301", "👩\u200d", "\u200d", "a\u0301", "🇩", "\u1100", "\xff", "漢", "\u0600"} {
		text := strings.Repeat(unit, size/len(unit))
		if n := Columns("x" + text); n < size/len(unit)/maxClusterRunes {
			t.Errorf("%q: %d columns", unit, n)
		}
		p := NewPen(nil, 80, true)
		p.Put(Red, "x"+text)
		if len(p.End()) > 80*maxClusterRunes*utf8.UTFMax+20 {
			t.Errorf("%q: %d bytes for 80 columns", unit, len(p.End()))
		}
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestFormat(t *testing.T) {
	for ms, want := range map[int64]string{
		-1: "0ms", 0: "0ms", 999: "999ms", 1000: "1s", 1240: "1.24s", 1249: "1.24s", 38_300: "38.3s", 59_999: "59.99s",
		60_000: "1m", 69_000: "1m9s", 3_599_999: "59m59s", 3_600_000: "1h", 7_380_000: "2h3m", 86_400_000: "1d",
		97_200_000: "1d3h", 1<<63 - 1: "106751991167d7h",
	} {
		if got := FormatMillis(ms); got != want {
			t.Errorf("%d ms: got %s, want %s", ms, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9123: "9.1 kB", 1 << 30: "1.1 GB", 1<<63 - 1: "9.2 EB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d bytes: got %s, want %s", n, got, want)
		}
	}
}

// Parse takes any object and nothing else; of repeated members the last
// counts, and names are told apart by case.
func TestParse(t *testing.T) {
	for _, text := range []string{"", " ", "null", "[]", "7", `"x"`, "{", "{}x", "{} {}", `{"a":}`} {
		if _, ok := Parse([]byte(text)); ok {
			t.Errorf("%q is an event", text)
		}
	}
	e, ok := Parse([]byte(` {"type":"a.b","TYPE":"c","type":"d.e","seq":5.0,"epoch":1e400,"severity":7,"time":"2026-07-03T10:00:00+02:00"} ` + "\r\n"))
	if !ok || e.Type != "d.e" || e.Seq != 5 || !e.HasSeq || e.Epoch != 0 || e.Time.UTC().Hour() != 8 {
		t.Errorf("%+v, %v", e, ok)
	}
	if e, _ := Parse([]byte(`{"seq":1.5}`)); e.HasSeq {
		t.Error("1.5 is a seq")
	}
}

// N1, N2, N4 for any text.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"type":"tool.failed","data":{"error":"x","duration_ms":1e9},"time":"2026-07-03T10:00:00Z"}`), 40)
	f.Add([]byte(`{"type":"attention.requested","data":{"options":[{"id":7}],"prompt":"\u001b]0;x\u0007\u202e"}}`), 0)
	f.Add([]byte("\xff\x1b[31m"), 7)
	f.Add([]byte(`{"type":"state.delta","data":{"delta":[{"value":"漢字👩🏽‍👩🏽"}]}}`), 33)
	f.Fuzz(func(t *testing.T, text []byte, width int) {
		line := string(Line(nil, text, Options{Width: width}))
		if i := strings.IndexFunc(line, func(r rune) bool {
			return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 || !utf8.ValidString(line) {
			t.Fatalf("at %d: %q", i, line)
		}
		if n := Columns(line); width > 0 && n > width {
			t.Fatalf("%d columns, not %d: %q", n, width, line)
		}
		colored := string(Line(nil, text, Options{Width: width, Color: true}))
		for _, style := range []Style{Bold, Dim, Red, Green, Yellow, Magenta, Cyan, Alarm, "0"} {
			colored = strings.ReplaceAll(colored, "\x1b["+string(style)+"m", "")
		}
		if colored != line {
			t.Fatalf("got  %q\nwant %q", colored, line)
		}
	})
}

func BenchmarkLine(b *testing.B) {
	event := []byte(`{"aep":"0.1","id":"e1","type":"tool.failed","subject":"Write","time":"2026-07-03T22:15:13.310Z","source":"s",` +
		`"agent":"claude-code","session":"s_1","run":"r_1","step":"turn-1","seq":1,"severity":"error","data":{"tool":` +
		`{"name":"Write","call_id":"t_93"},"error":{"type":"io_error","message":"no space left on device"},"duration_ms":310}}`)
	var dst []byte
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		dst = Line(dst[:0], event, Options{Color: true, Width: 120})
	}
}
