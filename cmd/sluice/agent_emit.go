package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/agent"
	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

const agentEmitHelp = `Publishes the events of a file, or of standard input, one JSON object a line:

   sluice agent emit events.ndjson
   echo '{"type":"task.progress","payload":{"percent":5}}' | sluice agent emit -

What a line leaves out is filled in: the version, an id, --source, the time, and
delivery with --mode. A line must have a type and a payload.

The relay acknowledges an event once it is on its disk. Some hundreds of events may
be on their way without an acknowledgement; when the connection is lost, these are
sent again with the same ids, and the relay takes each in once. Sending a file
twice does no harm either, if its lines have ids, as long as the relay holds them.
A line of mode best_effort is sent once and has no acknowledgement.

A line that the relay refuses is reported on standard error as FILE:LINE: reason;
the others are sent. So is a line that is no event, or of the families session,
subscription, event or capabilities, or longer than the relay takes: these are not
even sent. A line that the relay cannot take at the moment is tried 10 times, and
may end up behind others.

The first SIGINT or SIGTERM ends the input, and what was read is sent within 5 s; a
second one ends it at once.

The token comes from AEPWS_TOKEN or a file, since everyone sees the arguments of a
process.

Exit status: 0 all events are acknowledged, or sent if they are of mode
best_effort; 1 failed; 3 some lines were refused and all others are in; 78 the
command line is wrong. A relay that is not there, or full (503), is tried again for
ever.`

// agentEmitCommand publishes lines.
func (a *app) agentEmitCommand() *cli.Command {
	return &cli.Command{
		Name:            "emit",
		Usage:           "publish events, one JSON object a line",
		ArgsUsage:       "FILE|-",
		Description:     agentEmitHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: append(
			agentFlags(),
			&cli.StringFlag{Name: flagAgentSource, Usage: "`SOURCE` of lines without one", Value: agent.DefaultSource},
			&cli.StringFlag{
				Name: flagAgentMode, Usage: "`MODE` of lines without a delivery: best_effort, at_least_once or replayable",
				DefaultText: "none",
			},
		),
		Action: a.runAgentEmit,
	}
}

// runAgentEmit publishes one input.
func (a *app) runAgentEmit(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Len() != 1 {
		return cmdline.UsageError{Err: fmt.Errorf("%s takes one file, or - for standard input", cmd.FullName())}
	}
	peer, err := a.agentPeer(cmd)
	if err != nil {
		return err
	}
	if err := notEmpty(cmd, flagAgentSource); err != nil {
		return cmdline.UsageError{Err: err}
	}
	o := agent.PublishOptions{Peer: peer, Source: cmd.String(flagAgentSource)}
	if o.Mode, err = agentMode(cmd); err != nil {
		return err
	}
	name, input := "stdin", cmd.Root().Reader
	if file := cmd.Args().First(); file != "-" {
		name = render.Escape(file)
		f, err := os.Open(file)
		if err != nil {
			return errors.New("agent emit: " + render.Escape(err.Error()))
		}
		defer func() { _ = f.Close() }() // only read from
		input = f
	}
	ctx, stop, release := catchEmitSignals(ctx)
	defer release()
	o.Stop = stop
	o.Refused = func(line int64, reason string) { fmt.Fprintf(a.stderr, "%s:%d: %s\n", name, line, reason) }
	o.Notice = func(n agent.Notice) { fmt.Fprintf(a.stderr, "sluice agent emit: %s\n", n) }
	begun := time.Now()
	stats, err := agent.Publish(ctx, input, o)
	took := max(time.Since(begun).Seconds(), 1e-3)
	fmt.Fprintf(a.stderr, "sluice agent emit: %d events acknowledged, %d sent as best_effort, %d refused, %.2f s, %.0f events/s\n",
		stats.Acknowledged, stats.BestEffort, stats.Refused, took, float64(stats.Acknowledged+stats.BestEffort)/took)
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("agent emit %s: interrupted before everything was acknowledged", name)
	case errors.Is(err, agent.ErrInput):
		return fmt.Errorf("agent emit %s: %s", name, render.Escape(err.Error()))
	case err != nil:
		return agentError(cmd, "agent emit "+name, err)
	case stats.Refused > 0:
		return cli.Exit("", exitRefused)
	}
	return nil
}
