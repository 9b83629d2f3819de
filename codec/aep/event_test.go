package aep

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unsafe"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

const plainEvent = `{"aep":"0.1","id":"1","type":"progress.status","time":"t",` +
	`"source":"s","agent":"a","session":"x","seq":0}`

const fullEvent = `{"aep":"0.1","id":"01J","type":"tool.completed",` +
	`"subject":"Bash","time":"2026-07-03T10:15:04.221Z","source":"aep://h/agent/a",` +
	`"agent":"a","session":"s_1","run":"r","step":"t","seq":3e0,"epoch":7.0,` +
	`"cause":"01I","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",` +
	`"severity":"warning","capture":"full","data":{"a":1},"acmes":"v","acmen":1e2,` +
	`"acmet":true,"acmef":false,"acmee":""}`

func TestEventAccessors(t *testing.T) {
	e := mustAdmit(t, fullEvent)
	subject, hasSubject := e.Subject()
	seq, hasSeq := e.Seq()
	got := fmt.Sprintln(e.ID(), e.Type(), e.Source(), e.Agent(), e.Session(), subject,
		hasSubject, seq, hasSeq, e.Epoch(), e.HasEpoch(), e.Severity(), e.Capture(),
		e.Class() == ClassOrdinary, e.HasData())
	want := fmt.Sprintln("01J", "tool.completed", "aep://h/agent/a", "a", "s_1", "Bash",
		true, 3, true, 7, true, "warning", "full", true, true)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEventDefaults is R220 and the accessors of what is absent.
func TestEventDefaults(t *testing.T) {
	e := mustAdmit(t, `{"aep":"0.1","id":"1","type":"agent.idle","time":"t",`+
		`"source":"s","agent":"a"}`)
	_, hasSubject := e.Subject()
	_, hasSeq := e.Seq()
	if hasSubject || hasSeq || e.HasEpoch() || e.HasData() || e.Epoch() != 0 ||
		e.Session() != "" || e.Severity() != SeverityInfo ||
		e.Capture() != LevelMetadata || e.Class() != ClassLiveness {
		t.Errorf("defaults of %s", e.Text())
	}
	for name, want := range map[string]string{
		"severity": "info", "capture": "metadata", "epoch": "0",
	} {
		if v, ok := e.Lookup(name); !ok || string(v.AppendString(nil)) != want {
			t.Errorf("%s: %v %v", name, v, ok)
		}
	}
}

func attrsOf(e *Event) map[string]string {
	all := make(map[string]string)
	for name, v := range e.Attrs {
		if _, twice := all[name]; twice {
			all[name] = "twice"
			continue
		}
		all[name] = fmt.Sprintf("%d %s", v.Kind(), v.AppendString(nil))
	}
	return all
}

// TestAttrs: filters see exactly what R211 and R220 say, and Lookup agrees.
func TestAttrs(t *testing.T) {
	e := mustAdmit(t, fullEvent)
	want := map[string]string{
		"id": "0 01J", "type": "0 tool.completed", "subject": "0 Bash",
		"source": "0 aep://h/agent/a", "agent": "0 a", "session": "0 s_1",
		"run": "0 r", "step": "0 t", "cause": "0 01I", "epoch": "1 7.0",
		"severity": "0 warning", "capture": "0 full", "acmes": "0 v",
		"acmen": "1 1e2", "acmet": "2 true", "acmef": "2 false", "acmee": "0 ",
	}
	if got := attrsOf(e); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for name, text := range want {
		v, ok := e.Lookup(name)
		if got := fmt.Sprintf("%d %s", v.Kind(), v.AppendString(nil)); !ok || got != text {
			t.Errorf("%s: %s, want %s", name, got, text)
		}
	}
	for _, name := range []string{
		"time", "seq", "aep", "data", "traceparent", "acme", "", "acmesx",
	} {
		if v, ok := e.Lookup(name); ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	plain := map[string]string{
		"id": "0 1", "type": "0 progress.status", "source": "0 s", "agent": "0 a",
		"session": "0 x", "epoch": "1 0", "severity": "0 info", "capture": "0 metadata",
	}
	if got := attrsOf(mustAdmit(t, plainEvent)); !maps.Equal(got, plain) {
		t.Errorf("got  %v\nwant %v", got, plain)
	}
}

// TestAttrsStops: a consumer that has seen enough is not called again.
func TestAttrsStops(t *testing.T) {
	e := mustAdmit(t, fullEvent)
	for limit := 1; limit <= 17; limit++ {
		calls := 0
		e.Attrs(func(string, Value) bool {
			calls++
			return calls < limit
		})
		if calls != limit {
			t.Errorf("%d calls, want %d", calls, limit)
		}
	}
}

// TestEscapes is R118: names and strings are compared decoded, and the text is
// still delivered as written.
func TestEscapes(t *testing.T) {
	text := `{"\u0061ep":"0.1","id":"\"\\\/\b\f\n\r\t\u00e9\u4e2d\ud83d\ude00",` +
		`"t\u0079pe":"tool\u002edenied","time":"t","source":"s\ud800x","agent":"\udc00",` +
		`"session":"\ud800\ud800\udc00","seq":0,"acm\u0065":"\u0000","acm\u00652":12,` +
		`"severity":"\u0065rror"}`
	e := mustAdmit(t, text)
	want := map[string]string{
		"id": "0 \"\\/\b\f\n\r\té中😀", "type": "0 tool.denied",
		"source": "0 s\uFFFDx", "agent": "0 \uFFFD", "session": "0 \uFFFD\U00010000",
		"epoch": "1 0", "severity": "0 error", "capture": "0 metadata",
		"acme": "0 \x00", "acme2": "1 12",
	}
	if got := attrsOf(e); !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if v, ok := e.Lookup("acme"); !ok || !v.EqualString("\x00") {
		t.Error("acme not found")
	}
	if string(e.Text()) != text {
		t.Errorf("text %s", e.Text())
	}
	if e.Severity() != SeverityError {
		t.Errorf("severity %v", e.Severity())
	}
}

// TestOneLine is R194 and C74: line breaks and the white space around them go,
// nothing else changes.
func TestOneLine(t *testing.T) {
	inner := `"aep" : "0.1",  "id":"a  \n b\\" ,"type":"run.started","time":"t",` +
		`"source":"s","agent":"\u0061","session":"x","seq":1.0,%s"data" : { "k" : ` +
		`[ 1 , 2.50, -0 ,true , null ], "s" : "\"  , {\\" , "e" : { } }`
	compacted := `"aep":"0.1","id":"a  \n b\\","type":"run.started","time":"t",` +
		`"source":"s","agent":"\u0061","session":"x","seq":1.0,"data":{"k":` +
		`[1,2.50,-0,true,null],"s":"\"  , {\\","e":{}}`
	asIs := "{ " + fmt.Sprintf(inner, " ") + "\t}"
	f := func(text, want string) {
		t.Helper()
		e := mustAdmit(t, text)
		if string(e.Text()) != want {
			t.Errorf("%q:\ngot  %s\nwant %s", text, e.Text(), want)
		}
		if e.ID() != "a  \n b\\" || e.Agent() != "a" || e.Session() != "x" || e.Type() != "run.started" {
			t.Errorf("attributes of %q", text)
		}
		checkFrame(t, e)
	}
	f(asIs, asIs)
	f("\r\n \t"+asIs+" \n\n", asIs)
	for _, line := range []string{"\n", "\r", "\r\n", "\n\n  \t"} {
		f("{"+fmt.Sprintf(inner, line)+"}", "{"+compacted+"}")
		f(" \n{"+line+" "+fmt.Sprintf(inner, "")+line+"}\n", "{"+compacted+"}")
	}
}

// checkFrame fails unless the frame is a header and the text.
func checkFrame(t *testing.T, e *Event) {
	t.Helper()
	want := wsframe.AppendText(nil, e.Text())
	if string(e.Frame()) != string(want) {
		t.Errorf("frame %.40q, want %.40q", e.Frame(), want)
	}
	if cap(e.Frame()) != len(e.Frame()) || cap(e.Text()) != len(e.Text()) {
		t.Error("an append could write behind the frame")
	}
	if e.SizeBytes() < len(e.Frame()) {
		t.Errorf("size %d of a frame of %d", e.SizeBytes(), len(e.Frame()))
	}
}

// TestFrame covers the three header sizes of RFC 6455, section 5.2.
func TestFrame(t *testing.T) {
	for _, size := range []int{120, 125, 126, 127, 128, 65534, 65535, 65536, 65537, 100_000} {
		text := strings.Replace(plainEvent, `"x"`,
			`"x","acme":"`+strings.Repeat("a", size-len(plainEvent)-len(`,"acme":""`))+`"`, 1)
		if len(text) != size {
			t.Fatalf("text of %d, want %d", len(text), size)
		}
		e := mustAdmit(t, text)
		if string(e.Text()) != text {
			t.Fatalf("text of size %d changed", size)
		}
		checkFrame(t, e)
		if v, ok := e.Lookup("acme"); !ok || len(v.AppendString(nil)) != size-len(plainEvent)-10 {
			t.Errorf("acme at size %d", size)
		}
	}
}

// TestByteFidelity is C68: what is written is what is delivered.
func TestByteFidelity(t *testing.T) {
	for _, number := range []string{
		"9007199254740993", "18446744073709551616", "1.0", "1E2", "-0", "0.6667",
		"1e400", "1E+02", "0.10",
	} {
		text := strings.Replace(plainEvent, `"seq":0`, `"z":18446744073709551617, `+
			`"seq":0,"data": { "b":`+number+`, "a" :"\/\u00E9" , "10":1,"2":`+number+`}`, 1)
		if e := mustAdmit(t, text); string(e.Text()) != text {
			t.Errorf("got  %s\nwant %s", e.Text(), text)
		}
	}
}

// TestEventOwnsItsBytes is A1: the text may be reused after Event.
func TestEventOwnsItsBytes(t *testing.T) {
	for _, original := range []string{fullEvent, "{\n" + fullEvent[1:]} {
		var s Scanner
		text := []byte(original)
		if err := s.Scan(text); err != nil {
			t.Fatal(err)
		}
		e, err := s.Event()
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != original {
			t.Fatal("input modified")
		}
		before := attrsOf(e)
		for i := range text {
			text[i] = '#'
		}
		if err := s.Scan([]byte(plainEvent)); err != nil {
			t.Fatal(err)
		}
		if string(e.Text()) != fullEvent || !maps.Equal(attrsOf(e), before) {
			t.Errorf("event changed: %s", e.Text())
		}
	}
}

// TestEventTwice: the same scan gives equal events.
func TestEventTwice(t *testing.T) {
	var s Scanner
	if err := s.Scan([]byte("{\n" + fullEvent[1:])); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e, err := s.Event()
		if err != nil || string(e.Text()) != fullEvent || len(attrsOf(e)) != 17 {
			t.Fatalf("%v", err)
		}
	}
}

func TestClass(t *testing.T) {
	for typ, want := range map[string]Class{
		"control.attention.respond": ClassCommand, "control.cancel": ClassCommand,
		"control.pause": ClassCommand, "control.resume": ClassCommand,
		"x.acme.control.a": ClassCommand, "x.a-b.control.a.b": ClassCommand,
		"x.control.control.a": ClassCommand, "control.accepted": ClassOrdinary,
		"control.rejected": ClassOrdinary, "control.cancel.more": ClassOrdinary,
		"control.attention": ClassOrdinary, "x.control.a.b": ClassOrdinary,
		"x.acme.control": ClassOrdinary, "x.acme.controls.a": ClassOrdinary,
		"x.acme.a.control.b": ClassOrdinary, "agent.idle": ClassLiveness,
		"agents.idle": ClassOrdinary, "x.agent.a.b": ClassOrdinary,
		"attention.routed": ClassForeign, "attention.routed.a": ClassOrdinary,
		"attention.requested": ClassOrdinary, "": ClassOrdinary, "x.": ClassOrdinary,
	} {
		if got := ClassOf(typ); got != want {
			t.Errorf("%s is %d, want %d", typ, got, want)
		}
	}
}

func TestLevelsAndSeverities(t *testing.T) {
	for i, name := range []string{"none", "metadata", "redacted", "full"} {
		l, ok := ParseLevel(name)
		m, ok2 := ParseLevel([]byte(name))
		if !ok || !ok2 || l != Level(i) || m != l || l.String() != name {
			t.Errorf("%s: %v", name, l)
		}
	}
	for i, name := range []string{"debug", "info", "notice", "warning", "error", "critical"} {
		s, ok := ParseSeverity(name)
		r, ok2 := ParseSeverity([]byte(name))
		if !ok || !ok2 || s != Severity(i) || r != s || s.String() != name {
			t.Errorf("%s: %v", name, s)
		}
	}
	for _, name := range []string{"", "None", "fatal", "full "} {
		_, level := ParseLevel(name)
		_, severity := ParseSeverity(name)
		if level || severity {
			t.Errorf("%q is known", name)
		}
	}
	if Level(9).String() != "invalid" || Severity(9).String() != "invalid" {
		t.Error("out of range")
	}
}

func TestValue(t *testing.T) {
	text, number := StringValue("5"), IntegerValue(-512)
	if text.Kind() != KindString || !text.EqualString("5") || text.EqualString("6") ||
		text.Bool() || !text.Integer().Equal(Integer{}) {
		t.Error("string")
	}
	n, ok := number.Integer().Int64()
	if number.Kind() != KindInteger || n != -512 || !ok || number.EqualString("-512") ||
		number.Bool() {
		t.Error("integer")
	}
	e := mustAdmit(t, fullEvent)
	yes, _ := e.Lookup("acmet")
	no, _ := e.Lookup("acmef")
	if !yes.Bool() || no.Bool() || yes.EqualString("true") || yes.Kind() != KindBool {
		t.Error("boolean")
	}
}

// TestLookupDoesNotAllocate is A4.
func TestLookupDoesNotAllocate(t *testing.T) {
	var many strings.Builder
	many.WriteString(strings.TrimSuffix(fullEvent, "}"))
	for i := range 40 {
		fmt.Fprintf(&many, `,"\u0061%d":"\u0061"`, i)
	}
	e := mustAdmit(t, many.String()+"}")
	one := IntegerValue(1).Integer()
	allocs := testing.AllocsPerRun(100, func() {
		for _, name := range []string{"type", "epoch", "severity", "acmen", "a39", "zz"} {
			v, _ := e.Lookup(name)
			if v.EqualString("b") || v.Integer().Equal(one) {
				t.Fatal(name)
			}
		}
		for range e.Attrs {
			continue
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestEventAllocations holds the memory of an event: its struct, its bytes,
// its extension attributes.
func TestEventAllocations(t *testing.T) {
	for text, want := range map[string]float64{plainEvent: 2, fullEvent: 3} {
		var s Scanner
		raw := []byte(text)
		var size int
		allocs := testing.AllocsPerRun(100, func() {
			if s.Scan(raw) != nil {
				t.Fatal("scan")
			}
			e, err := s.Event()
			if err != nil {
				t.Fatal(err)
			}
			size = e.SizeBytes()
		})
		if allocs > want {
			t.Errorf("%v allocations, want %v", allocs, want)
		}
		if over := size - len(text); over > 350 {
			t.Errorf("%d bytes besides a text of %d", over, len(text))
		}
	}
}

// TestEventSize keeps the struct in the allocator's class of 160 bytes, since
// millions of events are retained.
func TestEventSize(t *testing.T) {
	if size := unsafe.Sizeof(Event{}); size > 160 {
		t.Errorf("%d bytes", size)
	}
}
