package firehose_test

import (
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// A producer checks a body and writes its frame with the number it got.
func ExampleAccount() {
	account := firehose.Account{
		DID:    "did:web:pds.example",
		Time:   firehose.FormatTime(time.Date(2024, 7, 9, 10, 0, 0, 0, time.UTC)),
		Status: firehose.StatusDeactivated,
	}
	if err := account.Check(); err != nil {
		fmt.Println(err)
		return
	}
	frame, err := account.Append(nil, 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	var scanner firehose.Scanner
	text, _ := scanner.AppendJSON(nil, frame)
	fmt.Printf("%s\n", text)
	// Output:
	// {"header":{"t":"#account","op":1},"body":{"did":"did:web:pds.example","seq":42,"time":"2024-07-09T10:00:00Z","active":false,"status":"deactivated"}}
}

// A relay reads what another host sends and passes it on with its own number.
func ExampleScanner_Scan() {
	upstream, _ := (&firehose.Identity{DID: "did:web:pds.example", Time: "2024-07-09T10:00:00Z"}).Append(nil, 7)
	var scanner firehose.Scanner
	var frame firehose.Frame
	for _, message := range [][]byte{upstream, []byte("\xa2\x61t\x64#new\x62op\x01\xa0"), upstream[:20]} {
		err := scanner.Scan(message, &frame)
		switch firehose.ReactionTo(err) {
		case firehose.DropConnection:
			fmt.Println("count a failure and reconnect:", firehose.Reason(err))
		case firehose.SkipFrame:
			fmt.Println("skip:", firehose.Reason(err))
		default:
			ours, _ := frame.Append(nil, 1000)
			fmt.Printf("%s %d becomes 1000, %d bytes\n", frame.Type, frame.Seq, len(ours))
		}
	}
	// Output:
	// #identity 7 becomes 1000, 75 bytes
	// skip: unknown_type
	// count a failure and reconnect: bad_cbor
}
