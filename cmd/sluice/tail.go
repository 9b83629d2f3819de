package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/follow"
	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// Flags of tail.
const (
	flagTailSession  = "session"
	flagTailAgent    = "agent"
	flagTailType     = "type"
	flagTailSeverity = "severity"
	flagTailCapture  = "capture"
	flagTailFilter   = "filter"
	flagTailSince    = "since"
	flagTailNoFollow = "no-follow"
	flagTailState    = "state"
	flagTailSocket   = "ws"
	flagTailJSON     = "json"
	flagTailUTC      = "utc"
)

const tailHelp = `Print what a relay's agents do, one line an event, as it happens:

   sluice tail
   sluice tail --url https://relay.example --token-file ~/.sluice-token

Of one session only, of failures only, of all tools:

   sluice tail --session demo
   sluice tail --severity warning
   sluice tail --type 'tool.*' --type run.failed

Everything that the relay still holds first, or one session from a place on:

   sluice tail --since all
   sluice tail --since demo:0:41

What it holds now, for another program, and no more:

   sluice tail --no-follow --json | jq .type

Go on tomorrow where it ended today:

   sluice tail --state ~/.sluice-tail --json >> events.ndjson

A connection that is lost is made again, and what was missed is fetched, as
far as the relay still holds it. Nothing is printed twice: the last 100,000
events are remembered by source and id. What is missing is said on standard
error: a gap, events that were left out because the reader is too slow, a
relay that was restarted. Without --since, sessions that began while there was
no connection are known by their events' own time, give or take a minute.

Values of one flag are alternatives, flags hold together. --filter takes the
relay's own filter language in their place. --capture is the level of detail
that is asked for: what an event has above it is left out.

The state file has a position for each session. It is of one relay, and of one
tail at a time. A relay that was restarted is asked for everything that it
holds of these sessions; the last 4,096 events printed are known again. If tail
is killed, what was printed in the last second comes again.

Exit status: 0 ended by a signal, the end of --no-follow or of the reader of a
pipe; 1 refused or failed; 78 the command line is wrong. Without --no-follow a
relay that is not there is tried again for ever, with it five times in a row.`

// tailCommand follows a relay.
func (a *app) tailCommand() *cli.Command {
	return &cli.Command{
		Name:            "tail",
		Usage:           "print events as they happen",
		Description:     tailHelp,
		HideHelpCommand: true,
		// A session's name may hold commas.
		DisableSliceFlagSeparator: true,
		OnUsageError:              cmdline.OnUsageError,
		Flags: append(
			relayFlags(),
			&cli.StringSliceFlag{Name: flagTailSession, Usage: "only this session; may be repeated"},
			&cli.StringSliceFlag{Name: flagTailAgent, Usage: "only this agent; may be repeated"},
			&cli.StringSliceFlag{Name: flagTailType, Usage: "only this type, or all below it as in 'tool.*'; may be repeated"},
			&cli.StringFlag{Name: flagTailSeverity, Usage: "only this severity and above: debug, info, notice, warning, error or critical"},
			&cli.StringFlag{Name: flagTailFilter, Usage: "only what this filter matches, in JSON; in place of the flags above"},
			&cli.StringFlag{
				Name: flagTailCapture, Usage: "no more detail than this level: none, metadata, redacted or full",
				DefaultText: "as it was sent",
			},
			&cli.StringSliceFlag{
				Name: flagTailSince, Usage: "begin with what the relay holds: all, or SESSION:EPOCH:SEQ for what is after that; may be repeated",
				DefaultText: "what is new",
			},
			&cli.BoolFlag{Name: flagTailNoFollow, Usage: "end after what the relay holds (of everything, without --since)"},
			&cli.StringFlag{Name: flagTailState, Usage: "file that keeps the positions from one run to the next", DefaultText: "none"},
			&cli.BoolFlag{Name: flagTailSocket, Usage: "over a WebSocket, not SSE"},
			&cli.BoolFlag{Name: flagTailJSON, Usage: "print the events as they are, one a line"},
			&cli.BoolFlag{Name: flagTailUTC, Usage: "print times in UTC, not in local time"},
		),
		Action: a.runTail,
	}
}

// runTail follows a relay until a signal, or the end of the replay.
func (a *app) runTail(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	o, err := a.tailOptions(cmd)
	if err != nil {
		return err
	}
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	err = follow.Follow(ctx, o, a.tailSink(cmd))
	refusal, refused := errors.AsType[*follow.Refusal](err)
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE) && !errors.Is(err, follow.ErrGaveUp):
		return nil
	case errors.Is(err, follow.ErrOptions):
		return cmdline.UsageError{Err: fmt.Errorf("tail: %w", err)}
	case refused && refusal.Status == 401:
		return fmt.Errorf("tail: %w; see --%s in %s --help", err, flagTokenFile, cmd.FullName())
	}
	return fmt.Errorf("tail: %w", err)
}

