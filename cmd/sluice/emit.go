package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/client/publish"
	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// exitRefused tells that some lines are not in, and all others are.
const exitRefused = 3

// flushTimeout is how long what was read is sent after the first signal.
const flushTimeout = 5 * time.Second

// Flags of emit.
const (
	emitStrict     = "strict"
	emitWS         = "ws"
	emitAgent      = "agent"
	emitInstance   = "instance"
	emitAccept     = "accept"
	emitTimeout    = "timeout"
	emitLinger     = "linger"
	emitBatch      = "batch"
	emitBatchBytes = "batch-bytes"
)

const emitHelp = `Reads events, one JSON text a line, from files one after the other or from
standard input, and sends them in the order read:

   sluice emit events.ndjson
   tail -f session.jsonl | sluice emit

A relay that is away or busy is tried again, with pauses of up to 10 s, for
ever or as long as --timeout says. Sending a batch twice does no harm: the relay
takes an event in once (by source and id, while it holds it).

A line that the relay refuses is reported on standard error as FILE:LINE: reason
and left out; the rest is sent. With --strict it ends there, with every line
before it sent; by WebSocket some lines behind it may be in, too.

With --ws the events go over a WebSocket, which claims their sessions: commands
for them are routed to this process. It refuses them, but for the types named by
--accept: these are printed on standard output, one JSON text a line, for you to
obey and to acknowledge with an event control.accepted or control.rejected on
the input. One that was not acknowledged may be sent, and printed, again with
the same id: obey an id once, and repeat its acknowledgement. Only with --ws can
commands be sent; "sluice control" is easier.

   agent | sluice emit --ws --agent builder --accept control.cancel | agent-control

The first SIGINT or SIGTERM ends the input, and what was read is sent within 5 s;
a second one ends it at once.

Exit codes: 0 all events are in, 1 failed, 3 some lines were refused and all
others are in, 78 usage.`

// emitCommand publishes lines of JSON.
func (a *app) emitCommand() *cli.Command {
	return &cli.Command{
		Name:            "emit",
		Usage:           "send events, one JSON text a line",
		ArgsUsage:       "[FILE...]",
		Description:     emitHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: append(
			relayFlags(),
			&cli.BoolFlag{Name: emitStrict, Usage: "end at the first line that is refused"},
			&cli.DurationFlag{
				Name: emitTimeout, Usage: "give up when the relay took nothing for so `LONG`", DefaultText: "never",
			},
			&cli.DurationFlag{
				Name: emitLinger, Usage: "how `LONG` a line waits for others to go with", Value: publish.DefaultLinger,
			},
			&cli.IntFlag{
				Name: emitBatch, Usage: "most `LINES` of a request", Value: publish.DefaultBatchLines,
			},
			&cli.IntFlag{
				Name: emitBatchBytes, Usage: "most `BYTES` of a request", Value: publish.DefaultBatchBytes,
			},
			&cli.BoolFlag{Name: emitWS, Usage: "send over a WebSocket, and so claim the sessions"},
			&cli.StringFlag{Name: emitAgent, Usage: "with --ws: `NAME` of the agent in the relay's roster", Value: "sluice-emit"},
			&cli.StringFlag{Name: emitInstance, Usage: "with --ws: `NAME` of this instance of it", DefaultText: "none"},
			&cli.StringSliceFlag{
				Name: emitAccept, Usage: "with --ws: `TYPE` of commands to print, such as control.cancel; may be repeated",
			},
		),
		Action: a.runEmit,
	}
}

// emission is an emit under way.
type emission struct {
	app     *app
	relay   *client.Relay
	options publish.Options
	name    string // of the input, as reports call it; safe for a terminal
	bar     *progressbar.ProgressBar
	total   publish.Stats
}

// runEmit sends each input and sums up.
func (a *app) runEmit(ctx context.Context, cmd *cli.Command) error {
	relay, err := a.relay(cmd)
	if err != nil {
		return err
	}
	e := &emission{app: a, relay: relay}
	if e.options, err = a.emitOptions(cmd); err != nil {
		return err
	}
	ctx, stop, release := catchEmitSignals(ctx)
	defer release()
	e.options.Stop = stop
	e.options.Refused, e.options.Notice, e.options.Progress = e.refused, e.notice, e.progress

	begun := time.Now()
	names := cmd.Args().Slice()
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if err = e.send(ctx, name, cmd.Root().Reader); err != nil || isClosed(stop) {
			break
		}
	}
	e.summary(time.Since(begun))
	switch {
	case err != nil:
		return err
	case e.total.Refused > 0:
		return cli.Exit("", exitRefused)
	}
	return nil
}

