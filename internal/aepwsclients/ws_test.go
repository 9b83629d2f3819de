package aepwsclients

import (
	"fmt"
	"testing"

	"github.com/sluice-relay/sluice/internal/nodetest"
)

// node starts the script by Node with ws.
func node(t *testing.T, s settings) *client {
	t.Helper()
	script := nodetest.Run(t, clients.Modules(t), s, "ws.mjs", "agent.mjs")
	return &client{t: t, read: func(l *line) { script.Next(l) }}
}

// TestWS is section 10 with the npm package ws.
func TestWS(t *testing.T) {
	clients.Modules(t)
	t.Run("emits and replays", func(t *testing.T) { emitsAndReplays(t, node) })
	t.Run("resumes", func(t *testing.T) { resumes(t, node) })
	t.Run("emits through cuts", func(t *testing.T) { emitsThroughCuts(t, node) })
	t.Run("relay restarts", func(t *testing.T) { relayRestarts(t, node) })
}

// TestWSRefused: B3 and B7: what is refused is so for a client too.
func TestWSRefused(t *testing.T) {
	clients.Modules(t)
	s := startSource(t, t.TempDir(), "0")
	f := func(rule string, status int, change func(*settings)) {
		t.Helper()
		with := session(url(s.relay.Addr()))
		change(&with)
		c := node(t, with)
		if l := c.next(); l.Event != "error" || l.Text != fmt.Sprint("Unexpected server response: ", status) {
			t.Errorf("%s: %+v", rule, l)
		}
		c.lost()
	}
	f("B3: none", 400, func(s *settings) { s.Protocols = []string{} })
	f("B3: another", 400, func(s *settings) { s.Protocols = []string{"aep-0.2", "harmovela-0.2"} })
	f("B7", 401, func(s *settings) { s.URL += "x" })
	c := node(t, func() settings { // B2: among others
		with := session(url(s.relay.Addr()))
		with.Protocols = []string{"aep-0.2", subprotocol}
		return with
	}())
	c.opened()
}