// tailOptions reads the flags. Any error is a cmdline.UsageError.
func (a *app) tailOptions(cmd *cli.Command) (follow.Options, error) {
	o := follow.Options{
		Socket: cmd.Bool(flagTailSocket), Once: cmd.Bool(flagTailNoFollow), State: cmd.String(flagTailState),
		Filter: cmd.String(flagTailFilter), Ceiling: cmd.String(flagTailCapture),
	}
	var err error
	if o.Relay, err = a.relay(cmd); err != nil {
		return o, err
	}
	for _, name := range []string{flagTailFilter, flagTailState, flagTailCapture, flagTailSeverity} {
		if cmd.IsSet(name) && cmd.String(name) == "" {
			return o, cmdline.UsageError{Err: fmt.Errorf("--%s is empty", name)}
		}
	}
	for _, name := range []string{flagTailSession, flagTailAgent, flagTailType} {
		if values := cmd.StringSlice(name); cmd.IsSet(name) && (len(values) == 0 || slices.Contains(values, "")) {
			return o, cmdline.UsageError{Err: fmt.Errorf("--%s is empty", name)}
		}
	}
	s := follow.Selection{
		Sessions: cmd.StringSlice(flagTailSession), Agents: cmd.StringSlice(flagTailAgent),
		Types: cmd.StringSlice(flagTailType), Severity: cmd.String(flagTailSeverity),
	}
	selected, err := s.Filter()
	if err != nil {
		return o, cmdline.UsageError{Err: err}
	}
	if selected != "" {
		if o.Filter != "" {
			return o, cmdline.UsageError{Err: fmt.Errorf("--%s takes the place of --%s, --%s, --%s and --%s",
				flagTailFilter, flagTailSession, flagTailAgent, flagTailType, flagTailSeverity)}
		}
		o.Filter = selected
	}
	for _, text := range cmd.StringSlice(flagTailSince) {
		p, all, err := follow.ParseSince(text)
		if err != nil {
			return o, cmdline.UsageError{Err: fmt.Errorf("--%s: %w", flagTailSince, err)}
		}
		if o.All = o.All || all; !all {
			o.From = append(o.From, p)
		}
	}
	if o.All && len(o.From) > 0 {
		return o, cmdline.UsageError{Err: fmt.Errorf("--%s all has the sessions of every other --%s", flagTailSince, flagTailSince)}
	}
	return o, nil
}

// printer makes the text of an event ready to be printed.
type printer func(dst, text []byte) []byte

// tailSink prints events to standard output, notices to standard error.
type tailSink struct {
	out    *bufio.Writer
	err    io.Writer
	print  printer
	resize func() // between two bursts of lines, as a terminal may change
	line   []byte
}

func (a *app) tailSink(cmd *cli.Command) *tailSink {
	s := &tailSink{out: bufio.NewWriterSize(a.stdout, 64<<10), err: a.stderr, print: printJSON, resize: func() {}}
	if cmd.Bool(flagTailJSON) {
		return s
	}
	utc := cmd.Bool(flagTailUTC)
	look := a.look(utc)
	s.print = func(dst, text []byte) []byte { return render.Line(dst, text, look) }
	if terminal(a.stdout) != nil {
		s.resize = func() { look = a.look(utc) }
	}
	return s
}

// printJSON is an event as it is. A line break can only be between its tokens.
func printJSON(dst, text []byte) []byte {
	if bytes.ContainsAny(text, "\r\n") {
		b := bytes.NewBuffer(dst)
		if json.Compact(b, text) == nil {
			return b.Bytes()
		}
	}
	return append(dst, text...)
}

// Event implements [follow.Sink].
func (s *tailSink) Event(text []byte) error {
	s.line = s.print(s.line[:0], text)
	if n := len(s.line); n == 0 || s.line[n-1] != '\n' {
		s.line = append(s.line, '\n')
	}
	_, err := s.out.Write(s.line)
	return err
}

// Notice implements [follow.Sink]. The events before it come first, so that on
// a terminal it stands in its place; an error of theirs comes again.
func (s *tailSink) Notice(n follow.Notice) {
	_ = s.out.Flush()
	fmt.Fprintf(s.err, "sluice tail: %s\n", n)
}

// Flush implements [follow.Sink].
func (s *tailSink) Flush() error {
	s.resize()
	return s.out.Flush()
}
