package aepws_test

import (
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// An event is admitted, stored, and delivered to a subscription that its
// filter lets it pass to.
func ExampleScanner() {
	message := []byte(`{"aep_version":"0.1","id":"evt_1","type":"task.progress","source":"agent:a",` +
		`"created_at":"2026-03-01T12:00:00Z","delivery":{"mode":"replayable"},"payload":{"done":1.10}}`)
	var s aepws.Scanner
	var e aepws.Envelope
	if err := s.Scan(message, &e); err != nil || len(e.Faults) > 0 {
		fmt.Println(err, e.Faults)
		return
	}
	attributes := e.Attributes("")
	stored := aepws.StoredForm(nil, &e)
	d := aepws.Delivery{Mode: aepws.Effective(e.Mode, aepws.AtLeastOnce), Sequence: 42, ID: "evt_1", SubscriptionID: "sub_1"}

	request := []byte(`{"type":"subscription.requested","payload":{"types":"task.*","delivery_mode":"at_least_once"}}`)
	var r aepws.FilterRequest
	if err := s.Scan(request, &e); err != nil {
		fmt.Println(err)
		return
	}
	if fault := s.ReadFilter(&e, "", time.Now(), &r); fault != nil {
		fmt.Println(fault.Text)
		return
	}
	fmt.Println(r.Filter.Match(&attributes), r.Mode)
	fmt.Printf("%s\n", aepws.AppendDelivery(nil, stored, &d))
	// Output:
	// true at_least_once
	// {"aep_version":"0.1","id":"evt_1","type":"task.progress","source":"agent:a","created_at":"2026-03-01T12:00:00Z","payload":{"done":1.10},"delivery":{"mode":"at_least_once","sequence":42,"cursor":"evt_1:42","subscription_id":"sub_1"}}
}

func ExampleParseCursor() {
	id, sequence, err := aepws.ParseCursor([]byte("a:b:7"))
	fmt.Println(string(id), sequence, err)
	_, _, err = aepws.ParseCursor([]byte("evt_1:-1"))
	fmt.Println(err)
	// Output:
	// a:b 7 <nil>
	// cursor is not <event id>:<sequence>
}

// A faulty event is answered with all of its faults.
func ExampleAuthor_AppendFaults() {
	var s aepws.Scanner
	var e aepws.Envelope
	if err := s.Scan([]byte(`{"spec_version":"0.2","type":"session.heartbeat"}`), &e); err != nil {
		fmt.Println(err)
		return
	}
	author := aepws.NewAuthor("example", aepws.NewIDs())
	fmt.Println(len(author.AppendFaults(nil, "sess_1", time.Now(), &e)) > 0, e.Faults[0].Code, e.Faults[0].Text)
	// Output: true unsupported_version spec_version is not 0.1
}
