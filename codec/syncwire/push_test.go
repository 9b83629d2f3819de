package syncwire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const nested = `{"a":[{"b":[1,{"c":"]}\"{["},[]]},{}],"é":"\u00e9😀"}`

// good are bodies with the stored forms that they give.
var good = []struct {
	rule, body string
	stored     []string
}{
	{"S14: no events", `{"ownerId":"o","events":[]}`, nil},
	{"S18: one event", body(envelope("1", "")), []string{envelope("1", "")}},
	{"S18: streamId may be null", body(envelope("1", `,"streamId":null`)), []string{envelope("1", `,"streamId":null`)}},
	{"S18: streamId of any spelling", body(envelope("1", `,"streamId":"x!"`)), []string{envelope("1", `,"streamId":"x!"`)}},
	{
		"S19: unknown members, spellings, odd order (case 8)",
		`{"events":[{"x":[1.0,1E+2,-0,"\u00e9\/"],` + envelope("1", `,"y":`+nested)[1:] + `],"ownerId":"o"}`,
		[]string{`{"x":[1.0,1E+2,-0,"\u00e9\/"],` + envelope("1", `,"y":`+nested)[1:]},
	},
	{
		"S19: white space between tokens goes",
		" {\n\"ownerId\"\t: \"o\" ,\r\n\"events\" : [ \t" + strings.ReplaceAll(envelope("1", `,"a b":[1, 2 ,"x \n y" ,{ }, [ ] ]`), `"t"`, " \"t\"\r\n ") + "\n,\n" + envelope("2", "") + " ] } \n",
		[]string{envelope("1", `,"a b":[1,2,"x \n y",{},[]]`), envelope("2", "")},
	},
	{"S7: unknown top-level members, repeated ones too", `{"a":1,"a":{"events":[1]},"ownerId":"o","z":` + nested + `,"events":[` + envelope("1", "") + `],"ownerID":2,"Events":3}`, []string{envelope("1", "")}},
	{"S7: names are compared decoded", `{"owner\u0049d":"\u006f","\u0065vents":[` + strings.Replace(envelope("1", ""), "eventId", `event\u0049d`, 1) + `]}`, []string{strings.Replace(envelope("1", ""), "eventId", `event\u0049d`, 1)}},
	{"S18: version is the number 1, however spelled", body(strings.Replace(envelope("1", ""), `:1,`, `:10.0e-1,`, 1)), []string{strings.Replace(envelope("1", ""), `:1,`, `:10.0e-1,`, 1)}},
	{"S18: a repeated name inside a value", body(envelope("1", `,"x":{"a":1,"a":2}`)), []string{envelope("1", `,"x":{"a":1,"a":2}`)}},
	{"S22: a repeated event is the store's", body(envelope("1", ""), envelope("1", "")), []string{envelope("1", ""), envelope("1", "")}},
	{"S18: halves of a surrogate pair are different names", body(envelope("1", `,"\ud800":1,"\ud801":2,"\ufffd":3,"\udfff":4`)), []string{envelope("1", `,"\ud800":1,"\ud801":2,"\ufffd":3,"\udfff":4`)}},
	{"Depth 64", body(envelope("1", `,"x":`+strings.Repeat("[", 61)+strings.Repeat("]", 61))), []string{envelope("1", `,"x":`+strings.Repeat("[", 61)+strings.Repeat("]", 61))}},
}

// badPush is a body with the fault that it gives; none has two.
type badPush struct {
	rule, body string
	code       Code
	index      int
}

