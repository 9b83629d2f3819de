package aep_test

import (
	"fmt"

	"github.com/sluice-relay/sluice/codec/aep"
)

func ExampleScanner() {
	var s aep.Scanner // one for each loop
	err := s.Scan([]byte(`{"aep":"0.1","id":"01J","type":"run.started",` +
		`"time":"2026-07-03T10:14:01Z","source":"aep://host-a","agent":"a",` +
		`"session":"s_1","seq":1.0,"acmeregion":"eu-1"}`))
	if err != nil {
		fmt.Println(err) // a *aep.SyntaxError
		return
	}
	e, err := s.Event()
	if err != nil {
		fmt.Println(err) // an *aep.EnvelopeError
		return
	}
	seq, _ := e.Seq()
	region, _ := e.Lookup("acmeregion")
	fmt.Println(e.Type(), e.Session(), e.Epoch(), seq, e.Severity(),
		region.EqualString("eu-1"))
	// Output: run.started s_1 0 1 info true
}

func ExampleParseInteger() {
	a, _ := aep.ParseInteger([]byte("5.0"))
	b, _ := aep.ParseInteger([]byte("50e-1"))
	_, whole := aep.ParseInteger([]byte("1.5"))
	fmt.Println(a.Equal(b), string(a.AppendKey(nil)), whole)
	// Output: true 5e0 false
}
