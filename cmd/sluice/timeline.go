package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/client/timeline"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// Flags of timeline.
const (
	flagTimelineFile = "file"
	flagTimelineJSON = "json"
	flagTimelineAll  = "all"
	flagTimelineUTC  = "utc"
)

// namedSessions is how many sessions are named when the asked one is not in a
// file.
const namedSessions = 10

const timelineHelp = `Show what happened in one session, as far as the relay still holds it:

   sluice timeline SESSION
   sluice timeline SESSION --url https://relay.example

The same from a file of events, one a line, or from standard input:

   sluice timeline SESSION --file events.ndjson
   zcat events.ndjson.gz | sluice timeline SESSION --file -

Runs hold their steps, tool calls, questions and events, each with the time of
its beginning, how it stands, and how long it took:

   10:15:12.000 run r_0043 failed 2s -> tool_error: io_error | user
   10:15:13.000   step turn-1
   10:15:13.000     tool Write failed 310ms -> io_error: no space left on device
   10:15:21.000   attention permission still open | May I? [allow|deny] id=01JX

What begins and does not end is "still open", or "no end seen" when what it
belongs to is over. A restart of the agent (a new epoch) and events that are
missing are said where they are. Commands are not held by a relay, so only a
file may have them.

Exit status: 0 shown, 1 the session or the relay is not there, 78 the command
line is wrong.`

// timelineCommand shows one session.
func (a *app) timelineCommand() *cli.Command {
	return &cli.Command{
		Name:            "timeline",
		Usage:           "show one session as a tree of runs, steps and tools",
		ArgsUsage:       "SESSION",
		Description:     timelineHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: append(
			relayFlags(),
			&cli.StringFlag{
				Name: flagTimelineFile, Usage: "read the events from a file instead, - for standard input",
				DefaultText: "none",
			},
			&cli.BoolFlag{Name: flagTimelineJSON, Usage: "print the tree as JSON"},
			&cli.BoolFlag{Name: flagTimelineAll, Usage: "print each of many events of one type in a row"},
			&cli.BoolFlag{Name: flagTimelineUTC, Usage: "print times in UTC, not in local time"},
		),
		Action: a.runTimeline,
	}
}

// runTimeline reads one session and prints it.
func (a *app) runTimeline(ctx context.Context, cmd *cli.Command) error {
	session := cmd.Args().First()
	switch {
	case session == "":
		return cmdline.UsageError{Err: fmt.Errorf("which session: see %s --help", cmd.FullName())}
	case cmd.Args().Len() > 1:
		return cmdline.UsageError{Err: fmt.Errorf("%s takes one session, got %q too", cmd.FullName(), cmd.Args().Get(1))}
	case cmd.IsSet(flagTimelineFile) && cmd.IsSet(flagURL):
		return cmdline.UsageError{Err: fmt.Errorf("--%s and --%s exclude each other", flagTimelineFile, flagURL)}
	}
	b := timeline.New(session)
	var err error
	if cmd.IsSet(flagTimelineFile) {
		err = a.timelineFile(b, session, cmd.String(flagTimelineFile), cmd.Root().Reader)
	} else {
		err = a.timelineRelay(ctx, cmd, b, session)
	}
	if err != nil {
		return err
	}
	t := b.Timeline()
	if cmd.Bool(flagTimelineJSON) {
		out := json.NewEncoder(a.stdout)
		out.SetEscapeHTML(false)
		return out.Encode(t)
	}
	o := timeline.TextOptions{Options: a.look(cmd.Bool(flagTimelineUTC)), All: cmd.Bool(flagTimelineAll)}
	_, err = a.stdout.Write(t.AppendText(nil, o))
	return err
}

// timelineRelay reads the session from the relay. A replay that is cut off is
// shown as far as it came.
func (a *app) timelineRelay(ctx context.Context, cmd *cli.Command, b *timeline.Builder, session string) error {
	relay, err := a.relay(cmd)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch err = b.Fetch(ctx, relay); {
	case err != nil && b.Len() > 0 && !errors.Is(err, context.Canceled):
		fmt.Fprintf(a.stderr, "sluice timeline: not all of it: %v\n", err)
	case err != nil:
		return fmt.Errorf("timeline: %w", err)
	case b.Len() == 0:
		return fmt.Errorf("timeline: %s holds nothing of session %q", relay, session)
	}
	return nil
}

// timelineFile reads the session from a file.
func (a *app) timelineFile(b *timeline.Builder, session, name string, stdin io.Reader) error {
	in, shown := stdin, "stdin"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("timeline: %w", err)
		}
		defer f.Close()
		in, shown = f, name
	}
	found, err := b.Read(in)
	if err != nil {
		return fmt.Errorf("timeline: %s: %w", shown, err)
	}
	if found.Bad > 0 {
		fmt.Fprintf(a.stderr, "sluice timeline: %s: %d lines are no events, the first is line %d: see sluice validate\n",
			render.Escape(shown), found.Bad, found.FirstBad)
	}
	if b.Len() > 0 {
		return nil
	}
	others := ""
	if n := len(found.Others); n > 0 {
		others = "; it has " + render.Escape(strings.Join(found.Others[:min(n, namedSessions)], ", "))
		if n > namedSessions {
			others += " and others"
		}
	}
	return fmt.Errorf("timeline: %s has nothing of session %q%s", shown, session, others)
}
