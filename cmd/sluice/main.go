package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/cmdline"
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

// main runs the program and returns its exit code.
func (a *app) main(ctx context.Context, args []string) int {
	return cmdline.Exit(a.stderr, "sluice", a.command().Run(ctx, args), exitUsage)
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
		OnUsageError:                    cmdline.OnUsageError,
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {}, // main reports
		Commands: []*cli.Command{
			a.serveCommand(), a.tailCommand(), a.emitCommand(), a.controlCommand(), a.timelineCommand(),
			a.validateCommand(), a.demoCommand(), a.doctorCommand(), a.syncCommand(), a.deviceCommand(), a.firehoseCommand(),
			a.agentCommand(), a.versionCommand(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			switch name := cmd.Args().First(); {
			case name == "help" && cmd.Args().Len() == 2:
				return cli.ShowCommandHelp(ctx, cmd, cmd.Args().Get(1))
			case name != "" && name != "help":
				return cmdline.UsageError{Err: fmt.Errorf("unknown command %q: see sluice --help", name)}
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
	c.OnUsageError = cmdline.OnUsageError
	c.HideHelpCommand = true
	c.Action = func(_ context.Context, cmd *cli.Command) error {
		if shell := cmd.Args().First(); shell != "" {
			return cmdline.UsageError{Err: fmt.Errorf("no completion for %q: see sluice completion --help", shell)}
		}
		return cli.ShowSubcommandHelp(cmd)
	}
}

// versionCommand prints the version, as --version does.
func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name:         "version",
		Usage:        "print the version",
		OnUsageError: cmdline.OnUsageError,
		Action: func(_ context.Context, cmd *cli.Command) error {
			if err := cmdline.NoArguments(cmd); err != nil {
				return err
			}
			cli.ShowVersion(cmd.Root())
			return nil
		},
	}
}
