package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client/repos"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// Flags of firehose tail.
const (
	flagReposCursor     = "cursor"
	flagReposCursorFile = "cursor-file"
	flagReposExclude    = "exclude"
	flagReposJSON       = "json"
	flagReposRaw        = "raw"
	flagReposCount      = "count"
)

const firehoseTailHelp = `Prints the frames of a repository event stream, one line a frame, as they come:

   sluice firehose tail
   sluice firehose tail --url wss://relay.example --exclude commit,sync

A line has the number, the time, the kind, the repository, and of a commit its
revision and operations: + create, ~ update, - delete.

Everything that the relay still holds first, or what came after a number:

   sluice firehose tail --cursor 0
   sluice firehose tail --cursor 81237 --count 10

Go on tomorrow where it ended today:

   sluice firehose tail --cursor-file cursor --json >> frames.ndjson

With --json a line is {"header":...,"body":...}, with links as {"$link":"b..."}
and bytes as {"$bytes":"..."} in base64. With --raw the frames are written as they
are, one behind the other: each ends where its body ends. That is what "sluice
firehose publish" reads.

A connection that is lost is made again, and what was missed is asked for by the
number of the last frame. What is missing all the same is said on standard error:
an #info OutdatedCursor tells that the relay no longer holds the frames behind the
cursor. #info and error frames are not among the lines, but with --json; with
--raw frames of unknown types are not either. Messages that cannot be read and
frames whose number does not rise are left out, told and counted.

The cursor file has one number and is replaced whole, at most once a second and at
the end, after the frame was written. It goes before --cursor once it is there.
If tail is killed, what was printed in the last second comes again. With --exclude
the number may lag so far behind that the relay calls it outdated.

Exit status: 0 ended by a signal, by --count or by the reader of a pipe; 1 refused
or failed, as by a cursor above all numbers of the stream (FutureCursor); 78 the
command line is wrong. A relay that is not there, busy (503) or full (429) is tried
again for ever.`

// firehoseTailCommand follows a repository event stream.
func (a *app) firehoseTailCommand() *cli.Command {
	return &cli.Command{
		Name:            "tail",
		Usage:           "print the frames of a stream as they come",
		Description:     firehoseTailHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			firehoseURLFlag(),
			&cli.StringFlag{Name: flagReposCursor, Usage: "begin after this `NUMBER`; 0 is with everything held", DefaultText: "what is new"},
			&cli.StringFlag{Name: flagReposCursorFile, Usage: "`FILE` that keeps the number from one run to the next", DefaultText: "none"},
			&cli.StringSliceFlag{Name: flagReposExclude, Usage: "leave out `KINDS`: commit, sync, identity, account; may be repeated"},
			&cli.BoolFlag{Name: flagReposJSON, Usage: "print JSON, one line a frame"},
			&cli.BoolFlag{Name: flagReposRaw, Usage: "write the frames as they are"},
			&cli.Int64Flag{Name: flagReposCount, Usage: "end after `N` frames with a number", DefaultText: "never"},
		},
		Action: a.runFirehoseTail,
	}
}

// runFirehoseTail follows a stream until a signal, or the end of the count.
func (a *app) runFirehoseTail(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	o, err := a.firehoseTailOptions(cmd)
	if err != nil {
		return err
	}
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	stats, err := repos.Follow(ctx, o, a.frameSink(cmd))
	if stats.Malformed+stats.NotRising > 0 {
		fmt.Fprintf(a.stderr, "sluice firehose tail: left out %d messages that could not be read and %d frames whose number did not rise\n",
			stats.Malformed, stats.NotRising)
	}
	if err == nil || errors.Is(err, syscall.EPIPE) && !errors.Is(err, repos.ErrCursorFile) {
		return nil
	}
	return fmt.Errorf("firehose tail: %w", err)
}

