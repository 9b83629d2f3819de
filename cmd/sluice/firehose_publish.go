package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/client/repos"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/config"
)

// flagReposHex is a flag of firehose publish.
const flagReposHex = "hex"

const firehosePublishHelp = `Publishes the frames of a file, or of standard input, in their order. The relay
gives each a number, which is printed, one a line:

   FIREHOSE_PUBLISH_TOKEN=secret sluice firehose publish frames.cbor
   sluice firehose publish --token-file token --hex frames.txt
   sluice firehose tail --url wss://relay.example --raw | sluice firehose publish -

The relay must have been started with the same FIREHOSE_PUBLISH_TOKEN. The token
comes from that variable or from a file, since everyone sees the arguments of a
process.

The frames stand one behind the other, each a header and a body, as "sluice
firehose tail --raw" writes them. With --hex each is a line in hexadecimal. A
number in a frame is not looked at. A frame has at most 5,000,000 bytes.

A file is read through before anything is sent: if it is cut short or not of
frames, nothing is published. The first frame that the relay refuses ends it, with
its place, the name of the error and the relay's words on standard error; all
before it are published, and nothing after it.

A relay that is not there, or takes nothing at the moment (503, 429), is tried
again 12 times. A connection that is lost while an answer is waited for is not:
the relay may have taken the frame.

The first SIGINT or SIGTERM ends a file behind the frame that is under way;
standard input is read on to its end for up to 5 s. A second one ends it at once.

Exit status: 0 everything is published, 1 it is not, 78 the command line is
wrong.`

// firehosePublishCommand publishes frames.
func (a *app) firehosePublishCommand() *cli.Command {
	return &cli.Command{
		Name:            "publish",
		Usage:           "publish the frames of a file to a relay",
		ArgsUsage:       "FILE|-",
		Description:     firehosePublishHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			firehoseURLFlag(),
			&cli.StringFlag{
				Name: flagTokenFile, Usage: "`FILE` whose first token is sent, in place of " + config.EnvPublishToken,
				DefaultText: "none",
			},
			&cli.BoolFlag{Name: flagReposHex, Usage: "read hexadecimal, one frame a line"},
		},
		Action: a.runFirehosePublish,
	}
}

// runFirehosePublish publishes one input.
func (a *app) runFirehosePublish(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Len() != 1 {
		return cmdline.UsageError{Err: fmt.Errorf("%s takes one file, or - for standard input", cmd.FullName())}
	}
	token, err := a.publishToken(cmd)
	if err != nil {
		return cmdline.UsageError{Err: err}
	}
	relay, err := a.firehoseRelay(cmd, token)
	if err != nil {
		return err
	}
	ctx, stop, release := catchEmitSignals(ctx)
	defer release()
	frames := func(r io.Reader) repos.Frames {
		if cmd.Bool(flagReposHex) {
			return repos.NewLines(r)
		}
		return repos.NewSplitter(r)
	}
	name, input := "stdin", cmd.Root().Reader
	if file := cmd.Args().First(); file != "-" {
		name = render.Escape(file)
		f, err := os.Open(file)
		if err != nil {
			return errors.New("firehose publish: " + render.Escape(err.Error()))
		}
		defer func() { _ = f.Close() }() // only read from
		input = f
		if ctx, err = checkFrames(ctx, f, frames, stop); err != nil {
			return fmt.Errorf("firehose publish %s: nothing is published: %s", name, render.Escape(err.Error()))
		}
	}
	begun := time.Now()
	stats, err := repos.Publish(ctx, frames(input), repos.PublishOptions{
		Relay: relay,
		Published: func(seq int64) error {
			_, err := fmt.Fprintln(a.stdout, seq)
			return err
		},
		Notice: func(text string) { fmt.Fprintf(a.stderr, "sluice firehose publish: %s\n", text) },
	})
	took := max(time.Since(begun).Seconds(), 1e-3)
	fmt.Fprintf(a.stderr, "sluice firehose publish: %d frames in, %d bytes, %.2f s, %.0f frames/s\n",
		stats.Frames, stats.Bytes, took, float64(stats.Frames)/took)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("firehose publish %s: interrupted before everything was published", name)
	}
	return fmt.Errorf("firehose publish %s: %s", name, render.Escape(err.Error()))
}

// checkFrames reads a file through, if it can be read twice, and goes back to
// its beginning. The context for it ends with the first signal: a file does not
// end soon by itself, as a pipe does.
func checkFrames(ctx context.Context, f *os.File, frames func(io.Reader) repos.Frames, stop <-chan struct{}) (context.Context, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ctx, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-stop:
		case <-ctx.Done():
		}
	}()
	if err := repos.Check(frames(f)); err != nil {
		return ctx, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return ctx, err
}

// publishToken returns the token of the flag's file, or of the variable.
func (a *app) publishToken(cmd *cli.Command) (string, error) {
	if file := cmd.String(flagTokenFile); file != "" {
		tokens, err := auth.ReadTokenFile(file)
		if err != nil {
			return "", fmt.Errorf("token file %w", err)
		}
		return tokens[0], nil
	}
	token := a.variable(config.EnvPublishToken)
	switch {
	case cmd.IsSet(flagTokenFile):
		return "", fmt.Errorf("--%s %w", flagTokenFile, errNoTokenFile)
	case token == "":
		return "", fmt.Errorf("%s is not set: give it to the relay and to this command", config.EnvPublishToken)
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return "", fmt.Errorf("%s: %w", config.EnvPublishToken, errToken)
	}
	return token, nil
}
