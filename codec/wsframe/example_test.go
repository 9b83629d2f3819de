package wsframe_test

import (
	"fmt"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// A loop keeps one Scratch; each connection has a Reader and feeds it what the
// socket gave.
func ExampleReader_Feed() {
	var scratch wsframe.Scratch
	reader := wsframe.Reader{Limit: 64 << 10}

	mask := [4]byte{1, 2, 3, 4}
	in := wsframe.AppendMasked(nil, wsframe.OpText, false, mask, []byte("hello, "))
	in = wsframe.AppendMasked(in, wsframe.OpPing, true, mask, []byte("still there?"))
	in = wsframe.AppendMasked(in, wsframe.OpContinuation, true, mask, []byte("world"))
	for len(in) > 0 {
		n, msg, err := reader.Feed(in, &scratch)
		if err != nil {
			fmt.Println("close with", err.(*wsframe.Error).CloseCode())
			return
		}
		in = in[n:]
		switch msg.Op {
		case wsframe.OpText:
			fmt.Printf("text %s\n", msg.Payload)
		case wsframe.OpPing:
			fmt.Printf("answer %q\n", wsframe.AppendPong(nil, msg.Payload))
		}
	}
	// Output:
	// answer "\x8a\fstill there?"
	// text hello, world
}

func ExampleUpgradeRequest_Check() {
	q := wsframe.UpgradeRequest{
		Method: []byte("GET"), Minor: 1,
		Upgrade: []byte("websocket"), Connection: []byte("Upgrade"),
		Key: []byte("dGhlIHNhbXBsZSBub25jZQ=="), Version: []byte("8"),
	}
	err := q.Check().(*wsframe.HandshakeError)
	name, value := err.Header()
	fmt.Println(err.Status(), err)
	fmt.Println(name+":", value)
	// Output:
	// 400 Sec-WebSocket-Version is not 13
	// Sec-WebSocket-Version: 13
}