// emitOptions reads the flags.
func (a *app) emitOptions(cmd *cli.Command) (publish.Options, error) {
	o := publish.Options{
		BatchLines: cmd.Int(emitBatch), BatchBytes: cmd.Int(emitBatchBytes),
		Linger: cmd.Duration(emitLinger), Timeout: cmd.Duration(emitTimeout), Strict: cmd.Bool(emitStrict),
	}
	switch {
	case o.BatchLines < 1 || o.BatchBytes < 1:
		return o, cmdline.UsageError{Err: fmt.Errorf("--%s and --%s are at least 1", emitBatch, emitBatchBytes)}
	case o.Linger < 0 || o.Timeout < 0:
		return o, cmdline.UsageError{Err: fmt.Errorf("--%s and --%s are not negative", emitLinger, emitTimeout)}
	case o.Linger == 0:
		o.Linger = time.Nanosecond // 0 would be the default
	}
	if !cmd.Bool(emitWS) {
		for _, name := range []string{emitAgent, emitInstance, emitAccept} {
			if cmd.IsSet(name) {
				return o, cmdline.UsageError{Err: fmt.Errorf("--%s needs --%s", name, emitWS)}
			}
		}
		return o, nil
	}
	o.Socket = &publish.Socket{
		Agent: cmd.String(emitAgent), Instance: cmd.String(emitInstance), Accepts: cmd.StringSlice(emitAccept),
		OnCommand: a.printCommand,
	}
	return o, nil
}

// printCommand prints a command for the agent on one line.
func (a *app) printCommand(text []byte) {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return // the relay routes JSON only
	}
	b.WriteByte('\n')
	_, _ = a.stdout.Write(b.Bytes()) // nobody may be reading
}

// send sends one input.
func (e *emission) send(ctx context.Context, name string, stdin io.Reader) error {
	input, size := stdin, int64(-1)
	e.name = "stdin"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return errors.New("emit: " + render.Escape(err.Error()))
		}
		defer func() { _ = f.Close() }()
		input, e.name = f, render.Escape(name)
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	e.startBar(size)
	stats, err := publish.Run(ctx, e.relay, input, e.options)
	e.clearBar()
	e.bar = nil
	e.total.Events += stats.Events
	e.total.Refused += stats.Refused
	e.total.Bytes += stats.Bytes
	e.total.Retries += stats.Retries
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("emit %s: interrupted before everything was sent", e.name)
	}
	if err != nil {
		// An error of reading has the file's name in it.
		return fmt.Errorf("emit %s: %s", e.name, render.Escape(err.Error()))
	}
	return nil
}

// startBar shows a progress bar for a file, if somebody looks at it.
func (e *emission) startBar(size int64) {
	f, ok := e.app.stderr.(*os.File)
	if !ok || size <= 0 || !isatty.IsTerminal(f.Fd()) {
		return
	}
	e.bar = progressbar.NewOptions64(
		size, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(e.name),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// clearBar makes room for a line; the bar comes back with the next progress.
func (e *emission) clearBar() {
	if e.bar != nil {
		_ = e.bar.Clear()
	}
}

func (e *emission) progress(n int64) {
	if e.bar != nil {
		_ = e.bar.Add64(n)
	}
}

func (e *emission) notice(text string) {
	e.clearBar()
	fmt.Fprintf(e.app.stderr, "sluice emit: %s\n", text)
}

func (e *emission) refused(r publish.Refusal) {
	e.clearBar()
	if r.Line == 0 {
		fmt.Fprintf(e.app.stderr, "%s: %s\n", e.name, r.Reason)
		return
	}
	fmt.Fprintf(e.app.stderr, "%s:%d: %s\n", e.name, r.Line, r.Reason)
}

// summary says what was done.
func (e *emission) summary(took time.Duration) {
	rate := float64(e.total.Events) / math.Max(took.Seconds(), 1e-3)
	fmt.Fprintf(e.app.stderr, "sluice emit: %d events in, %d refused, %.2f s, %.0f events/s\n",
		e.total.Events, e.total.Refused, took.Seconds(), rate)
}

// catchEmitSignals closes stop on the first SIGINT or SIGTERM, and ends the
// context on the second one or some time after the first.
func catchEmitSignals(parent context.Context) (ctx context.Context, stop <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	stopped, released, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var late <-chan time.Time
		for first := true; ; {
			select {
			case <-signals:
				if !first {
					cancel()
					return
				}
				first = false
				close(stopped)
				late = time.After(flushTimeout)
			case <-late:
				cancel()
				return
			case <-released:
				return
			}
		}
	}()
	return ctx, stopped, func() {
		signal.Stop(signals)
		close(released)
		<-done
		cancel()
	}
}

// isClosed reports whether a channel that is only closed is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
