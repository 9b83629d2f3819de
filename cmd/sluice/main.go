package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1  // the relay failed, or did not drain in time (R464)
	exitUsage  = 78 // command line or configuration (R11): EX_CONFIG, since a crash of Go is 2
)

func main() {
	a := app{
		lookup: os.LookupEnv,
		stdout: os.Stdout,
		stderr: os.Stderr,
		serve:  relay.Run,
		exits:  true,
	}
	os.Exit(a.main(context.Background(), os.Args))
}

// app is what the program takes from its surroundings, so that tests can
// give it others. Immutable.
type app struct {
	lookup         func(string) (string, bool) // os.LookupEnv
	stdout, stderr io.Writer
	// serve runs the relay until the context ends and everything is drained.
	serve func(context.Context, config.Config, *slog.Logger, io.Writer, relay.Control) error
	// exits tells that the process ends right after main: then the signals stay
	// caught, so that a late one does not change the exit code (R460).
	exits bool
}

// usageError marks an error of whoever wrote the command line or set the
// environment.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// main runs the program and returns its exit code.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.command().Run(ctx, args)
	if err == nil {
		return exitOK
	}
	// A command's own code is told by its help; without a text all was said.
	code := exitFailed
	if exit, ok := errors.AsType[cli.ExitCoder](err); ok {
		code = exit.ExitCode()
	} else if _, ok := errors.AsType[usageError](err); ok {
		code = exitUsage
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(a.stderr, "sluice: %s\n", text)
	}
	return code
}

// command returns the root of the command tree.
func (a *app) command() *cli.Command {
	return &cli.Command{
		Name:    "sluice",
		Usage:   "relay agents' events to everyone who follows them",
		Version: version(),
		Description: "Start with \"sluice serve\"; \"sluice serve --help\" shows how to publish and\n" +
			"watch events with curl, and every setting.",
		Writer:                          a.stdout,
		ErrWriter:                       a.stderr,
		HideHelpCommand:                 true,
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: configureCompletion,
		OnUsageError:                    onUsageError,
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {}, // main reports
		Commands: []*cli.Command{
			a.serveCommand(), a.tailCommand(), a.emitCommand(), a.controlCommand(), a.timelineCommand(),
			a.validateCommand(), a.demoCommand(), a.doctorCommand(), a.versionCommand(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			switch name := cmd.Args().First(); {
			case name == "help" && cmd.Args().Len() == 2:
				return cli.ShowCommandHelp(ctx, cmd, cmd.Args().Get(1))
			case name != "" && name != "help":
				return usageError{fmt.Errorf("unknown command %q: see sluice --help", name)}
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
}

// configureCompletion makes the library's command one of ours: listed, and with
// our exit codes.
func configureCompletion(c *cli.Command) {
	c.Hidden = false
	c.Usage = "print a completion script for bash, zsh, fish or pwsh"
	c.Description = "Source what it prints, or put it where the shell looks for completions:\n\n" +
		"   source <(sluice completion bash)\n" +
		"   sluice completion fish > ~/.config/fish/completions/sluice.fish\n\n" +
		"Bash needs the bash-completion package."
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	c.Action = func(_ context.Context, cmd *cli.Command) error {
		if shell := cmd.Args().First(); shell != "" {
			return usageError{fmt.Errorf("no completion for %q: see sluice completion --help", shell)}
		}
		return cli.ShowSubcommandHelp(cmd)
	}
}

// versionCommand prints the version, as --version does.
func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name:         "version",
		Usage:        "print the version",
		OnUsageError: onUsageError,
		Action: func(_ context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			cli.ShowVersion(cmd.Root())
			return nil
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
