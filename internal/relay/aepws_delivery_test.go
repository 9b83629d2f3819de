package relay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// Publishing, live delivery in order, and a replay of 10,000 events during which
// a Ping is answered (B55, B52, case 21).
func TestAEPWSDelivery(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "aepws", "SLUICE_LOOPS": "2"})
	sub := f.aepwsSocket(t, "sub")
	sub.say(`{"type":"subscription.requested","id":"r","payload":{"types":"task.*"}}`)
	sub.want("subscription.created")
	pub := f.aepwsSocket(t, "pub")
	const n = 10000
	go func() {
		for i := range n {
			pub.say(aepwsDomain("p", fmt.Sprint("e", i)))
		}
	}()
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := range n {
			if e, _ := sub.next(); e.ID != fmt.Sprint("e", i) {
				t.Errorf("%d: %+v", i, e)
				return
			}
		}
	}()
	for i := range n {
		if e := pub.want("event.acknowledged"); e.Payload.Cursor != fmt.Sprintf("e%d:%d", i, i+1) {
			t.Fatalf("%+v", e)
		}
	}
	<-done
	w := f.aepwsSocket(t, "re")
	payload := strings.Repeat("p", 125)
	w.say(`{"type":"subscription.requested","id":"r","payload":{"from_cursor":"x:0"}}`)
	_ = w.SendFrame(relaytest.Frame{Opcode: relaytest.OpPing, Payload: []byte(payload)})
	events, pongAt, last := 0, -1, ""
	for last != "event.replayed" {
		m, err := w.Next(patience)
		if err != nil {
			t.Fatal(err)
		}
		switch m.Opcode {
		case relaytest.OpPong:
			pongAt = events
			if string(m.Data) != payload {
				t.Errorf("B38: the Pong has %q", m.Data)
			}
		case relaytest.OpText:
			var e aepwsEvent
			_ = json.Unmarshal(m.Data, &e)
			if last = e.Type; last == "task.progress" {
				events++
			}
		}
	}
	if pongAt < 0 || pongAt >= n || events != n {
		t.Errorf("case 21: the Pong came after %d of %d events", pongAt, events)
	}
}
