package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/bench/report"
	"github.com/sluice-relay/sluice/bench/scenario"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

const (
	flagOut     = "out"
	flagRelay   = "relay"
	flagRivals  = "rivals"
	flagOnly    = "only"
	flagTargets = "targets"
	flagRounds  = "rounds"
	flagQuick   = "quick"
	flagEnv     = "env"
	flagRev     = "revision"

	resultsFile  = "results.json"
	markdownFile = "report.md"
)

const runHelp = `Each scenario of the suite is run against the relay and its rivals, every server
in a process of its own, the same client in front of all. Results go to
results.json, report.md and plots in the directory of --out, the table of goals
to standard output.

   sluicebench run --out bench/out
   sluicebench run --only 'fanout-ws-10k-*' --targets sluice,floor --rounds 5

The exit code is 1 when an event was lost, repeated or out of order at the
relay, or when a load failed. Missing a goal is no failure.`

// errWrong tells that something came out that no timing explains.
var errWrong = errors.New("the relay did not deliver as it must: see the report")

// runCommand runs the suite.
func (a *app) runCommand() *cli.Command {
	return &cli.Command{
		Name:            "run",
		Usage:           "run the benchmark suite",
		Description:     runHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: append(programFlags(),
			&cli.StringFlag{Name: flagOut, Value: "bench/out", Usage: "`DIR` for the report"},
			&cli.BoolFlag{Name: flagQuick, Usage: "only a smoke of each kind of load"},
			&cli.StringFlag{Name: flagRev, Usage: "`REV` to name in the report"},
		),
		Action: a.runSuite,
	}
}

// programFlags are the flags of all commands that run scenarios.
func programFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagRelay, Value: "bin/sluice", Usage: "`PATH` of the relay"},
		&cli.StringFlag{Name: flagRivals, Value: "bin/benchrivals", Usage: "`PATH` of the rivals, empty for none"},
		&cli.StringSliceFlag{Name: flagOnly, Usage: "`PATTERN` of scenarios, may be repeated"},
		&cli.StringSliceFlag{Name: flagTargets, Usage: "comma list of `TARGETS`"},
		&cli.IntFlag{Name: flagRounds, Usage: "`N` rounds instead of the scenarios' own"},
		&cli.StringSliceFlag{Name: flagEnv, Usage: "`NAME=VALUE` for the relay, may be repeated"},
	}
}

// options reads them.
func (a *app) options(cmd *cli.Command) scenario.Options {
	return scenario.Options{
		Relay: cmd.String(flagRelay), Rivals: cmd.String(flagRivals),
		Only: cmd.StringSlice(flagOnly), Targets: cmd.StringSlice(flagTargets),
		Rounds: cmd.Int(flagRounds), Env: cmd.StringSlice(flagEnv),
		Progress: progress(a.stderr),
	}
}

// progress shows what is going on: a line is begun with a measurement and
// ended with its outcome.
func progress(w io.Writer) func(scenario.Step) {
	began := time.Now()
	return func(s scenario.Step) {
		if s.Done {
			fmt.Fprintf(w, " %s\n", s.Text)
			return
		}
		fmt.Fprintf(w, "[%3d/%d %s] %-16s %-14s %d/%d", s.Number, s.Of,
			time.Since(began).Truncate(time.Second), s.Scenario, s.Target, s.Round, s.Rounds)
	}
}

func (a *app) runSuite(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	// One thread reads everything: a collection beside it would be counted as
	// the server's latency.
	debug.SetGCPercent(400)
	o := a.options(cmd)
	o.Quick = cmd.Bool(flagQuick)
	rep := &report.Report{
		Format: report.Format, Suite: report.SuiteFull, Revision: cmd.String(flagRev),
		Started: time.Now().UTC().Truncate(time.Second), Machine: report.Describe(),
	}
	if o.Quick {
		rep.Suite = report.SuiteQuick
	}
	results, failed := scenario.Run(ctx, o)
	switch {
	case errors.Is(failed, scenario.ErrNothing):
		return cmdline.UsageError{Err: fmt.Errorf("%w: sluicebench list names the scenarios", failed)}
	case failed != nil && !errors.Is(failed, scenario.ErrFailed):
		return failed
	}
	rep.Results, rep.Took = results, time.Since(rep.Started).Truncate(time.Second)
	if err := a.write(cmd.String(flagOut), rep); err != nil {
		return errors.Join(err, failed)
	}
	for i := range results {
		if r := &results[i]; r.Target == report.TargetSluice && r.Wrong() > 0 {
			return errors.Join(errWrong, failed)
		}
	}
	return failed
}

// write writes the report in all its forms.
func (a *app) write(dir string, rep *report.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := report.WriteFile(filepath.Join(dir, resultsFile), rep); err != nil {
		return err
	}
	return a.render(dir, rep)
}

// render writes what people read, and the table of goals to standard output.
func (a *app) render(dir string, rep *report.Report) (err error) {
	if _, err := report.WritePlots(dir, rep); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, markdownFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := report.WriteMarkdown(f, rep); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	if err := report.WriteHeadline(a.stdout, rep); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "\n%s has everything, with %s on %d cores.\n",
		filepath.Join(dir, markdownFile), runtime.Version(), rep.Machine.Cores)
	return err
}

// listCommand lists the scenarios.
func (a *app) listCommand() *cli.Command {
	return &cli.Command{
		Name:            "list",
		Usage:           "list the scenarios and their targets",
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Action: func(_ context.Context, cmd *cli.Command) error {
			if err := cmdline.NoArguments(cmd); err != nil {
				return err
			}
			for _, s := range scenario.Suite() {
				fmt.Fprintf(a.stdout, "%-16s %d rounds: %s\n", s.Name, s.Rounds, strings.Join(s.Targets, " "))
				for _, l := range s.Loads {
					if l.Name != "" {
						fmt.Fprintf(a.stdout, "    %-20s %s\n", l.Name, l.Title)
					}
				}
			}
			return nil
		},
	}
}

// reportCommand renders results that are there already.
func (a *app) reportCommand() *cli.Command {
	return &cli.Command{
		Name:            "report",
		Usage:           "render the report of a results.json again, next to it",
		ArgsUsage:       "FILE",
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Action: func(_ context.Context, cmd *cli.Command) error {
			names, err := arguments(cmd, 1)
			if err != nil {
				return err
			}
			rep, err := report.ReadFile(names[0])
			if err != nil {
				return err
			}
			return a.render(filepath.Dir(names[0]), rep)
		},
	}
}

// compareCommand compares two runs.
func (a *app) compareCommand() *cli.Command {
	return &cli.Command{
		Name:            "compare",
		Usage:           "show what changed from one results.json to another",
		ArgsUsage:       "OLD NEW",
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Action: func(_ context.Context, cmd *cli.Command) error {
			names, err := arguments(cmd, 2)
			if err != nil {
				return err
			}
			before, err := report.ReadFile(names[0])
			if err != nil {
				return err
			}
			after, err := report.ReadFile(names[1])
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, report.Compare(before, after))
			return err
		},
	}
}

// arguments returns the arguments of a command that takes n of them.
func arguments(cmd *cli.Command, n int) ([]string, error) {
	if args := cmd.Args().Slice(); len(args) == n {
		return args, nil
	}
	return nil, cmdline.UsageError{Err: fmt.Errorf("%s takes %s: see %[1]s --help", cmd.FullName(), cmd.ArgsUsage)}
}
