package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const deviceStatusHelp = `Prints what the device holds, and how it is with each relay:

   sluice device status
   sluice device status --json

No relay is asked: it is what the last exchange left. A relay is

   synced       it has all, and this device has all of it
   pending      so many events or files wait to be sent, or it was never synced;
                sync or watch does it
   backing off  the last attempt failed; watch tries again at the time that is said,
                sync at once
   reseeding    it lost its data and gets everything again
   closed       the owner is closed there: see "sluice device rekey --help"

Refused are events that were not applied: of another owner, changed on the way, or
not to be understood; withheld ones are events that the relay took and does not give
back. One that is refused does not hold up the others.`

func (a *app) deviceStatusCommand() *cli.Command {
	return a.devicePart("status", "print what is held, and how it is with each relay", "", deviceStatusHelp, (*deviceRun).status,
		deviceJSONFlag("print one JSON object"))
}

func (r *deviceRun) status(context.Context) error {
	if _, err := r.arguments(0, 0); err != nil {
		return err
	}
	dir, err := r.dir()
	if err != nil {
		return err
	}
	return r.with(func(d *device.Device) error {
		of, err := d.Status()
		if err != nil {
			return err
		}
		s := statusFrom(dir, of)
		if r.cmd.Bool(flagDeviceJSON) {
			return r.printJSONTo(s)
		}
		_, err = r.out.Write(s.text(r.look(true), time.Now()))
		return err
	})
}

// deviceStatus is a status as --json prints it. Times that are not known are left
// out.
type deviceStatus struct {
	Directory string        `json:"directory"`
	Owner     string        `json:"owner"`
	Device    string        `json:"device"`
	Rows      int64         `json:"rows"`
	Deleted   int64         `json:"deleted"`
	Pending   int64         `json:"pending"`
	Deferred  int64         `json:"deferred"`
	NextDue   *time.Time    `json:"nextDue,omitempty"`
	Relays    []relayStatus `json:"relays"`
}

// relayStatus is how it is with one relay.
type relayStatus struct {
	URL        string        `json:"url"`
	State      string        `json:"state"` // synced, pending, backing off, reseeding or closed
	Owed       int64         `json:"owed"`  // events to send
	Unseen     int64         `json:"unseen"`
	Blobs      int64         `json:"blobs"` // files to send
	SyncedAt   *time.Time    `json:"syncedAt,omitempty"`
	Reseeds    int           `json:"reseeds"` // how often it got everything again
	UsedBytes  int64         `json:"usedBytes"`
	QuotaBytes int64         `json:"quotaBytes"`
	Push       laneStatus    `json:"push"`
	Pull       laneStatus    `json:"pull"`
	Files      laneStatus    `json:"files"` // of a relay without room for them
	Refused    []refusedText `json:"refused"`
}

// laneStatus is why and until when a direction waits.
type laneStatus struct {
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// refusedText is what was refused for one reason.
type refusedText struct {
	Reason    string     `json:"reason"`
	Count     int64      `json:"count"`
	LastEvent string     `json:"lastEvent,omitempty"`
	LastAt    *time.Time `json:"lastAt,omitempty"`
}

// statusFrom is a device's status as --json prints it.
func statusFrom(dir string, of device.Status) deviceStatus {
	s := deviceStatus{
		Directory: dir, Owner: of.Owner, Device: of.Device, Rows: of.Rows, Deleted: of.Tombstones,
		Pending: of.Pending, Deferred: of.Deferred, NextDue: known(of.NextDue), Relays: []relayStatus{},
	}
	for _, r := range of.Relays {
		relay := relayStatus{
			URL: r.URL, State: r.State, Owed: r.Owed, Unseen: r.Unseen, Blobs: r.Blobs, SyncedAt: known(r.SyncedAt),
			Reseeds: r.Reseeds, UsedBytes: r.UsedBytes, QuotaBytes: r.QuotaBytes,
			Push: laneFrom(r.Push), Pull: laneFrom(r.Pull), Files: laneFrom(r.BlobPause), Refused: []refusedText{},
		}
		for _, c := range r.Refusals {
			relay.Refused = append(relay.Refused, refusedText{Reason: c.Reason, Count: c.Count, LastEvent: c.LastEvent, LastAt: known(c.LastAt)})
		}
		s.Relays = append(s.Relays, relay)
	}
	return s
}

// known returns nil for a time that is not known.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func laneFrom(l devicestore.Lane) laneStatus {
	return laneStatus{Until: known(l.Until), Reason: l.Reason}
}

