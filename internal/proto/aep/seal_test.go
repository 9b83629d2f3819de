package aep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// Once the streams end nothing is acknowledged any more: requests get 503
// (R463), and a ping, whose pong tells that what came before it is in, gets
// nothing (R329).
func TestR463Sealed(t *testing.T) {
	r := newRig(t, 1<<20)
	event := relaytest.Event{Session: "s"}.JSON()
	w := r.upgrade()
	w.say(helloText)
	w.say(`{"type":"ping","t":1}`)
	if got := w.frames(); len(got) != 2 || got[1] != `{"type":"pong","t":1}` {
		t.Fatalf("frames %q", got)
	}
	body := relaytest.NDJSON(event)
	request := postHead(fmt.Sprintf("Content-Length: %d", len(body))) + body
	half := r.dial()
	half.send(request[:len(request)-10])

	r.surface.Seal()
	w.say(event)
	w.say(`{"type":"ping","t":2}`)
	w.wantFrames("after Seal")
	half.send(request[len(request)-10:])
	whole := r.dial()
	whole.send(request)
	for i, c := range []*wire{half, whole} {
		if got := c.text(); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "\r\nRetry-After: ") {
			t.Errorf("request %d answered %.200q", i, got)
		}
	}
}
