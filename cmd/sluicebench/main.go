package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/cmdline"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	a := app{stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.main(context.Background(), os.Args))
}

// app is what the program takes from its surroundings, so that tests can give
// it others. Immutable.
type app struct{ stdout, stderr io.Writer }

// main runs the program and returns its exit code.
func (a *app) main(ctx context.Context, args []string) int {
	return cmdline.Exit(a.stderr, "sluicebench", a.command().Run(ctx, args), exitUsage)
}

// command returns the root of the command tree.
func (a *app) command() *cli.Command {
	return &cli.Command{
		Name:            "sluicebench",
		Usage:           "measure the relay, and put it in front of judges",
		Writer:          a.stdout,
		ErrWriter:       a.stderr,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		ExitErrHandler:  func(context.Context, *cli.Command, error) {}, // main reports
		Commands: []*cli.Command{
			a.runCommand(), a.listCommand(), a.reportCommand(), a.compareCommand(), a.profileCommand(), a.echoCommand(),
			a.syncCommand(), a.syncRelayCommand(), a.syncProbeCommand(),
			a.firehoseCommand(), a.firehoseFloorCommand(), a.firehoseSourceCommand(),
			a.aepwsCommand(),
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return cmdline.UsageError{Err: fmt.Errorf("unknown command %q: see sluicebench --help", name)}
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
}
