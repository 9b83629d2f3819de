package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/client/render"
)

// greet tells what is played, and how to watch it.
func (p *player) greet() {
	p.say("seed %d: %d agents, %g events a second together", p.opts.Fleet.Seed, p.opts.Fleet.Agents, p.opts.Fleet.Rate)
	p.say(`watch with: sluice tail --filter '{"demofleet":"%s"}'`, p.fleet.Tag())
}

// status tells how it goes, in one line; over that it has gone. It counts the
// events that the relay has told are in.
func (p *player) status(over bool) {
	s := p.fleet.Stats()
	var b strings.Builder
	seconds := max(time.Since(p.begun).Seconds(), 0.001)
	accepted, refused := p.counts.accepted.Load(), p.counts.refused.Load()
	fmt.Fprintf(&b, "%d events in (%.1f/s), %d sessions open", accepted, float64(accepted)/seconds, s.Sessions)
	part := func(n int64, what string) {
		if n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, what)
		}
	}
	part(s.Commands, "commands")
	part(int64(s.Paused), "paused")
	part(s.Restarts, "restarts")
	part(refused, "refused")
	if over {
		part(int64(s.Events)-accepted-refused, "lost")
	}
	switch connected := p.counts.connected.Load(); {
	case over:
	case p.opts.HTTP && connected == 0:
		b.WriteString(", not connected")
	case !p.opts.HTTP:
		fmt.Fprintf(&b, ", %d of %d connected", connected, p.opts.Fleet.Agents)
	}
	part(p.counts.reconnects.Load(), "reconnects")
	if text := p.counts.lastError.Swap(nil); text != nil {
		b.WriteString("; last problem: " + *text)
	}
	if w := s.Waiting; w != nil {
		answer := `--values '{"percent":20}'`
		if w.Option != "" {
			answer = "--option " + w.Option
		}
		fmt.Fprintf(&b, "; answer with: sluice control respond --session %s --attention %s %s", w.Session, w.ID, answer)
	}
	p.say("%s", b.String())
}

func (p *player) say(format string, args ...any) {
	if p.opts.Status != nil {
		_, _ = fmt.Fprintf(p.opts.Status, "sluice demo: "+format+"\n", args...)
	}
}

// maxProblem is how much of a text from outside a status line shows.
const maxProblem = 200

// clean makes a text from outside fit for a terminal, and short.
func clean(text string) string {
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return render.Escape(text)
}
