package repos

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client"
)

// pipes is a listener whose connections are pipes: what waits for one waits
// without the kernel, so that a simulated clock may go on.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It is called once, by the server.
func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// startPiped is startScript for one connection through a pipe, and returns the
// host.
func startPiped(t *testing.T, live func(w *wire)) *client.Relay {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		live(&wire{conn, r})
	})}
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() { _ = server.Close() })
	relay := at(t, "http://pipe")
	relay.HTTP.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		p.conns <- there
		return here, nil
	}
	return relay
}

// A relay that answers pings is not dead, and neither is one whose frames the
// sink does not take, as when nobody reads a pipe.
func TestLivingRelays(t *testing.T) {
	const frames = 2000
	large := (&firehose.Info{Name: "Large", Message: strings.Repeat("x", 4000)}).Append(nil)
	f := func(name string, host func(*wire), frame func(*firehose.Frame)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				relay := startPiped(t, host)
				c := newCollector()
				c.frame = func(f *firehose.Frame) error { frame(f); return nil }
				begun := time.Now()
				r := startFollow(t, Options{Relay: relay, Count: frames}, c)
				select {
				case err := <-r.done:
					if err != nil || r.got != (Stats{Frames: frames, Connected: 1}) {
						t.Errorf("%v, %+v\n%.500s", err, r.got, c.lines())
					}
				case <-time.After(10 * pingEvery):
					t.Fatalf("Follow does not return\n%.500s", c.lines())
				}
				if took := time.Since(begun); took != 4*pingEvery {
					t.Errorf("it took %v of simulated time, not what was waited", took)
				}
			})
		})
	}
	f("silent", func(w *wire) {
		ctx := w.CloseRead(w.r.Context()) // answers pings
		_ = client.Pause(ctx, 4*pingEvery)
		for i := range int64(frames) {
			w.say(identity(t, i+1))
		}
		<-ctx.Done()
	}, func(*firehose.Frame) {})
	f("not taken", func(w *wire) {
		for i := range int64(frames) {
			w.say(large, identity(t, i+1))
		}
		w.hold()
	}, func(f *firehose.Frame) {
		if f.Seq == 1 {
			time.Sleep(4 * pingEvery) // simulated
		}
	})
}
