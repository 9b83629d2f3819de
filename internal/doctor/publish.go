package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// checkPublish sends an event of its own session and waits for it on a stream
// and on a WebSocket.
func (d *doctor) checkPublish(ctx context.Context) finding {
	if !d.Publish {
		return skip("it sends an event, and --publish was not given")
	}
	ctx, cancel := context.WithTimeout(ctx, 4*d.Timeout) // a bound for all of it
	defer cancel()
	id := strings.ToLower(rand.Text()[:12])
	session := "sluice-doctor-" + id
	filter := `{"session":"` + session + `"}`
	s, err := d.openStream(ctx, url.Values{"filter": {filter}}, nil)
	if err != nil {
		return fail("GET /stream: "+err.Error(), "see the check of the stream")
	}
	defer s.stop()
	if s.status != http.StatusOK {
		return fail("GET /stream: "+s.told(), adviceStatus(s.status))
	}
	w, err := d.openSocket(ctx)
	if err == nil {
		defer w.stop()
		if err = w.send(ctx, `{"type":"subscribe","id":1,"filter":`+filter+`}`); err == nil {
			_, err = w.next(time.Now().Add(d.Timeout), "subscribed")
		}
	}
	if err != nil {
		w = nil // that has a check of its own
	}
	begin := time.Now()
	a, err := d.post(ctx, testEvent(id, session, begin))
	switch {
	case err != nil:
		return fail("POST /events: "+err.Error(), "see the log of the relay, and of the proxy in front")
	case a.status != http.StatusAccepted:
		return fail("POST /events: "+a.told(), advicePost(a.status))
	}
	return d.awaitEvent(begin, id, s, w)
}

// awaitEvent waits for the event on both bindings.
func (d *doctor) awaitEvent(begin time.Time, id string, s *stream, w *socket) finding {
	deadline := begin.Add(d.Timeout)
	item, err := s.next(deadline, func(i streamItem) bool { return !i.comment && strings.Contains(i.text, id) })
	switch {
	case errors.Is(err, errTimeout):
		return fail(fmt.Sprintf("the event was taken, and did not come on the stream in %v", d.Timeout), adviceBuffering)
	case err != nil:
		return fail("the event was taken, and did not come on the stream: "+err.Error(), adviceBuffering)
	}
	onStream := item.at.Sub(begin)
	if w == nil {
		return warn(fmt.Sprintf("on the stream after %v; there is no WebSocket", onStream.Round(10*time.Microsecond)), "see the check of the WebSocket")
	}
	f, err := w.next(deadline, "progress.status")
	if err != nil {
		return fail("the event came on the stream, and not on the WebSocket: "+err.Error(), "something in front holds messages back: see the proxy's settings for WebSockets")
	}
	onSocket := f.at.Sub(begin)
	seen := fmt.Sprintf("on the stream after %v, on the WebSocket after %v", onStream.Round(10*time.Microsecond), onSocket.Round(10*time.Microsecond))
	if max(onStream, onSocket) > d.slow {
		return warn(seen, "the relay is busy, the way is long, or a proxy holds events back for a while")
	}
	return ok("%s", seen)
}

// post publishes one event.
func (d *doctor) post(ctx context.Context, event []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	request, err := d.Relay.Request(ctx, http.MethodPost, "/events", nil, bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return d.do(request)
}

// testEvent is one that says what it is, of the least severity, in a session
// that nobody else has.
func testEvent(id, session string, now time.Time) []byte {
	event, err := json.Marshal(map[string]any{
		"aep": "0.1", "id": "sluice-doctor-" + id, "type": "progress.status", "time": now.UTC().Format(time.RFC3339Nano),
		"source": "aep://sluice-doctor", "agent": "sluice-doctor", "session": session, "seq": 0, "severity": "debug",
		"capture": "redacted", "data": map[string]string{"message": "a test by sluice doctor", "phase": "test"},
	})
	if err != nil {
		panic("doctor: " + err.Error()) // the types are ours and cannot fail
	}
	return event
}

func advicePost(status int) string {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return "the proxy in front refuses small bodies already: client_max_body_size 0 with nginx, the relay has its own limit"
	case http.StatusUpgradeRequired:
		return "the header AEP-Version does not come through: let the proxy in front pass it on"
	case http.StatusMethodNotAllowed:
		return "the proxy in front does not let POST pass"
	}
	return adviceStatus(status)
}
