package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/internal/demo/fleet"
)

// What stays refused ends the run and says why.
func TestRefusalIsFinal(t *testing.T) {
	withToken, _ := startRelay(t, testToken)
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	for _, c := range []struct{ name, addr, token, want string }{
		{"no token", withToken, "", "it wants a token: set AEP_TOKEN"},
		{"wrong token", withToken, "wrong", "it wants another token: set AEP_TOKEN"},
		{"not a relay", notFound.URL, "", "404"},
	} {
		for _, http := range []bool{false, true} {
			wait, _ := play(t, Options{
				Relay: newClient(t, c.addr, c.token), Fleet: fleet.Config{Agents: 3, Rate: 100}, HTTP: http,
			})
			if err := wait(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, HTTP %v: %v, want %s", c.name, http, err, c.want)
			}
		}
	}
	wait, _ := play(t, Options{Relay: newClient(t, withToken, ""), Fleet: fleet.Config{Agents: -1, Rate: 1}})
	if err := wait(); !errors.Is(err, fleet.ErrConfig) {
		t.Errorf("bad fleet: %v", err)
	}
}

// D3: whatever the relay does, or does not.
func TestEndsWhateverTheRelayDoes(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	accept := func(serve func(context.Context, *websocket.Conn)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			ctx, cancel := context.WithCancel(over) // r's own is of no use any more
			defer cancel()
			serve(ctx, c)
		})
	}
	hang := func(ctx context.Context) { <-ctx.Done() }
	handlers := map[string]http.Handler{
		"hangs":       http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hang(over) }),
		"unavailable": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }),
		"never says hello": accept(func(ctx context.Context, c *websocket.Conn) {
			c.SetReadLimit(-1)
			for _, _, err := c.Read(ctx); err == nil; _, _, err = c.Read(ctx) {
			}
		}),
		"says nonsense": accept(func(ctx context.Context, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageText, []byte("\x1b[31m{"))
		}),
		"never confirms": accept(func(ctx context.Context, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"hello"}`))
			for _, _, err := c.Read(ctx); err == nil; _, _, err = c.Read(ctx) {
			}
		}),
		"does not read": accept(func(ctx context.Context, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"hello"}`))
			hang(ctx)
		}),
		"floods": accept(func(ctx context.Context, c *websocket.Conn) {
			err := c.Write(ctx, websocket.MessageText, []byte(`{"type":"hello"}`))
			for err == nil {
				err = c.Write(ctx, websocket.MessageText, []byte(`{"type":"control.pause","id":"c","source":"s","session":"s"}`))
			}
		}),
	}
	for name, handler := range handlers {
		for _, http := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP %v", name, http), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(handler)
				// Its handlers end with the last of these tests, so it is not waited for.
				t.Cleanup(func() { _ = server.Listener.Close(); server.CloseClientConnections() })
				status := &statusLog{}
				wait, _ := play(t, Options{
					Relay: newClient(t, server.URL, testToken), Fleet: fleet.Config{Agents: 2, Rate: 2000},
					Duration: 500 * time.Millisecond, HTTP: http, Status: status, Interval: 50 * time.Millisecond, last: time.Second,
				})
				begin := time.Now()
				if err := wait(); !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNothing) {
					t.Errorf("%v, though no event got in", err)
				}
				// Without a bound of the end it is that of a write, 10 s, or longer.
				if took := time.Since(begin); took >= writeTimeout {
					t.Errorf("D3: ended after %v", took)
				}
				if strings.Contains(status.String(), "\x1b") {
					t.Errorf("status:\n%q", status)
				}
			})
		}
	}
}
