package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const deviceWatchHelp = `Keeps the device in sync until it is interrupted, and prints each change of a row as
it comes, from here or from elsewhere:

   sluice device watch
   sluice device watch --json | jq .row

A line has the time of the edit, the table, the id and the row, or "deleted". With
--json each line is an object, whose member change counts what this device applied.
To print also what changed since a run that ended:

   sluice device watch --json --after 4711

A row that changes several times in between is printed with its last state.

Rows that other commands write to the same directory are sent at once. A relay that
is down, or asks for a pause, is tried again for ever; what goes wrong is said on
standard error, the same every five minutes at most. A relay that lost its data gets
everything again.

Exit codes: 0 ended by a signal or by the reader of a pipe, 1 failed, 78 the command
line is wrong.`

func (a *app) deviceWatchCommand() *cli.Command {
	return a.devicePart("watch", "keep in sync, and print changes as they come", "", deviceWatchHelp, (*deviceRun).watch,
		&cli.BoolFlag{Name: flagDeviceBlobs, Usage: "fetch the content of all attached files too"},
		&cli.Int64Flag{Name: flagDeviceAfter, Usage: "begin after this `CHANGE`; 0 is with all rows", DefaultText: "what is new"},
		deviceJSONFlag("print one object a line"))
}

func (r *deviceRun) watch(ctx context.Context) error {
	if _, err := r.arguments(0, 0); err != nil {
		return err
	}
	after := int64(-1) // what is new
	if r.cmd.IsSet(flagDeviceAfter) {
		if after = r.cmd.Int64(flagDeviceAfter); after < 0 {
			return r.usage("--%s is at least 0", flagDeviceAfter)
		}
	}
	return r.with(func(d *device.Device) error {
		s, err := d.Status()
		if err != nil {
			return err
		}
		r.say("relays followed: %d; interrupt to end", len(s.Relays))
		return r.follow(ctx, d, after)
	})
}

// follow prints changes until the context or the reader of the output ends.
func (r *deviceRun) follow(ctx context.Context, d *device.Device, after int64) error {
	follow, stop := context.WithCancel(ctx)
	defer stop()
	line := r.rowPrinter(r.cmd.Bool(flagDeviceJSON), true)
	err := d.Follow(follow, device.FollowOptions{
		Blobs: r.cmd.Bool(flagDeviceBlobs), After: after,
		Change: func(row devicestore.Row) {
			if r.out.err == nil && r.writeRow(line, row) != nil {
				stop()
			}
		},
	})
	switch {
	case r.out.err != nil:
		return r.out.err
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return nil
	}
	return err
}
