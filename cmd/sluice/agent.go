package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/client/agent"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

const (
	// envAgentToken has the token of the surface.
	envAgentToken = "AEPWS_TOKEN"
	// defaultAgentURL is where a relay has the surface that was started without
	// settings.
	defaultAgentURL = "ws://127.0.0.1:8787" + agent.DefaultPath
)

// Flags of both commands.
const (
	flagAgentTenant    = "tenant"
	flagAgentSessionID = "session-id"
	flagAgentMode      = "mode"
)

const agentHelp = `Follows and publishes the events of agents at a relay with the aepws surface: JSON
over a WebSocket with the subprotocol aep-0.1.

   sluice agent tail
   sluice agent tail --type 'task.*' --target planner --cursor-file cursor
   sluice agent emit events.ndjson

The commands "sluice tail" and "sluice emit" are for the relay's other surface.`

// agentCommand follows and publishes over the aep-0.1 binding.
func (a *app) agentCommand() *cli.Command {
	return &cli.Command{
		Name:            "agent",
		Usage:           "follow and publish agents' events over a WebSocket (aep-0.1)",
		Description:     agentHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Commands:        []*cli.Command{a.agentTailCommand(), a.agentEmitCommand()},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return cmdline.UsageError{Err: fmt.Errorf("unknown command %q: see %s --help", name, cmd.FullName())}
			}
			return cmdline.UsageError{Err: fmt.Errorf("say which command: tail or emit: see %s --help", cmd.FullName())}
		},
	}
}

// agentFlags returns the flags that say which relay is spoken to, and as whom;
// [app.agentPeer] reads them.
func agentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: flagURL,
			Usage: "the relay's address: ws, wss, http, https or unix:/path [" + envURL + "]; without a path it gets " +
				agent.DefaultPath,
			DefaultText: defaultAgentURL,
		},
		&cli.StringFlag{
			Name: flagTokenFile, Usage: "`FILE` whose first token is sent, in place of " + envAgentToken,
			DefaultText: "none",
		},
		&cli.StringFlag{Name: flagAgentTenant, Usage: "`TENANT` of the session", DefaultText: "none"},
		&cli.StringFlag{
			Name: flagAgentSessionID, Usage: "`ID` of the session; who opens one last has it",
			DefaultText: "the relay's choice",
		},
	}
}

// agentPeer returns what the flags of agentFlags and the environment say. Any
// error is a cmdline.UsageError.
func (a *app) agentPeer(cmd *cli.Command) (agent.Peer, error) {
	p := agent.Peer{SessionID: cmd.String(flagAgentSessionID), Tenant: cmd.String(flagAgentTenant)}
	usage := func(err error) (agent.Peer, error) { return agent.Peer{}, cmdline.UsageError{Err: err} }
	if err := notEmpty(cmd, flagAgentTenant, flagAgentSessionID, flagAgentMode); err != nil {
		return usage(err)
	}
	if p.SessionID != "" && !aepws.ValidSessionID(p.SessionID) {
		return usage(fmt.Errorf("--%s is 1 to 128 visible ASCII characters, got %q", flagAgentSessionID, p.SessionID))
	}
	address := cmd.String(flagURL)
	if !cmd.IsSet(flagURL) {
		address = a.variable(envURL)
	}
	token, err := a.agentToken(cmd)
	if err == nil {
		p.Relay, err = agent.NewRelay(address, token)
	}
	if err != nil {
		return usage(err)
	}
	return p, nil
}

// notEmpty refuses flags that are set to nothing: each would more likely be a
// shell variable that is not set.
func notEmpty(cmd *cli.Command, names ...string) error {
	for _, name := range names {
		if cmd.IsSet(name) && cmd.String(name) == "" {
			return fmt.Errorf("--%s is empty", name)
		}
	}
	return nil
}

// agentToken returns the token of the flag's file, or of the variable; "" for
// none.
func (a *app) agentToken(cmd *cli.Command) (string, error) {
	file := cmd.String(flagTokenFile)
	switch {
	case file != "":
		tokens, err := auth.ReadTokenFile(file)
		if err != nil {
			return "", fmt.Errorf("token file %w", err)
		}
		return tokens[0], nil
	case cmd.IsSet(flagTokenFile):
		return "", fmt.Errorf("--%s %w", flagTokenFile, errNoTokenFile)
	}
	token := a.variable(envAgentToken)
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", fmt.Errorf("%s: %w", envAgentToken, errToken)
	}
	return token, nil
}

// agentModes are the values of --mode.
var agentModes = []aepws.Mode{aepws.BestEffort, aepws.AtLeastOnce, aepws.Replayable}

// agentMode returns the mode of the flag, ModeAbsent if it is not set.
func agentMode(cmd *cli.Command) (aepws.Mode, error) {
	name := cmd.String(flagAgentMode)
	if name == "" {
		return aepws.ModeAbsent, nil
	}
	for _, m := range agentModes {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, cmdline.UsageError{Err: fmt.Errorf("--%s: %q is none of %s, %s, %s", flagAgentMode, name, agentModes[0], agentModes[1], agentModes[2])}
}

// agentError is the error of a command, with what to do about it.
func agentError(cmd *cli.Command, what string, err error) error {
	if r, ok := errors.AsType[*agent.Refusal](err); ok && r.Status == 401 {
		return fmt.Errorf("%s: %w; see --%s in %s --help", what, err, flagTokenFile, cmd.FullName())
	}
	return fmt.Errorf("%s: %w", what, err)
}
