package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/demo"
	"github.com/sluice-relay/sluice/internal/demo/fleet"
)

// Flags of demo.
const (
	flagDemoAgents   = "agents"
	flagDemoRate     = "rate"
	flagDemoDuration = "duration"
	flagDemoSeed     = "seed"
	flagDemoHTTP     = "http"
)

const demoHelp = `A fleet of made-up agents works at a relay: they have sessions with runs, steps
and tool calls (some fail, some take long), tell of their progress, ask humans,
fail, hand work to sub-agents, and now and then one starts anew, in a new epoch.
All events are valid, and none is of a real agent.

Two terminals:

   sluice serve
   sluice demo

and see it in a third:

   sluice tail

Only what this fleet publishes (the tag is told at the start):

   sluice tail --filter '{"demofleet":"7f3a"}'

With a token on relay and fleet the agents obey commands. Some of their questions
then wait for you, until they expire; the line of status tells how to answer:

   AEP_TOKEN=secret sluice serve
   AEP_TOKEN=secret sluice demo
   AEP_TOKEN=secret sluice control pause --session coder-1.7f3a.1

More of it, for half a minute, the same each time:

   sluice demo --agents 50 --rate 500 --duration 30s --seed 1

The same seed gives the same events, ids too, so that a relay and its followers
take a second run for a repetition of the first.

Events go over a WebSocket for each agent, or by POST with --http (then no
command reaches them). While the relay is away the fleet waits for it. It ends
after --duration or at SIGINT or SIGTERM: the agents end their sessions first,
if the relay is there.

While it plays and at its end it tells how many events the relay has taken.

Exit codes: 0 played, 1 the relay refuses or took no event, 78 command line or
environment.`

// demoCommand plays a fleet of agents.
func (a *app) demoCommand() *cli.Command {
	return &cli.Command{
		Name:            "demo",
		Usage:           "let made-up agents publish to a relay",
		Description:     demoHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: append(
			relayFlags(),
			&cli.IntFlag{Name: flagDemoAgents, Usage: "how `MANY` agents, 1 to " + strconv.Itoa(fleet.MaxAgents), Value: 6},
			&cli.FloatFlag{
				Name: flagDemoRate, Value: 5,
				Usage: "events a `SECOND`, of all together, at most " + strconv.Itoa(fleet.MaxRate),
			},
			&cli.DurationFlag{Name: flagDemoDuration, Usage: "how `LONG` to play", DefaultText: "until it is ended"},
			&cli.Uint64Flag{Name: flagDemoSeed, Usage: "the `NUMBER` that decides all that is drawn", DefaultText: "another each time"},
			&cli.BoolFlag{Name: flagDemoHTTP, Usage: "send by POST instead of WebSockets"},
		),
		Action: a.runDemo,
	}
}

func (a *app) runDemo(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	relay, err := a.relay(cmd)
	if err != nil {
		return err
	}
	seed := cmd.Uint64(flagDemoSeed)
	if !cmd.IsSet(flagDemoSeed) {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails
		seed = binary.LittleEndian.Uint64(b[:])
	}
	duration := cmd.Duration(flagDemoDuration)
	if cmd.IsSet(flagDemoDuration) && duration < time.Second {
		return cmdline.UsageError{Err: fmt.Errorf("--%s is less than 1s", flagDemoDuration)}
	}
	o := demo.Options{
		Relay:    relay,
		Fleet:    fleet.Config{Seed: seed, Agents: cmd.Int(flagDemoAgents), Rate: cmd.Float(flagDemoRate)},
		Duration: duration, HTTP: cmd.Bool(flagDemoHTTP), Status: a.stderr,
	}
	if err := o.Fleet.Validate(); err != nil {
		return cmdline.UsageError{Err: err}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := demo.Run(ctx, o); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}