// firehoseTailOptions reads the flags. Any error is a cmdline.UsageError.
func (a *app) firehoseTailOptions(cmd *cli.Command) (repos.Options, error) {
	var o repos.Options
	usage := func(format string, args ...any) (repos.Options, error) {
		return o, cmdline.UsageError{Err: fmt.Errorf(format, args...)}
	}
	for _, name := range []string{flagReposCursor, flagReposCursorFile} {
		if cmd.IsSet(name) && cmd.String(name) == "" {
			return usage("--%s is empty", name)
		}
	}
	o.CursorFile = cmd.String(flagReposCursorFile)
	var err error
	if text := cmd.String(flagReposCursor); text != "" {
		if o.Cursor, err = repos.ParseCursor(text); err != nil {
			return usage("--%s: %w, got %q", flagReposCursor, err, text)
		}
		o.HasCursor = true
	}
	kinds := []string{"commit", "sync", "identity", "account"}
	for _, kind := range cmd.StringSlice(flagReposExclude) {
		if !slices.Contains(kinds, kind) {
			return usage("--%s: %q is none of %s", flagReposExclude, kind, strings.Join(kinds, ", "))
		}
		if !slices.Contains(o.Exclude, kind) {
			o.Exclude = append(o.Exclude, kind)
		}
	}
	if o.Count = cmd.Int64(flagReposCount); o.Count < 0 || o.Count == 0 && cmd.IsSet(flagReposCount) {
		return usage("--%s is at least 1", flagReposCount)
	}
	if cmd.Bool(flagReposJSON) && cmd.Bool(flagReposRaw) {
		return usage("--%s or --%s", flagReposJSON, flagReposRaw)
	}
	if cmd.Bool(flagReposRaw) && terminal(a.stdout) != nil {
		return usage("--%s is not for a terminal", flagReposRaw)
	}
	if o.Relay, err = a.firehoseRelay(cmd, ""); err != nil {
		return o, err
	}
	return o, nil
}

// keptLineBytes is the longest line whose memory is kept for the next one.
const keptLineBytes = 1 << 20

// framePrinter appends what is printed of a frame, nothing for one that is not.
type framePrinter func(dst, message []byte, f *firehose.Frame) []byte

// frameSink prints frames to standard output, notices to standard error.
type frameSink struct {
	out    *bufio.Writer
	err    io.Writer
	print  framePrinter
	resize func() // between two bursts of lines, as a terminal may change
	line   []byte
}

func (a *app) frameSink(cmd *cli.Command) *frameSink {
	s := &frameSink{out: bufio.NewWriterSize(a.stdout, 64<<10), err: a.stderr, resize: func() {}}
	switch {
	case cmd.Bool(flagReposRaw):
		s.print = rawFrame
	case cmd.Bool(flagReposJSON):
		s.print = jsonFrames()
	default:
		look := a.look(true)
		s.print = func(dst, _ []byte, f *firehose.Frame) []byte {
			if kind := f.Kind(); kind == firehose.KindInfo || kind == firehose.KindError {
				return dst
			}
			return append(repos.Line(dst, f, look), '\n')
		}
		if terminal(a.stdout) != nil {
			s.resize = func() { look = a.look(true) }
		}
	}
	return s
}

// rawFrame is a frame as it is, if another relay can publish it.
func rawFrame(dst, message []byte, f *firehose.Frame) []byte {
	if f.Kind() > firehose.KindAccount {
		return dst
	}
	return append(dst, message...)
}

// jsonFrames returns a printer of JSON. Every message that a scanner accepts
// has such a form.
func jsonFrames() framePrinter {
	var scanner firehose.Scanner
	var text []byte
	return func(dst, message []byte, _ *firehose.Frame) []byte {
		var err error
		if text, err = scanner.AppendJSON(text[:0], message); err != nil {
			return dst
		}
		dst = append(repos.AppendVisible(dst, text), '\n')
		if cap(text) > keptLineBytes {
			text = nil
		}
		return dst
	}
}

// Frame implements [repos.Sink].
func (s *frameSink) Frame(message []byte, f *firehose.Frame) error {
	s.line = s.print(s.line[:0], message, f)
	_, err := s.out.Write(s.line)
	if cap(s.line) > keptLineBytes {
		s.line = nil
	}
	return err
}

// Notice implements [repos.Sink]. The frames before it come first, so that on a
// terminal it stands in its place; an error of theirs comes again.
func (s *frameSink) Notice(n repos.Notice) {
	_ = s.out.Flush()
	fmt.Fprintf(s.err, "sluice firehose tail: %s\n", n)
}

// Flush implements [repos.Sink].
func (s *frameSink) Flush() error {
	s.resize()
	return s.out.Flush()
}
