package aep_test

import (
	"fmt"

	"github.com/sluice-relay/sluice/codec/aep"
)

const exampleEvent = `{"aep":"0.1","id":"01J","type":"tool.failed",` +
	`"time":"2026-07-03T10:14:01Z","source":"aep://host-a","agent":"a",` +
	`"session":"s_1","seq":1,"severity":"error","capture":"full",` +
	`"data":{"error":{"type":"ExecError","message":"no such file /home/u"}}}`

func ExampleParseFilter() {
	f, err := aep.ParseFilter([]byte(`{"severity":{"gte":"error"},` +
		`"type":["tool.*","run.failed"]}`))
	if err != nil {
		fmt.Println(err) // ErrFilterSyntax or a *FilterError
		return
	}
	var s aep.Scanner
	if err := s.Scan([]byte(exampleEvent)); err != nil {
		fmt.Println(err)
		return
	}
	e, err := s.Event()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Match(e), f.Canonical())
	// Output: true {"severity":["error","critical"],"type":["run.failed","tool.*"]}
}

func ExampleDownlevel() {
	ceiling := aep.CeilingAt(aep.LevelMetadata)
	to, rewrite := aep.ResultLevel(aep.LevelFull, true, ceiling)
	text, err := aep.Downlevel(nil, []byte(exampleEvent), to)
	fmt.Println(rewrite, err)
	fmt.Println(string(text[len(text)-59:]))
	// Output:
	// true <nil>
	// "capture":"metadata","data":{"error":{"type":"ExecError"}}}
}

func ExampleParseFrom() {
	pos, all, entries, err := aep.ParseFrom([]byte(
		`[{"session":"a","seq":9},{"session":"b"},{"session":"a","seq":4}]`), 500)
	fmt.Println(pos, all, entries, err)
	// Output: [{a 0 4} {b 0 -1}] false 3 <nil>
}

func ExampleDecodeSubscribe() {
	frame := []byte(`{"type":"subscribe","id":7,"filter":{"agent":"a"},` +
		`"capture":"redacted"}`)
	sub, err := aep.DecodeSubscribe(frame) // after Scanner.Scan
	if err != nil {
		fmt.Println(err)
		return
	}
	ceiling, err := aep.ParseCeiling(sub.Capture)
	fmt.Println(ceiling, err, string(aep.AppendSubscribed(nil, sub.IDRaw)))
	// Output: redacted <nil> {"type":"subscribed","id":7}
}
