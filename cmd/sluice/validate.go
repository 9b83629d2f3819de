package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/client/validate"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// exitInvalid tells that all files were read, and some lines are no events.
const exitInvalid = 3

// longBytes is the size of the files from which on a bar is shown.
const longBytes = 8 << 20

// Flags of validate.
const (
	flagValidateJSON       = "json"
	flagValidateNoWarnings = "no-warnings"
	flagValidateMaxBytes   = "max-bytes"
)

const validateHelp = `Check a file, and what another program writes:

   sluice validate events.ndjson
   jq -c '.[]' events.json | sluice validate -

One event a line; blank lines are passed over. A file that is one JSON object
over several lines is one event. A line of the answer names the place, the
rule of the relay's contract and the reason:

   events.ndjson:3: R102: id is missing
   events.ndjson:7:12: R70: not JSON: expected a colon
   events.ndjson:9: warning: R161: same source and id as line 2: ...

Warnings are of what a relay takes: an event that was there before, and a seq
or epoch that goes back within a session. The payload in data is not looked at.

Exit status: 0 all lines are events, 3 some are not, 1 a file cannot be read,
78 the command line is wrong. Warnings do not change it.`

// validateCommand checks files of events.
func (a *app) validateCommand() *cli.Command {
	return &cli.Command{
		Name:            "validate",
		Usage:           "check files of events against the rules of the envelope",
		ArgsUsage:       "FILE... (- for standard input)",
		Description:     validateHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: flagValidateJSON, Usage: "print one JSON object for each problem"},
			&cli.BoolFlag{Name: flagValidateNoWarnings, Usage: "report only what a relay refuses"},
			&cli.IntFlag{
				Name: flagValidateMaxBytes, Value: validate.DefaultMaxBytes,
				Usage: "longest line in bytes, as the relay's --max-body",
			},
		},
		Action: a.runValidate,
	}
}

// validation is one run of the command.
type validation struct {
	*app
	json     bool
	printed  error // of writing
	progress *progressbar.ProgressBar
}

// runValidate checks all files, also after one that cannot be read.
func (a *app) runValidate(_ context.Context, cmd *cli.Command) error {
	files := cmd.Args().Slice()
	maxBytes := cmd.Int(flagValidateMaxBytes)
	switch {
	case len(files) == 0:
		return cmdline.UsageError{Err: fmt.Errorf("no file to check, - is standard input: see %s --help", cmd.FullName())}
	case maxBytes < 1:
		return cmdline.UsageError{Err: fmt.Errorf("--%s is not 1 or more", flagValidateMaxBytes)}
	}
	v := &validation{app: a, json: cmd.Bool(flagValidateJSON)}
	v.startProgress(files)
	checker := validate.New(validate.Options{
		MaxBytes:   maxBytes,
		NoWarnings: cmd.Bool(flagValidateNoWarnings),
	}, v.print)
	begin := time.Now()
	unread := 0
	for _, name := range files {
		if err := v.check(checker, name, cmd.Root().Reader); err != nil {
			v.clear()
			fmt.Fprintf(a.stderr, "sluice validate: %s\n", render.Escape(err.Error()))
			unread++
		}
	}
	v.clear()
	if v.printed != nil {
		return fmt.Errorf("validate: %w", v.printed)
	}
	return v.verdict(checker.Counts(), len(files), unread, time.Since(begin))
}

// verdict prints the summary and returns what gives the exit status.
func (v *validation) verdict(n validate.Counts, files, unread int, took time.Duration) error {
	fmt.Fprintf(v.stderr, "sluice validate: files: %d, events: %d, bad lines: %d, warnings: %d (%v)\n",
		files, n.Events, n.Bad, n.Warnings, took.Round(time.Millisecond))
	switch {
	case unread > 0:
		return fmt.Errorf("validate: %d of %d files could not be read", unread, files)
	case n.Bad > 0:
		return cli.Exit("", exitInvalid)
	}
	return nil
}

// check checks one file.
func (v *validation) check(c *validate.Checker, name string, stdin io.Reader) error {
	if name == "-" {
		return c.Check("stdin", stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := io.Reader(f)
	if v.progress != nil {
		in = io.TeeReader(f, v.progress)
	}
	return c.Check(name, in)
}

// print prints a problem at once, since the input may be a pipe.
func (v *validation) print(p validate.Problem) {
	if v.printed != nil {
		return
	}
	v.clear()
	if v.json {
		text, err := json.Marshal(p)
		if err == nil {
			_, err = v.stdout.Write(append(text, '\n'))
		}
		v.printed = err
		return
	}
	_, v.printed = fmt.Fprintln(v.stdout, render.Escape(p.String()))
}

// startProgress shows a bar if the files are long and somebody sees it.
func (v *validation) startProgress(files []string) {
	f := terminal(v.stderr)
	if f == nil {
		return
	}
	total := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return
		}
		total += info.Size()
	}
	if total < longBytes {
		return
	}
	v.progress = progressbar.NewOptions64(
		total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription("validate"),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// clear makes room for a line; the bar comes back with the next bytes.
func (v *validation) clear() {
	if v.progress != nil {
		_ = v.progress.Clear() // a bar that stays is no harm
	}
}
