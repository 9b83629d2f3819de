package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// aepws is a client of the aep-0.1 binding.
type aepws struct {
	*relaytest.WS
	t testing.TB
}

// aepwsSocket opens a socket, and the session if it is named.
func (f *fixture) aepwsSocket(t testing.TB, session string) *aepws {
	t.Helper()
	ws, err := relaytest.DialWS(f.addr, "/aep", relaytest.WSOptions{Headers: []string{"Sec-WebSocket-Protocol: aep-0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	w := &aepws{ws, t}
	if session != "" {
		w.say(fmt.Sprintf(`{"type":"session.opened","payload":{"session_id":%q}}`, session))
		w.want("session.ready")
	}
	return w
}

func (w *aepws) say(events ...string) {
	w.t.Helper()
	var all []byte
	for _, e := range events {
		all = append(all, relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(e)}.Bytes()...)
	}
	if err := w.Send(all); err != nil {
		w.t.Fatal(err)
	}
}

// aepwsEvent is what tests look at.
type aepwsEvent struct {
	ID, Type string
	Payload  struct {
		Cursor string
		Reason string
		Error  struct{ Code string }
	}
}

// next returns the next event, which is neither a heartbeat nor a ping, or a
// close code.
func (w *aepws) next() (e aepwsEvent, code int) {
	w.t.Helper()
	for {
		m, err := w.Next(patience)
		if err != nil {
			w.t.Fatal(err)
		}
		switch m.Opcode {
		case relaytest.OpClose:
			return e, m.Code
		case relaytest.OpText:
			if err := json.Unmarshal(m.Data, &e); err != nil {
				w.t.Fatalf("%v in %q", err, m.Data)
			}
			if e.Type != "session.heartbeat" {
				return e, 0
			}
		}
	}
}

func (w *aepws) want(typ string) aepwsEvent {
	w.t.Helper()
	e, code := w.next()
	if e.Type != typ {
		w.t.Fatalf("got %+v, close %d, want %s", e, code, typ)
	}
	return e
}

func (w *aepws) wantClose(want int) {
	w.t.Helper()
	if e, code := w.next(); code != want {
		w.t.Fatalf("got %+v, close %d, want close %d", e, code, want)
	}
}

func aepwsDomain(source, id string) string {
	return fmt.Sprintf(`{"aep_version":"0.1","id":%q,"type":"task.progress","source":%q,"created_at":"2026-01-01T00:00:00Z","payload":{}}`, id, source)
}

// B51, B55, B62: what is acknowledged is in the file, and its number is kept
// over a restart. Nothing is made before it is needed, and other surfaces keep
// their routes.
func TestAEPWSRestart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "made", "later")
	env := map[string]string{"SLUICE_SURFACES": "aep,aepws", "SLUICE_DATA": data}
	f := startRelay(t, env)
	if r := f.get(t, "/healthz"); r.Status != http.StatusOK {
		t.Errorf("/healthz: %d", r.Status)
	}
	if r := f.get(t, "/aep"); r.Status != http.StatusUpgradeRequired {
		t.Errorf("B4: /aep: %d", r.Status)
	}
	if r := f.get(t, "/aep/x"); r.Status != http.StatusNotFound {
		t.Errorf("/aep/x: %d", r.Status)
	}
	w := f.aepwsSocket(t, "s")
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made before anything was stored")
	}
	w.say(aepwsDomain("a", "e1"), aepwsDomain("a", "e2"))
	for _, want := range []string{"e1:1", "e2:2"} {
		if e := w.want("event.acknowledged"); e.Payload.Cursor != want {
			t.Errorf("B55: %+v, want %s", e, want)
		}
	}
	s, err := f.relay.Snapshot(context.Background())
	if err != nil || s.AEPWS == nil || s.AEPWS.Stored != 2 || s.AEPWS.Sessions != 1 || s.AEPWS.Records["opened"] != 1 || s.AEPWS.KeptEvents != 2 {
		t.Errorf("snapshot %+v, %v", s.AEPWS, err)
	}
	if err := f.shutdown(); err != nil {
		t.Fatal(err)
	}
	if e := w.want("session.closed"); e.Payload.Reason != "peer_disconnected" {
		t.Errorf("case 41: %+v", e)
	}
	w.wantClose(1001)

	w = startRelay(t, env).aepwsSocket(t, "s")
	w.say(aepwsDomain("a", "e2"), aepwsDomain("a", "e3"))
	for _, want := range []string{"e2:2", "e3:3"} {
		if e := w.want("event.acknowledged"); e.Payload.Cursor != want {
			t.Errorf("B51, B56: %+v, want %s", e, want)
		}
	}
}

