package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/agent"
	"github.com/sluice-relay/sluice/internal/client/repos"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// Flags of agent tail.
const (
	flagAgentType         = "type"
	flagAgentSource       = "source"
	flagAgentTarget       = "target"
	flagAgentTopic        = "topic"
	flagAgentSession      = "session"
	flagAgentConversation = "conversation"
	flagAgentTask         = "task"
	flagAgentCursor       = "cursor"
	flagAgentCursorFile   = "cursor-file"
	flagAgentJSON         = "json"
	flagAgentCount        = "count"
)

const agentTailHelp = `Prints the events of agents, one line an event, as they come:

   sluice agent tail
   sluice agent tail --type 'task.*' --type tool.call.failed --target planner

Values of one flag are alternatives, flags hold together. In a type * is one
segment, at the end one or more; alone it is every type. Without --type, --source,
--target and --topic every type is meant.

A line has the event's number, its time, type, source and target, what it belongs
to, and the first members of the payload.

Everything that the relay still holds first, or what came after a cursor:

   sluice agent tail --cursor start:0
   sluice agent tail --cursor evt_01JZ0000000000000000000000:42 --count 10

Go on tomorrow where it ended today:

   sluice agent tail --mode replayable --cursor-file cursor --json >> events.ndjson

With --json each event is printed as it was delivered. Its member delivery has the
cursor. On a terminal, characters that it would act on are spelled out.

A connection that is lost is made again, and what was missed is asked for by the
cursor of the last event. What is missing all the same is said on standard error:
a gap, when the relay no longer holds the events behind the cursor, or does not
know it; events that it left out of a live stream of mode best_effort because this
reader is too slow; messages that cannot be read. A subscription that expires is
made again behind its last cursor.

With --mode at_least_once or replayable, events that were published so too are
acknowledged after they were written. An event that the relay sends again because
that came late is not printed twice. What has no acknowledgement after some
attempts becomes a dead letter: --type event.dead_lettered shows those.

The cursor file has one cursor and is replaced whole, at most once a second and at
the end, after the event was written. It goes before --cursor once it is there. If
tail is killed, what was printed in the last second comes again.

The token comes from AEPWS_TOKEN or a file, since everyone sees the arguments of a
process.

Exit status: 0 ended by a signal, by --count or by the reader of a pipe; 1 refused
or failed, as by a filter that the relay rejects, or when another connection opens
the same session; 78 the command line is wrong. A relay that is not there, or full
(503), is tried again for ever.`

// agentTailCommand follows a subscription.
func (a *app) agentTailCommand() *cli.Command {
	values := func(name, usage string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Usage: usage + "; may be repeated"}
	}
	return &cli.Command{
		Name:            "tail",
		Usage:           "print events as they come",
		Description:     agentTailHelp,
		HideHelpCommand: true,
		// A name may hold commas.
		DisableSliceFlagSeparator: true,
		OnUsageError:              cmdline.OnUsageError,
		Flags: append(
			agentFlags(),
			values(flagAgentType, "only types of this `PATTERN`"),
			values(flagAgentSource, "only events from this `SOURCE`"),
			values(flagAgentTarget, "only events to this `TARGET`"),
			values(flagAgentTopic, "only events of this `TOPIC`"),
			values(flagAgentSession, "only events of this `SESSION`"),
			values(flagAgentConversation, "only events of this `CONVERSATION`"),
			values(flagAgentTask, "only events of this `TASK`"),
			&cli.StringFlag{
				Name: flagAgentMode, Usage: "`MODE` of delivery: best_effort, at_least_once or replayable",
				DefaultText: "each event's own",
			},
			&cli.StringFlag{Name: flagAgentCursor, Usage: "begin after this `CURSOR`; start:0 is with everything held", DefaultText: "what is new"},
			&cli.StringFlag{Name: flagAgentCursorFile, Usage: "`FILE` that keeps the cursor from one run to the next", DefaultText: "none"},
			&cli.BoolFlag{Name: flagAgentJSON, Usage: "print the events as they are, one a line"},
			&cli.Int64Flag{Name: flagAgentCount, Usage: "end after `N` events", DefaultText: "never"},
		),
		Action: a.runAgentTail,
	}
}