var bad = append(badFields(), []badPush{
	{"S7: empty", "", BadRequest, -1},
	{"S7: white space", " \n", BadRequest, -1},
	{"S7: not an object", `[]`, BadRequest, -1},
	{"S7: not an object", `"ownerId"`, BadRequest, -1},
	{"S7: not an object", `null`, BadRequest, -1},
	{"S7: not an object", `7`, BadRequest, -1},
	{"S7: byte order mark (case 40)", "\ufeff" + body(), BadRequest, -1},
	{"S7: trailing data", body() + "x", BadRequest, -1},
	{"S7: trailing data", body() + body(), BadRequest, -1},
	{"S7: cut off (case 40)", `{"ownerId":"a"`, BadRequest, -1},
	{"S7: cut off", body(envelope("1", ""))[:60], BadRequest, -1},
	{"S7: not UTF-8", `{"ownerId":"o","events":[],"x":"` + "\xff" + `"}`, BadRequest, -1},
	{"S7: not UTF-8: overlong", `{"ownerId":"o","events":[],"x":"` + "\xc0\xaf" + `"}`, BadRequest, -1},
	{"S7: not UTF-8: a surrogate", `{"ownerId":"o","events":[],"x":"` + "\xed\xa0\x80" + `"}`, BadRequest, -1},
	{"S7: not UTF-8: cut", `{"ownerId":"o","events":[],"x":"` + "\xf0\x9f\x98" + `"}`, BadRequest, -1},
	{"S7: not UTF-8 in a name", `{"ownerId":"o","events":[],"` + "\xe2\x82" + `":1}`, BadRequest, -1},
	{"S7: not UTF-8 outside strings", `{"ownerId":"o","events":[]` + "\xc2\xa0" + `}`, BadRequest, -1},
	{"Depth (case 40)", body(envelope("1", `,"x":`+strings.Repeat("[", 62)+strings.Repeat("]", 62))), BadRequest, -1},
	{"Depth (case 40)", strings.Repeat(`{"a":`, 70), BadRequest, -1},
	{"ownerId absent", `{"events":[]}`, BadRequest, -1},
	{"events absent", `{"ownerId":"o"}`, BadRequest, -1},
	{"S7: names by case", `{"OwnerId":"o","events":[]}`, BadRequest, -1},
	{"S7: names by case", `{"ownerId":"o","Events":[]}`, BadRequest, -1},
	{"S11: a number", `{"ownerId":1,"events":[]}`, BadRequest, -1},
	{"S11: null", `{"ownerId":null,"events":[]}`, BadRequest, -1},
	{"S11: an object", `{"ownerId":{"ownerId":"o"},"events":[]}`, BadRequest, -1},
	{"S11: empty", `{"ownerId":"","events":[]}`, BadRequest, -1},
	{"S11: 129 characters", `{"ownerId":"` + strings.Repeat("x", 129) + `","events":[]}`, BadRequest, -1},
	{"S11: 129 escapes", `{"ownerId":"` + strings.Repeat(`\u0078`, 129) + `","events":[]}`, BadRequest, -1},
	{"S11: a space", `{"ownerId":"o o","events":[]}`, BadRequest, -1},
	{"S11: a control character", `{"ownerId":"o\u007f","events":[]}`, BadRequest, -1},
	{"S11: not ASCII", `{"ownerId":"ö","events":[]}`, BadRequest, -1},
	{"ownerId twice", `{"ownerId":"o","ownerId":"o","events":[]}`, BadRequest, -1},
	{"events twice", `{"ownerId":"o","events":[],"events":[]}`, BadRequest, -1},
	{"events an object", `{"ownerId":"o","events":{}}`, BadRequest, -1},
	{"events null, before the owner", `{"events":null,"ownerId":"o"}`, BadRequest, -1},
	{"S18: not an object", body(envelope("1", ""), `[]`), BadEnvelope, 1},
	{"S18: not an object", body(`null`), BadEnvelope, 0},
	{"S18: empty object", body(`{}`), BadEnvelope, 0},
	{"S18: EventId (case 6)", body(strings.Replace(envelope("1", ""), "eventId", "EventId", 1)), BadEnvelope, 0},
	{"S18: eventId twice (case 7)", body(envelope("1", `,"eventId":"1"`)), BadEnvelope, 0},
	{"S18: eventId twice, spelled", body(envelope("1", `,"event\u0049d":"1"`)), BadEnvelope, 0},
	{"S18: an unknown member twice", body(envelope("1", `,"x":1,"\u0078":1`)), BadEnvelope, 0},
	{"S18: version 2 (case 5)", body(envelope("1", ""), strings.Replace(envelope("2", ""), ":1,", ":2,", 1), envelope("3", "")), BadEnvelope, 1},
	{"S18: version as a string", body(strings.Replace(envelope("2", ""), ":1,", `:"1",`, 1)), BadEnvelope, 0},
	{"S18: version nearly 1", body(strings.Replace(envelope("2", ""), ":1,", `:1.00000000000000000001,`, 1)), BadEnvelope, 0},
	{"S18: another owner", body(envelope("1", ""), strings.Replace(envelope("2", ""), `"o"`, `"p"`, 1)), BadEnvelope, 1},
	{"S18: another owner, told later", `{"events":[` + envelope("1", "") + `],"ownerId":"p"}`, BadEnvelope, 0},
	{"S18: two owners, the request's told later", `{"events":[` + envelope("1", "") + `,` + strings.Replace(envelope("2", ""), `"o"`, `"p"`, 1) + `],"ownerId":"o"}`, BadEnvelope, 1},
	{"S18: no request has this owner", `{"events":[` + strings.Replace(envelope("2", ""), `"o"`, `"o o"`, 1) + `],"ownerId":"o"}`, BadEnvelope, 0},
	{"S18: eventId with a space", body(envelope("a b", "")), BadEnvelope, 0},
	{"S18: eventId not ASCII", body(envelope("é", "")), BadEnvelope, 0},
	{"S18: eventId of 257 characters", body(envelope(strings.Repeat("x", 257), "")), BadEnvelope, 0},
	{"S18: eventId with a line break", body(envelope(`a\n`, "")), BadEnvelope, 0},
	{"S18: streamId empty", body(envelope("1", `,"streamId":""`)), BadEnvelope, 0},
	{"S18: streamId a number", body(envelope("1", `,"streamId":1`)), BadEnvelope, 0},
	{"S18: streamId of 129 characters", body(envelope("1", `,"streamId":"`+strings.Repeat("x", 129)+`"`)), BadEnvelope, 0},
	{"S18: streamId not ASCII", body(envelope("1", `,"streamId":"\u00e9"`)), BadEnvelope, 0},
	{"S18: before the owner is read", `{"events":[` + envelope("", "") + `],"ownerId":"o"}`, BadEnvelope, 0},
}...)

