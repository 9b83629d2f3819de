package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testrelay.Main()
	os.Exit(relaytest.RunLeakFree(m, "agent.(*", "agent.Publish"))
}

// heard is a message of the client, as a script sees it.
type heard struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Source     string `json:"source"`
	AEPVersion string `json:"aep_version"`
	SessionID  string `json:"session_id"`
	TenantID   string `json:"tenant_id"`
	Delivery   struct {
		Mode string `json:"mode"`
	} `json:"delivery"`
	Payload struct {
		SessionID    string         `json:"session_id"`
		Version      string         `json:"version"`
		Reason       string         `json:"reason"`
		Capabilities map[string]int `json:"capabilities"`
		Types        []string       `json:"types"`
		Target       []string       `json:"target"`
		Task         []string       `json:"task_id"`
		Mode         string         `json:"delivery_mode"`
		FromCursor   *string        `json:"from_cursor"`
		Acknowledged string         `json:"acknowledged_event_id"`
		Cursor       string         `json:"cursor"`
		Subscription string         `json:"subscription_id"`
		N            int            `json:"n"`
	} `json:"payload"`
	text []byte
}

// wire is one connection to a script.
type wire struct {
	*websocket.Conn
	tb testing.TB
	r  *http.Request
	a  *aepws.Author
	id string // of the session
}

// hear returns the client's next message; Type is "" when the connection ends.
func (w *wire) hear() (h heard) {
	_, text, err := w.Read(w.r.Context())
	if err != nil {
		return h
	}
	var s aepws.Scanner
	var e aepws.Envelope
	if err := s.Scan(text, &e); err != nil || len(e.Faults) > 0 {
		w.tb.Errorf("the client sends %.200s: %v, %v", text, err, e.Faults)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		w.tb.Errorf("the client sends %.200s: %v", text, err)
	}
	h.text = text
	return h
}

// say sends texts. A client that is gone is the test's business.
func (w *wire) say(texts ...[]byte) {
	for _, text := range texts {
		_ = w.Write(w.r.Context(), websocket.MessageText, text)
	}
}

func (w *wire) head(cause string) aepws.Head {
	h := aepws.Head{Now: time.Now(), SessionID: w.id}
	if cause != "" {
		h.CausationID = []byte(cause)
	}
	return h
}

// ready opens the session as a relay does, with these numbers.
func (w *wire) ready(c aepws.Capabilities) heard {
	h := w.hear()
	if h.Type != "session.opened" || h.Payload.Version != "0.1" || h.AEPVersion != "0.1" {
		w.tb.Errorf("B31: first comes %s", h.text)
	}
	if w.id = h.Payload.SessionID; w.id == "" {
		w.id = "sess_given"
	}
	w.say(w.a.AppendReady(nil, w.head(h.ID), &c))
	return h
}

// subscribe opens the session and takes its subscription.
func (w *wire) subscribe(r *aepws.Replay) heard {
	w.ready(aepws.Capabilities{})
	return w.created(r)
}

// created takes a subscription.
func (w *wire) created(r *aepws.Replay) heard {
	h := w.hear()
	if h.Type != "subscription.requested" {
		w.tb.Errorf("B47: then comes %s", h.text)
	}
	w.grant(h, r)
	return h
}

// grant answers the request of a subscription.
func (w *wire) grant(h heard, r *aepws.Replay) {
	w.say(w.a.AppendCreated(nil, w.head(h.ID), "sub_1", []byte("{}"), time.Time{}, r))
}

// cursor returns the cursor that a subscription asks for.
func (h *heard) cursor() string {
	if h.Payload.FromCursor == nil {
		return "none"
	}
	return *h.Payload.FromCursor
}

// hold answers pings until the client goes, or says that it does (B41).
func (w *wire) hold() {
	for {
		switch w.hear().Type {
		case "":
			return
		case "session.closed":
			_ = w.Close(websocket.StatusNormalClosure, "")
			return
		}
	}
}

// event is a delivery of event number n.
func event(n int64) []byte { return delivered(n, "", "") }

// delivered is a delivery of event number n, with a mode and more members of
// delivery.
func delivered(n int64, mode, more string) []byte {
	if mode == "" {
		mode = "best_effort"
	}
	return fmt.Appendf(nil, `{"aep_version":"0.1","id":"e%d","type":"task.progress","source":"worker","created_at":"2026-01-02T15:04:05Z",`+
		`"payload":{"n":%d},"delivery":{"mode":%q,"sequence":%d,"cursor":"e%d:%d","subscription_id":"sub_1"%s}}`, n, n, mode, n, n, n, more)
}