// runAgentTail follows a subscription until a signal, or the end of the count.
func (a *app) runAgentTail(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	o, err := a.agentTailOptions(cmd)
	if err != nil {
		return err
	}
	if a.exits {
		// A write to a pipe whose reader is gone is then an error, not the end.
		signal.Ignore(syscall.SIGPIPE)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal ends at once, if the output does not take what is left.
	defer context.AfterFunc(ctx, stop)()
	stats, err := agent.Follow(ctx, o, a.agentSink(cmd))
	if stats.Malformed+stats.Dropped+stats.Gaps > 0 {
		fmt.Fprintf(a.stderr, "sluice agent tail: incomplete: %d gaps, %d events left out by the relay, %d messages that could not be read\n",
			stats.Gaps, stats.Dropped, stats.Malformed)
	}
	if err == nil || errors.Is(err, syscall.EPIPE) && !errors.Is(err, agent.ErrCursorFile) {
		return nil
	}
	return agentError(cmd, "agent tail", err)
}

// agentTailOptions reads the flags. Any error is a cmdline.UsageError.
func (a *app) agentTailOptions(cmd *cli.Command) (o agent.Options, err error) {
	if o.Peer, err = a.agentPeer(cmd); err != nil {
		return o, err
	}
	usage := func(format string, args ...any) (agent.Options, error) {
		return o, cmdline.UsageError{Err: fmt.Errorf(format, args...)}
	}
	if err := notEmpty(cmd, flagAgentCursor, flagAgentCursorFile); err != nil {
		return usage("%w", err)
	}
	for _, of := range []struct {
		name string
		to   *[]string
	}{
		{flagAgentType, &o.Filter.Types},
		{flagAgentSource, &o.Filter.Sources},
		{flagAgentTarget, &o.Filter.Targets},
		{flagAgentTopic, &o.Filter.Topics},
		{flagAgentSession, &o.Filter.Sessions},
		{flagAgentConversation, &o.Filter.Conversations},
		{flagAgentTask, &o.Filter.Tasks},
	} {
		values := cmd.StringSlice(of.name)
		if cmd.IsSet(of.name) && (len(values) == 0 || slices.Contains(values, "")) {
			return usage("--%s is empty", of.name)
		}
		*of.to = values
	}
	if o.Filter.Mode, err = agentMode(cmd); err != nil {
		return o, err
	}
	o.Cursor, o.CursorFile = cmd.String(flagAgentCursor), cmd.String(flagAgentCursorFile)
	if o.Cursor != "" {
		if err := agent.CheckCursor(o.Cursor); err != nil {
			return usage("--%s: %w, got %q", flagAgentCursor, err, o.Cursor)
		}
	}
	if o.Count = cmd.Int64(flagAgentCount); o.Count < 0 || o.Count == 0 && cmd.IsSet(flagAgentCount) {
		return usage("--%s is at least 1", flagAgentCount)
	}
	return o, nil
}

// agentSink prints events to standard output, notices to standard error.
type agentSink struct {
	out    *bufio.Writer
	err    io.Writer
	print  func(dst []byte, e *agent.Event) []byte
	resize func() // between two bursts of lines, as a terminal may change
	line   []byte
}

func (a *app) agentSink(cmd *cli.Command) *agentSink {
	s := &agentSink{out: bufio.NewWriterSize(a.stdout, 64<<10), err: a.stderr, resize: func() {}}
	onTerminal := terminal(a.stdout) != nil
	if cmd.Bool(flagAgentJSON) {
		s.print = agentJSON(onTerminal)
		return s
	}
	look := a.look(true)
	s.print = func(dst []byte, e *agent.Event) []byte { return agent.Line(dst, e, look) }
	if onTerminal {
		s.resize = func() { look = a.look(true) }
	}
	return s
}

// agentJSON returns a printer of events as they are, for a terminal with what it
// would act on spelled out.
func agentJSON(onTerminal bool) func([]byte, *agent.Event) []byte {
	return func(dst []byte, e *agent.Event) []byte {
		if !onTerminal {
			return printJSON(dst, e.Text)
		}
		return repos.AppendVisible(dst, printJSON(nil, e.Text))
	}
}

// Event implements [agent.Sink].
func (s *agentSink) Event(e *agent.Event) error {
	s.line = append(s.print(s.line[:0], e), '\n')
	_, err := s.out.Write(s.line)
	if cap(s.line) > keptLineBytes {
		s.line = nil
	}
	return err
}

// Notice implements [agent.Sink]. The events before it come first, so that on a
// terminal it stands in its place; an error of theirs comes again.
func (s *agentSink) Notice(n agent.Notice) {
	_ = s.out.Flush()
	fmt.Fprintf(s.err, "sluice agent tail: %s\n", n)
}

// Flush implements [agent.Sink].
func (s *agentSink) Flush() error {
	s.resize()
	return s.out.Flush()
}
