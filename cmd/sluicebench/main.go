package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"
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

// usageError marks an error of whoever wrote the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// main runs the program and returns its exit code.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.command().Run(ctx, args)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(a.stderr, "sluicebench: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// command returns the root of the command tree.
func (a *app) command() *cli.Command {
	return &cli.Command{
		Name:            "sluicebench",
		Usage:           "measure the relay, and put it in front of judges",
		Writer:          a.stdout,
		ErrWriter:       a.stderr,
		HideHelpCommand: true,
		OnUsageError:    onUsageError,
		ExitErrHandler:  func(context.Context, *cli.Command, error) {}, // main reports
		Commands: []*cli.Command{
			a.runCommand(), a.listCommand(), a.reportCommand(), a.compareCommand(), a.profileCommand(), a.echoCommand(),
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return usageError{fmt.Errorf("unknown command %q: see sluicebench --help", name)}
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
}

// onUsageError keeps the library from printing its help on an error.
func onUsageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	return usageError{fmt.Errorf("%w: see %s --help", err, cmd.FullName())}
}

// noArguments refuses arguments that would be ignored.
func noArguments(cmd *cli.Command) error {
	if arg := cmd.Args().First(); arg != "" {
		return usageError{fmt.Errorf("%s takes no argument, got %q", cmd.FullName(), arg)}
	}
	return nil
}
