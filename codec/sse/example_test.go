package sse_test

import (
	"fmt"

	"github.com/sluice-relay/sluice/codec/sse"
)

func ExampleAppendEvent() {
	id, _ := sse.AppendID(nil, "sess-5f2b9c", 0, 42)
	stream := sse.AppendRetryOpen(nil, "open 7f3a", 2500)
	stream = sse.AppendEvent(stream, "tool.started", []byte(`{"type":"tool.started"}`), id)
	fmt.Printf("%s", stream)
	// Output:
	// : open 7f3a
	// retry: 2500
	//
	// event: tool.started
	// data: {"type":"tool.started"}
	// id: sess-5f2b9c:0:42
}

func ExampleDecoder_Feed() {
	var decoder sse.Decoder
	deliver := func(it sse.Item) error {
		switch it.Kind {
		case sse.KindEvent:
			fmt.Printf("%s %s at %s\n", it.Type, it.Data, it.ID)
		case sse.KindComment:
			fmt.Printf("(%s)\n", it.Data)
		}
		return nil
	}
	for _, piece := range []string{": pi", "ng\n\nevent: run.started\nda", "ta: {}\nid: s:0:1\n\n"} {
		if err := decoder.Feed([]byte(piece), deliver); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("resume from %s\n", decoder.LastEventID())
	// Output:
	// (ping)
	// run.started {} at s:0:1
	// resume from s:0:1
}