// text writes a status for people. What came from a relay is escaped.
func (s deviceStatus) text(look render.Options, now time.Time) []byte {
	var out []byte
	line := func(style render.Style, name, format string, args ...any) {
		p := render.NewPen(out, 0, look.Color)
		p.Put(render.Plain, name)
		p.Pad(10)
		p.Word(style, fmt.Sprintf(format, args...))
		out = append(p.End(), '\n')
	}
	line(render.Plain, "device", "%s", s.Device)
	line(render.Plain, "owner", "%s", s.Owner)
	line(render.Plain, "directory", "%s", s.Directory)
	line(render.Plain, "rows", "%d", s.Rows)
	line(render.Plain, "deleted", "%d remembered", s.Deleted)
	if s.Deferred > 0 {
		line(render.Yellow, "deferred", "%d, %s", s.Deferred, s.deferredText())
	}
	if len(s.Relays) == 0 {
		line(render.Yellow, "relay", "none: \"sluice device relay add URL\"")
	}
	for _, relay := range s.Relays {
		line(relay.style(), "relay", "%s: %s", relay.URL, relay.text())
		for _, text := range relay.waits(now) {
			line(render.Yellow, "", "%s", text)
		}
		if relay.QuotaBytes > 0 {
			line(render.Plain, "", "used %s of %s there", sizeText(relay.UsedBytes), sizeText(relay.QuotaBytes))
		}
		for _, of := range relay.Refused {
			line(render.Yellow, "", "refused %d as %s%s", of.Count, of.Reason, of.last())
		}
	}
	return out
}

// deferredText says until when the deferred events wait.
func (s deviceStatus) deferredText() string {
	if s.NextDue == nil {
		return "until a newer version of this program"
	}
	return "the next until " + timeText(s.NextDue)
}

// style is the colour of a relay's line.
func (r relayStatus) style() render.Style {
	switch r.State {
	case device.StateSynced:
		return render.Green
	case device.StateClosed:
		return render.Alarm
	}
	return render.Yellow
}

// text says how it is with a relay.
func (r relayStatus) text() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch r.State {
	case device.StateSynced:
		add("synced %s", timeText(r.SyncedAt))
	case device.StateClosed:
		add("closed, the owner has another phrase: \"sluice device rekey\"")
	default:
		add("%s", r.State)
	}
	for _, of := range []struct {
		n    int64
		what string
	}{{r.Owed, "to send"}, {r.Blobs, "files to send"}, {r.Unseen, "sent and not yet handed back"}} {
		if of.n > 0 {
			add("%d %s", of.n, of.what)
		}
	}
	if r.State != device.StateSynced && r.SyncedAt != nil {
		add("last synced %s", timeText(r.SyncedAt))
	} else if r.State == device.StatePending {
		add("never synced")
	}
	return strings.Join(parts, ", ")
}

// waits says what waits until when, and why. A closed relay is not waited for.
func (r relayStatus) waits(now time.Time) []string {
	if r.State == device.StateClosed {
		return nil
	}
	type wait struct {
		what string
		lane laneStatus
	}
	list := []wait{{"sending", r.Push}, {"receiving", r.Pull}, {"sending files", r.Files}}
	if r.Push.Reason == r.Pull.Reason {
		list = []wait{{"all", r.Push}, {"sending files", r.Files}}
	}
	var texts []string
	for _, w := range list {
		switch {
		case w.lane.Until != nil && w.lane.Until.After(now):
			texts = append(texts, fmt.Sprintf("%s waits until %s: %s", w.what, timeText(w.lane.Until), w.lane.Reason))
		case w.lane.Reason != "":
			texts = append(texts, fmt.Sprintf("%s failed: %s", w.what, w.lane.Reason))
		}
	}
	return texts
}

// last says what was refused last.
func (r refusedText) last() string {
	text := ""
	if r.LastEvent != "" {
		text = ", last " + r.LastEvent
	}
	if r.LastAt != nil {
		text += " at " + timeText(r.LastAt)
	}
	return text
}

// timeText is a time for people, in UTC; "never" if it is not known.
func timeText(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}