// badFields are the faults of the fields that must be non-empty strings (S18).
func badFields() []badPush {
	var all []badPush
	e := envelope("1", "")
	for _, name := range fieldNames[fieldEvent:fieldStream] {
		from := strings.Index(e, `"`+name)
		to := from + strings.IndexAny(e[from:], ",}")
		for _, value := range []string{`""`, "null", "1", "[]", `{"a":"b"}`, "true"} {
			changed := e[:from] + `"` + name + `":` + value + e[to:]
			all = append(all, badPush{"S18: " + name + " is " + value, body(changed), BadEnvelope, 0})
		}
		all = append(all, badPush{"S18: no " + name, body(e[:from] + `"x` + e[from+1:]), BadEnvelope, 0})
	}
	return all
}

// TestPush also is Y4: bodies whole, cut at each position, and byte by byte.
func TestPush(t *testing.T) {
	for _, g := range good {
		for size := range len(g.body) {
			sink, err := push(g.body, wide, size+1)
			if err != nil || !slices.Equal(sink.stored, g.stored) || !slices.Equal(sink.owners, []string{"o"}) {
				t.Fatalf("%s, pieces of %d: %v, %q, want %q", g.rule, size+1, err, sink.log, g.stored)
			}
		}
	}
	for _, b := range bad {
		for size := range max(len(b.body), 1) {
			_, err := push(b.body, wide, size+1)
			wantFault(t, b.rule+" "+b.body, err, b.code, b.index)
		}
	}
}

// TestPushCutInTwo cuts each body at each position.
func TestPushCutInTwo(t *testing.T) {
	for _, g := range good {
		for cut := range len(g.body) {
			var d PushDecoder
			sink := new(recorder)
			d.Reset(wide, sink)
			err := d.Feed([]byte(g.body[:cut]))
			if err == nil {
				err = feed(&d, g.body[cut:], len(g.body))
			}
			if err != nil || !slices.Equal(sink.stored, g.stored) {
				t.Fatalf("%s, cut at %d: %v, %q", g.rule, cut, err, sink.stored)
			}
		}
	}
}

