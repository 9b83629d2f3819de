package syncwire

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// TestHeldFault is S16 where the owner comes last: the first fault is kept, the
// owner is told before it, and envelopes stop.
func TestHeldFault(t *testing.T) {
	one, empty := envelope("1", ""), "{}"
	f := func(text string, code Code, index, owners, stored int) {
		t.Helper()
		for _, size := range []int{1, 9, len(text)} {
			sink, err := push(text, Limits{3, 400}, size)
			wantFault(t, text, err, code, index)
			if len(sink.owners) != owners || len(sink.stored) != stored {
				t.Errorf("%s: %q", text, sink.log)
			}
		}
	}
	f(`{"events":[`+one+`,{},`+one+`],"ownerId":"o"}`, BadEnvelope, 1, 1, 1)
	f(`{"events":[`+one+`,7,`+one+`],"x":[[1]],"ownerId":"o"}`, BadEnvelope, 1, 1, 1)
	f(`{"events":[{}],"events":[`+one+`],"ownerId":"o"}`, BadEnvelope, 0, 1, 0)
	f(`{"events":[{}],"events":7,"ownerId":"o","x"`, BadEnvelope, 0, 1, 0)
	f(`{"events":7,"events":[`+one+`],"ownerId":"o"}`, BadRequest, -1, 1, 0)
	f(`{"events":[`+one+strings.Repeat(","+one, 3)+`],"ownerId":"o"}`, TooManyEvents, -1, 1, 3)
	f(`{"events":[{"x":"`+strings.Repeat("y", 500)+`","ownerId":"p"}],"ownerId":"o"}`, EventTooLarge, 0, 1, 0)
	// The owner never comes.
	f(`{"events":[`+empty+`]}`, BadEnvelope, 0, 0, 0)
	f(`{"events":[`+empty+`]`, BadEnvelope, 0, 0, 0)
	f(`{"events":[`+empty+`],x`, BadEnvelope, 0, 0, 0)
	f(`{"events":[`+empty+`],"ownerId":7}`, BadRequest, -1, 0, 0)
	f(`{"events":[`+empty+`],"ownerId":""}`, BadRequest, -1, 0, 0)
}

// TestResetForgets: owner, faults and large scratch go with their body (Y3).
func TestResetForgets(t *testing.T) {
	var d PushDecoder
	late := func(owner string) string {
		return strings.ReplaceAll(`{"events":[`+envelope("1", "")+`],"ownerId":"o"}`, `"o"`, `"`+owner+`"`)
	}
	for _, owner := range []string{"a", "bb", "c"} {
		sink := new(recorder)
		d.Reset(wide, sink)
		if _, ok := d.Owner(); ok || d.Count() != 0 {
			t.Fatal("a body is left")
		}
		if err := feed(&d, late(owner), 3); err != nil || len(sink.stored) != 1 {
			t.Fatal(owner, err)
		}
	}
	var names strings.Builder
	for i := range 5000 {
		names.WriteString(`,"\u0078` + strings.Repeat("y", i%20) + string(rune(0x1000+i)) + `":0`)
	}
	d.Reset(wide, new(recorder))
	if err := feed(&d, body(envelope("1", names.String()+`,"z":"`+strings.Repeat("z", 100_000)+`"`)), 1000); err != nil {
		t.Fatal(err)
	}
	d.Reset(wide, new(recorder))
	c := &d.checker
	held, slots := c.others.Kept()
	if cap(d.lex.kept) > keepBytes || cap(c.decoded) > keepBytes || held > jsontext.KeepNames || slots > 4*jsontext.KeepNames {
		t.Errorf("kept %d, %d, %d, %d", cap(d.lex.kept), cap(c.decoded), held, slots)
	}
}