// Case 41: a stop tells every session, and is over within 5 s.
func TestAEPWSShutdown(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "aepws"})
	var ws []*aepws
	for i := range 50 {
		ws = append(ws, f.aepwsSocket(t, fmt.Sprint("s", i)))
	}
	ws[0].say(aepwsDomain("a", "e1"))
	ws[0].want("event.acknowledged")
	done := f.stopping(t)
	for _, w := range ws {
		if e := w.want("session.closed"); e.Payload.Reason != "peer_disconnected" {
			t.Errorf("case 41: %+v", e)
		}
		w.wantClose(1001)
		_ = w.Close()
	}
	drained(t, done)
}

// Many publishers that do not wait get their answers in order, and each number
// is given once.
func TestAEPWSPublishers(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "aepws", "SLUICE_LOOPS": "2"})
	const publishers, events = 6, 600
	var seen sync.Map
	var wg sync.WaitGroup
	for p := range publishers {
		w := f.aepwsSocket(t, fmt.Sprint("p", p))
		wg.Go(func() {
			for i := range events {
				w.say(aepwsDomain(fmt.Sprint("p", p), fmt.Sprintf("e%d", i)))
			}
		})
		wg.Go(func() {
			last := 0
			for i := range events {
				e, _ := w.next()
				id, n := "", 0
				if at := strings.LastIndexByte(e.Payload.Cursor, ':'); at > 0 {
					id = e.Payload.Cursor[:at]
					_, _ = fmt.Sscan(e.Payload.Cursor[at+1:], &n)
				}
				_, twice := seen.LoadOrStore(n, true)
				if id != fmt.Sprintf("e%d", i) || n <= last || n > publishers*events || twice {
					t.Errorf("publisher %d: answer %d is %+v", p, i, e)
					return
				}
				last = n
			}
		})
	}
	wg.Wait()
}

// Case 33 over real sockets, on whatever loops they are.
func TestAEPWSReplaced(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "aepws", "SLUICE_LOOPS": "2"})
	old := f.aepwsSocket(t, "s")
	for range 10 {
		w := f.aepwsSocket(t, "s")
		if e := old.want("session.closed"); e.Payload.Reason != "replaced" {
			t.Fatalf("case 33: %+v", e)
		}
		old.wantClose(1000)
		old = w
	}
}

// Section 1: without a token, and off loopback, the binding is left out with a
// line in the log, and stops the start where it was named.
func TestAEPWSExposed(t *testing.T) {
	env := map[string]string{"AEP_HOST": "0.0.0.0", "SLUICE_SURFACES": "", "AEP_TOKEN": testToken}
	f := startRelay(t, env)
	f.addr = "127.0.0.1" + f.addr // of every interface
	if r := f.get(t, "/aep"); r.Status != http.StatusNotFound {
		t.Errorf("/aep is served: %d", r.Status)
	}
	if !strings.Contains(f.log.String(), "the aep-0.1 binding is not served") {
		t.Error("the log does not say so")
	}
	env["SLUICE_SURFACES"] = "aep,aepws"
	if _, err := relay.New(testConfig(t, env), slog.New(slog.DiscardHandler), "test"); !errors.Is(err, config.ErrExposed) {
		t.Errorf("named: %v", err)
	}
	for name, value := range map[string]string{"AEPWS_TOKEN": testToken, "AEPWS_ALLOW_OPEN": "1"} {
		allowed := map[string]string{name: value}
		for k, v := range env {
			allowed[k] = v
		}
		f := startRelay(t, allowed)
		f.addr = "127.0.0.1" + f.addr
		if r := f.get(t, "/aep"); r.Status != http.StatusUpgradeRequired {
			t.Errorf("%s: /aep: %d", name, r.Status)
		}
	}
}