// TestPushLimits is S20 at its borders.
func TestPushLimits(t *testing.T) {
	one := envelope("1", "")
	many := func(n int, more string) string { return body(slices.Repeat([]string{one + more}, n)...) }
	f := func(text string, events, bytes int, code Code, index int) {
		t.Helper()
		for _, size := range []int{1, 7, len(text)} {
			sink, err := push(text, Limits{events, bytes}, size)
			if code == Internal {
				if err != nil {
					t.Errorf("%.100s: %v", text, err)
				}
				continue
			}
			wantFault(t, text, err, code, index)
			if len(sink.owners) != 1 {
				t.Errorf("%.100s: answered before the owner is known (S16)", text)
			}
		}
	}
	f(many(3, ""), 3, len(one), Internal, 0)
	f(many(3, "  \n"), 3, len(one), Internal, 0)
	f(body(strings.ReplaceAll(one, ",", " ,\n ")), 1, len(one), Internal, 0)
	f(many(4, ""), 3, len(one), TooManyEvents, -1)
	f(many(1001, ""), 1000, len(one), TooManyEvents, -1) // hard case 4
	f(many(1, ""), 0, len(one), TooManyEvents, -1)
	f(many(3, ""), 3, len(one)-1, EventTooLarge, 0)
	f(body(one, envelope("1", `,"x":1`)), 2, len(one), EventTooLarge, 1)
	f(body(one, envelope("22", "")), 2, len(one), EventTooLarge, 1)

	// The owner comes last: the fault waits for it (S16).
	late := func(list string) string { return `{"events":[` + list + `],"ownerId":"o"}` }
	f(late(one+","+one), 1, len(one), TooManyEvents, -1)
	f(late(one), 1, len(one)-1, EventTooLarge, 0)
	f(late(one+`],"events":[`+one), 2, len(one), BadRequest, -1)
}

// TestPushEarly: faults are told with the piece in which they lie, and the rest
// of a body is not waited for.
func TestPushEarly(t *testing.T) {
	f := func(text string, limits Limits, code Code, index int) {
		t.Helper()
		var d PushDecoder
		d.Reset(limits, new(recorder))
		err := d.Feed([]byte(text))
		wantFault(t, text, err, code, index)
		if again := d.Feed([]byte("}")); again != err || d.End() != err {
			t.Errorf("%.100s: %v after %v", text, again, err)
		}
	}
	one := envelope("1", "")
	f(`{"ownerId":"o","events":[`+one+`,{`, Limits{1, 500}, TooManyEvents, -1)
	f(`{"ownerId":"o","events":[{"x":"`+strings.Repeat("y", 500), Limits{1, 500}, EventTooLarge, 0)
	f(`{"ownerId":"o","events":[1`, wide, BadEnvelope, 0)
	f(`{"ownerId":"`+strings.Repeat("o", 800), wide, BadRequest, -1)
	f(strings.Repeat(`{"a":`, 65), wide, BadRequest, -1)
}

// TestPushOwnerFirst is S16: the owner is told as soon as it is read.
func TestPushOwnerFirst(t *testing.T) {
	var d PushDecoder
	sink := new(recorder)
	d.Reset(wide, sink)
	if err := d.Feed([]byte(`{"ownerId":"o`)); err != nil || len(sink.owners) != 0 {
		t.Fatal(err, sink.owners)
	}
	if _, ok := d.Owner(); ok {
		t.Fatal("owner is known too early")
	}
	if err := d.Feed([]byte(`1"`)); err != nil || !slices.Equal(sink.owners, []string{"o1"}) {
		t.Fatal(err, sink.owners)
	}
	if id, ok := d.Owner(); !ok || id != "o1" {
		t.Fatal(id, ok)
	}
}