// script is a relay that does what a test wants of it.
type script struct {
	*httptest.Server
	connections atomic.Int64
	live        sync.WaitGroup // what the connections do
}

// startScript starts a relay whose n-th connection, from 1, does what live
// says, one after the other, and is then cut without a close frame.
func startScript(tb testing.TB, live func(n int64, w *wire)) *script {
	tb.Helper()
	var mu sync.Mutex
	return startLoose(tb, func(n int64, w *wire) {
		mu.Lock()
		defer mu.Unlock()
		live(n, w)
	})
}

// startLoose is startScript for connections that live at the same time.
func startLoose(tb testing.TB, live func(n int64, w *wire)) *script {
	tb.Helper()
	s := &script{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /aep", func(rw http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Sec-WebSocket-Protocol"); got != "aep-0.1" {
			tb.Errorf("B1: offers %q", got)
		}
		conn, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: []string{"aep-0.1"}})
		if err != nil {
			tb.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		conn.SetReadLimit(-1)
		s.live.Add(1)
		defer s.live.Done()
		live(s.connections.Add(1), &wire{Conn: conn, tb: tb, r: r, a: aepws.NewAuthor("test", aepws.NewIDs())})
	})
	s.Server = httptest.NewServer(mux)
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// at is a peer of the relay at a URL, without long waits.
func at(tb testing.TB, url string) Peer {
	tb.Helper()
	r, err := NewRelay(url, "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.HTTP.CloseIdleConnections)
	return Peer{Relay: r, pause: hasten, open: patience, close: patience}
}

// hasten is a pause that is short, so that a host that is down is not asked
// without a break.
func hasten(ctx context.Context, _ time.Duration) error { return client.Pause(ctx, 2*time.Millisecond) }

// collector keeps what it gets in words: the number of an event, "# " and a
// notice.
type collector struct {
	mu      sync.Mutex
	all     []string
	changed chan struct{} // closed and replaced at each change
	event   func(e *Event) error
	flush   func() error
}

func newCollector() *collector { return &collector{changed: make(chan struct{})} }

func (c *collector) Event(e *Event) error {
	if c.event != nil {
		if err := c.event(e); err != nil {
			return err
		}
	}
	text := fmt.Sprint(e.Delivery.Sequence)
	if e.Delivery.Sequence == 0 {
		text = string(e.Envelope.Type)
	}
	c.add(text)
	return nil
}

func (c *collector) Notice(n Notice) { c.add("# " + n.String()) }

func (c *collector) Flush() error {
	if c.flush != nil {
		return c.flush()
	}
	return nil
}

func (c *collector) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, line)
	close(c.changed)
	c.changed = make(chan struct{})
}

// lines returns what was told so far.
func (c *collector) lines() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.all, "\n")
}

// want compares what was told with lines.
func (c *collector) want(tb testing.TB, lines ...string) {
	tb.Helper()
	if got := c.lines(); got != strings.Join(lines, "\n") {
		tb.Errorf("got\n%s\nwant\n%s", got, strings.Join(lines, "\n"))
	}
}

// await waits until a line was told that begins so.
func (c *collector) await(tb testing.TB, line string) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		found, changed := strings.Contains("\n"+strings.Join(c.all, "\n")+"\n", "\n"+line), c.changed
		c.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			tb.Fatalf("no %q within %v in\n%s", line, patience, c.lines())
		}
	}
}

// run is one Follow in a goroutine of its own.
type run struct {
	stop context.CancelFunc
	done chan error
	got  Stats // once done has given
}

// startFollow starts a Follow.
func startFollow(tb testing.TB, o Options, c *collector) *run {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	r := &run{stop: cancel, done: make(chan error, 1)}
	go func() {
		var err error
		r.got, err = Follow(ctx, o, c)
		r.done <- err
	}()
	tb.Cleanup(cancel)
	return r
}

// end stops a Follow and returns its error.
func (r *run) end(tb testing.TB) error {
	tb.Helper()
	r.stop()
	return r.wait(tb)
}

// wait waits for the end of a Follow.
func (r *run) wait(tb testing.TB) error {
	tb.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		tb.Fatal("Follow does not return")
		return nil
	}
}
