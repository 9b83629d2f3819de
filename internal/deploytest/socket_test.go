package deploytest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// R300 to R328: upgrade, hello, subscribe, events in both directions, a large
// message and the closing handshake, through TLS.
func TestWebSocket(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		w := f.socket()
		f.send(w, `{"type":"subscribe","id":"a","filter":{"session":"s"}}`)
		f.frame(w, "subscribed")
		for seq := range uint64(20) {
			e := relaytest.Event{Session: "s", Seq: seq}.JSON()
			if seq%2 == 0 {
				f.post(e)
			} else {
				f.send(w, e)
			}
			if got := f.frame(w, "progress.status"); got != e {
				t.Fatalf("got %s, want %s", got, e)
			}
		}
		large := relaytest.Padded("s", 20, "", 1<<20).JSON() // R332
		f.send(w, large)
		if got := f.frame(w, "progress.status"); got != large {
			t.Errorf("got %d bytes, want %d", len(got), len(large))
		}
		if err := w.SendClose(1000, "done"); err != nil {
			t.Fatal(err)
		}
		if m := f.message(w); m.Opcode != relaytest.OpClose || m.Code != 1000 {
			t.Errorf("R303: %+v, want Close 1000", m)
		}
		if err := w.AwaitEOF(patience); err != nil {
			t.Errorf("R303: after Close: %v", err)
		}
	})
}

// R300: a refusal of the upgrade comes as an HTTP answer.
func TestWebSocketRefused(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		_, err := relaytest.DialWS(f.front, "/socket", relaytest.WSOptions{Token: "wrong"})
		if err == nil || !strings.Contains(err.Error(), "answered 401") {
			t.Errorf("%v, want the answer 401", err)
		}
	})
}

// R461, R462, R464: the farewell passes, after what was acknowledged before it,
// and the relay drains in time.
func TestFarewellPasses(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		s, w := f.live(), f.socket()
		f.send(w, `{"type":"subscribe","id":"a"}`)
		f.frame(w, "subscribed")
		e := relaytest.Event{Session: "s", Seq: 7}.JSON()
		f.post(e)
		begin := time.Now()
		done := make(chan error, 1)
		go func() { done <- f.shutdown() }()

		if b := f.block(s, "data: "); b.Data != e {
			t.Errorf("R461: acknowledged event: %s", b.Data)
		}
		if b := f.block(s, ":"); b.Raw != ": shutting-down" {
			t.Errorf("R461: %q", b.Raw)
		}
		if _, err := s.Next(patience); errors.Is(err, relaytest.ErrTorn) || !errors.Is(err, io.EOF) {
			t.Errorf("R461: the stream ends with %v, want a regular end", err)
		}
		f.frame(w, "progress.status")
		closing := f.frame(w, "closing")
		if want := `"delivered":[{"sub":"a","session":"s","epoch":0,"seq":7}]`; !strings.Contains(closing, want) {
			t.Errorf("R462: %s, want %s", closing, want)
		}
		m := f.message(w)
		if m.Opcode != relaytest.OpClose || fmt.Sprint(m.Code, " ", m.Reason) != "1001 shutting down" {
			t.Errorf("R462: %+v, want Close 1001", m)
		}
		if err := w.SendClose(1001, ""); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("R464: %v", err)
		}
		t.Logf("drained in %v", time.Since(begin))
	})
}