// TestPushSinkError: what the sink returns ends the body, wherever it lies.
func TestPushSinkError(t *testing.T) {
	full := errors.New("full")
	for _, text := range []string{body(), `{"events":[` + envelope("1", "") + `],"ownerId":"o"}`} {
		var d PushDecoder
		sink := &recorder{fail: full}
		d.Reset(wide, sink)
		if err := d.Feed([]byte(text)); err != full || d.End() != full || len(sink.log) != 1 {
			t.Errorf("%s: %v, %q", text, err, sink.log)
		}
	}
}

// TestPushReset: nothing of a body is left in the next one.
func TestPushReset(t *testing.T) {
	var d PushDecoder
	for _, first := range bad {
		d.Reset(wide, new(recorder))
		if feed(&d, first.body, 5) == nil {
			t.Fatal(first.rule)
		}
		for _, g := range good[:6] {
			sink := new(recorder)
			d.Reset(wide, sink)
			if err := feed(&d, g.body, 5); err != nil || !slices.Equal(sink.stored, g.stored) {
				t.Fatalf("%s after %s: %v", g.rule, first.rule, err)
			}
			if d.Count() != len(g.stored) {
				t.Fatalf("count %d", d.Count())
			}
		}
	}
}

// TestManyNames: repeated names are found among very many (Y3).
func TestManyNames(t *testing.T) {
	var more strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&more, `,"%d":0`, i)
	}
	if _, err := push(body(envelope("1", more.String())), wide, 4096); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 15, 16, 17, 1000, 19_999} {
		text := body(envelope("1", more.String()+fmt.Sprintf(`,"%d":0`, i)))
		_, err := push(text, wide, 4096)
		wantFault(t, fmt.Sprint("repeated ", i), err, BadEnvelope, 0)
	}
}

// TestIsOne is the version of S18.
func TestIsOne(t *testing.T) {
	f := func(raw string, want bool) {
		t.Helper()
		if got := isOne([]byte(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
	for _, s := range []string{
		"1", "1.0", "1.000", "1e0", "1E+0", "1e-0", "1e000", "10e-1", "100e-2",
		"10.0e-1", "0.1e1", "0.10E+1", "0.001e3", "0.001e0003",
	} {
		f(s, true)
	}
	for _, s := range []string{
		"0", "2", "-1", "-1.0", "1.1", "11", "10", "0.1", "1e1", "1e-1", "0e1", "0.0",
		"10e1", "0.1e-1", "1e99999999999999999999", "1e-99999999999999999999", "21e-1",
		"1.00000000000000000000000001", "100e-1", "true", "null", `"1"`, "[1]", `{"1":1}`, "[]",
	} {
		f(s, false)
	}
}

// TestRecord: a record comes back, at once or when it is complete (S20a).
func TestRecord(t *testing.T) {
	in := []Envelope{
		{EventID: []byte("e"), Stored: []byte("{}")},
		{EventID: []byte(strings.Repeat("e", 256)), StreamID: []byte(strings.Repeat("s", 128)), Stored: make([]byte, 300_000)},
	}
	var all []byte
	for i := range in {
		all = AppendRecord(all, &in[i])
	}
	rest := all
	for i := range in {
		var e Envelope
		n, ok, err := ReadRecord(rest, &e)
		if !ok || err != nil || string(e.EventID) != string(in[i].EventID) ||
			string(e.StreamID) != string(in[i].StreamID) || string(e.Stored) != string(in[i].Stored) {
			t.Fatalf("record %d: %d, %v, %v", i, n, ok, err)
		}
		for cut := range min(n, 500) {
			want := n
			if cut < 8 {
				want = 8
			}
			if n, ok, err := ReadRecord(rest[:cut], &e); n != want || ok || err != nil {
				t.Fatalf("cut at %d: %d, %v, %v", cut, n, ok, err)
			}
		}
		rest = rest[n:]
	}
	for _, broken := range []string{"\x00\x00\x00\x00\x01\x00\x00\x00", "\x01\x01\x00\x00\x01\x00\x00\x00", "\x01\x00\x81\x00\x01\x00\x00\x00", "\x01\x00\x00\x00\xff\xff\xff\xff"} {
		if _, _, err := ReadRecord([]byte(broken), new(Envelope)); err != ErrRecord {
			t.Errorf("%q: %v", broken, err)
		}
	}
}
