package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/device"
)

const deviceRelayHelp = `Says over which relays the device syncs:

   sluice device relay add https://relay.example
   sluice device relay list
   sluice device relay remove https://relay.example

With several, each gets everything, and one that is down is caught up later. A new
one gets all current rows with the next sync. Nothing is asked of a relay by these
commands. Removing one deletes nothing there.`

func (a *app) deviceRelayCommand() *cli.Command {
	return &cli.Command{
		Name:            "relay",
		Usage:           "add, remove and list the device's relays",
		Description:     deviceRelayHelp,
		HideHelpCommand: true,
		OnUsageError:    deviceUsageError,
		Commands: []*cli.Command{
			a.devicePart("add", "sync over one more relay", "URL", deviceRelayHelp, (*deviceRun).relayAdd),
			a.devicePart("remove", "sync over a relay no more", "URL", deviceRelayHelp, (*deviceRun).relayRemove),
			a.devicePart("list", "print the relays, one a line", "", deviceRelayHelp, (*deviceRun).relayList),
		},
		Action: sayWhichCommand("add, remove or list"),
	}
}

func (r *deviceRun) relayAdd(context.Context) error {
	args, err := r.arguments(1, 1)
	if err != nil {
		return err
	}
	if err := r.checkRelay(args[0]); err != nil {
		return err
	}
	return r.with(func(d *device.Device) error { return d.AddRelay(args[0]) })
}

func (r *deviceRun) relayRemove(context.Context) error {
	args, err := r.arguments(1, 1)
	if err != nil {
		return err
	}
	return r.with(func(d *device.Device) error { return d.RemoveRelay(args[0]) })
}

func (r *deviceRun) relayList(context.Context) error {
	if err := cmdline.NoArguments(r.cmd); err != nil {
		return err
	}
	return r.with(func(d *device.Device) error {
		s, err := d.Status()
		if err != nil {
			return err
		}
		for _, relay := range s.Relays {
			if _, err := fmt.Fprintln(r.out, render.Escape(relay.URL)); err != nil {
				return err
			}
		}
		return nil
	})
}
