package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/client/repos"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

const firehoseHelp = `Reads and feeds a repository event stream, com.atproto.sync.subscribeRepos: that
of a relay with the firehose surface, or of any other host that has one.

   sluice firehose tail
   sluice firehose tail --url wss://relay.example --cursor-file cursor --json
   sluice firehose publish frames.cbor

From one relay to another, by the frame:

   sluice firehose tail --url wss://one.example --raw |
      sluice firehose publish --url https://two.example -`

// firehoseCommand reads and feeds repository event streams.
func (a *app) firehoseCommand() *cli.Command {
	return &cli.Command{
		Name:            "firehose",
		Usage:           "follow and feed a repository event stream (atproto)",
		Description:     firehoseHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Commands:        []*cli.Command{a.firehoseTailCommand(), a.firehosePublishCommand()},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return cmdline.UsageError{Err: fmt.Errorf("unknown command %q: see %s --help", name, cmd.FullName())}
			}
			return cmdline.UsageError{Err: fmt.Errorf("say which command: tail or publish: see %s --help", cmd.FullName())}
		},
	}
}

// firehoseURLFlag names the relay. There is no token of the AEP surface beside
// it: the stream needs none, and it may be a stranger's.
func firehoseURLFlag() cli.Flag {
	return &cli.StringFlag{
		Name:        flagURL,
		Usage:       "the relay's address: ws, wss, http, https or unix:/path [" + envURL + "]",
		DefaultText: client.DefaultURL,
	}
}

// firehoseRelay returns the relay that the flag and the environment name. Any
// error is a cmdline.UsageError.
func (a *app) firehoseRelay(cmd *cli.Command, token string) (*client.Relay, error) {
	address := cmd.String(flagURL)
	if !cmd.IsSet(flagURL) {
		address = a.variable(envURL)
	}
	r, err := client.New(repos.Address(address), token)
	if err != nil {
		return nil, cmdline.UsageError{Err: err}
	}
	return r, nil
}
