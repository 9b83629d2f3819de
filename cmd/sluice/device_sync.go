package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/device"
)

// lineEvery is the least time between two changes of the line of progress.
const lineEvery = 100 * time.Millisecond

const deviceSyncHelp = `Sends what the relays do not have, and fetches what is new there, until both are
done:

   sluice device sync
   sluice device sync --blobs --json

It tries at once, also when a relay asked for a pause. With several relays all are
asked at the same time, and one's failure does not stop the others. With --blobs the
content of attached files is fetched too, not just their rows.

A relay that lost its data, or was restored from a copy, gets everything again.

Events that cannot be decrypted, or are of another owner, are counted and skipped:
"sluice device status" tells of them.

Exit codes: 0 all relays are in sync, 1 one failed: what and why is said, and what
to do. 78 the command line is wrong.`

func (a *app) deviceSyncCommand() *cli.Command {
	return a.devicePart("sync", "exchange with the relays once", "", deviceSyncHelp, (*deviceRun).sync,
		&cli.BoolFlag{Name: flagDeviceBlobs, Usage: "fetch the content of all attached files too"},
		deviceJSONFlag("print one JSON object"))
}

func (r *deviceRun) sync(ctx context.Context) error {
	if _, err := r.arguments(0, 0); err != nil {
		return err
	}
	return r.with(func(d *device.Device) error { return r.syncNow(ctx, d) })
}

// syncIfAsked syncs after another command with --sync.
func (r *deviceRun) syncIfAsked(ctx context.Context, d *device.Device) error {
	if !r.cmd.Bool(flagDeviceSync) {
		return nil
	}
	return r.syncNow(ctx, d)
}

// syncNow syncs, shows how far it is, and prints what came of it.
func (r *deviceRun) syncNow(ctx context.Context, d *device.Device) error {
	line := r.startSyncLine()
	report, err := d.Sync(ctx, device.SyncOptions{Progress: line.progress, Blobs: r.cmd.Bool(flagDeviceBlobs)})
	line.end()
	if len(report.Relays) == 0 {
		return err
	}
	var printed error
	switch {
	case r.cmd.Name != "sync": // standard output is of the command before
		for _, relay := range report.Relays {
			r.say("%s", reportText(relay))
		}
	case r.cmd.Bool(flagDeviceJSON):
		printed = r.printJSONTo(reportOf(report))
	default:
		for _, relay := range report.Relays {
			if _, printed = fmt.Fprintln(r.out, render.Escape(reportText(relay))); printed != nil {
				break
			}
		}
	}
	if printed != nil {
		return printed
	}
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	failed := 0
	for _, relay := range report.Relays {
		if relay.Err != nil {
			failed++
			r.say("%s: %s", relay.Relay, r.explain(relay.Err))
		}
	}
	if failed == 0 {
		return err
	}
	// What is no relay's stands behind the relays' errors.
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, other := range all.Unwrap()[failed:] {
			r.say("%s", r.explain(other))
		}
	}
	return fmt.Errorf("not in sync with %d of %d relays", failed, len(report.Relays))
}

// reportText says what a sync did with one relay.
func reportText(relay device.RelayReport) string {
	text := fmt.Sprintf("%s: sent %d, received %d, rows changed %d", relay.Relay, relay.Pushed, relay.Pulled, relay.Rows)
	for _, of := range []struct {
		n    int64
		what string
	}{{relay.Deferred, "for later"}, {relay.Refused, "refused"}} {
		if of.n > 0 {
			text += fmt.Sprintf(", %s %d", of.what, of.n)
		}
	}
	if relay.Reseeded {
		text += ", it had lost its data and got everything again"
	}
	if relay.Err != nil {
		text += ", not finished"
	}
	return text
}

// relayReport is what a sync did with one relay, as --json prints it.
type relayReport struct {
	URL      string `json:"url"`
	OK       bool   `json:"ok"`
	Pushed   int64  `json:"pushed"`
	Pulled   int64  `json:"pulled"`
	Rows     int64  `json:"rows"`
	Deferred int64  `json:"deferred"`
	Refused  int64  `json:"refused"`
	Reseeded bool   `json:"reseeded"`
	Error    string `json:"error,omitempty"`
}

// reportOf is a report as --json prints it.
func reportOf(report device.Report) any {
	relays := make([]relayReport, 0, len(report.Relays))
	for _, of := range report.Relays {
		relay := relayReport{
			URL: of.Relay, OK: of.Err == nil, Pushed: of.Pushed, Pulled: of.Pulled, Rows: of.Rows,
			Deferred: of.Deferred, Refused: of.Refused, Reseeded: of.Reseeded,
		}
		if of.Err != nil {
			relay.Error = of.Err.Error()
		}
		relays = append(relays, relay)
	}
	return struct {
		Relays []relayReport `json:"relays"`
	}{relays}
}

// syncLine shows how far a sync is with each relay, in one line of a terminal.
type syncLine struct {
	// Immutable after construction.
	look render.Options

	mu sync.Mutex
	// Guarded by mu.
	to     *os.File                   // nil if nobody looks
	relays []string                   // in order of their first progress
	last   map[string]device.Progress // of each of relays
	shown  time.Time                  // zero: not yet
}

// startSyncLine returns the line on standard error, if that is a terminal. say
// makes room for its own lines until the end.
func (r *deviceRun) startSyncLine() *syncLine {
	r.line = &syncLine{to: terminal(r.stderr), look: r.look(true), last: map[string]device.Progress{}}
	return r.line
}

// progress takes what is done at a relay. Any goroutine.
func (s *syncLine) progress(p device.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		return
	}
	if _, known := s.last[p.Relay]; !known {
		s.relays = append(s.relays, p.Relay)
	}
	s.last[p.Relay] = p
	if now := time.Now(); now.Sub(s.shown) >= lineEvery {
		s.shown = now
		fmt.Fprintf(s.to, "\r\x1b[K%s", s.line())
	}
}

// line is the text of the line.
func (s *syncLine) line() []byte {
	p := render.NewPen(nil, s.look.Width, false)
	for i, relay := range s.relays {
		if i > 0 {
			p.Put(render.Plain, "; ")
		}
		p.Put(render.Plain, progressText(s.last[relay]))
	}
	return p.End()
}

// progressText is how far one relay is, for people.
func progressText(p device.Progress) string {
	text := p.Phase + " " + strconv.FormatInt(p.Done, 10)
	if p.Total > p.Done { // else the end is not known yet
		text += " of " + strconv.FormatInt(p.Total, 10)
	}
	if p.Relay != "" {
		text = p.Relay + ": " + text
	}
	return text
}

// clear makes room for a line of others; this one comes back with the next
// progress. Any goroutine.
func (s *syncLine) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to != nil && !s.shown.IsZero() {
		fmt.Fprint(s.to, "\r\x1b[K")
	}
}

// end takes the line away. Progress that comes later is not shown.
func (s *syncLine) end() {
	s.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = nil
}
