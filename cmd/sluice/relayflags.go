package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/config"
)

// envURL is the variable that names the relay for all commands that speak to
// one.
const envURL = "SLUICE_URL"

// Flags of all commands that speak to a relay. There is none for the token
// itself: everyone on the machine sees the arguments of a process.
const (
	flagURL       = "url"
	flagTokenFile = "token-file"
)

// errToken is the error of a token that cannot be sent as a header.
var errToken = errors.New("the token is not visible ASCII without spaces")

// relayFlags returns the flags that say which relay a command speaks to;
// [app.relay] reads them.
func relayFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name:        flagURL,
			Usage:       "the relay's address: http, https or unix:/path [" + envURL + "]",
			DefaultText: client.DefaultURL,
		},
		&cli.StringFlag{
			Name: flagTokenFile,
			Usage: "file whose first token is sent; else the token is taken from " + config.EnvToken +
				" [" + config.EnvTokenFile + "]",
			DefaultText: "none",
		},
	}
}

// relay returns the relay that the flags and the environment name. Any error
// is a cmdline.UsageError.
func (a *app) relay(cmd *cli.Command) (*client.Relay, error) {
	address := cmd.String(flagURL)
	if !cmd.IsSet(flagURL) {
		address = a.variable(envURL)
	}
	token, err := a.token(cmd)
	if err != nil {
		return nil, cmdline.UsageError{Err: err}
	}
	r, err := client.New(address, token)
	if err != nil {
		return nil, cmdline.UsageError{Err: err}
	}
	return r, nil
}

// token returns the token to send, "" for none: of the flag's file, of the
// variable, or of the file that the other variable names, in this order. What
// is set to nothing counts as not set (R11), except for the flag: there it
// would more likely be a shell variable that is not set.
func (a *app) token(cmd *cli.Command) (string, error) {
	file := cmd.String(flagTokenFile)
	if cmd.IsSet(flagTokenFile) && file == "" {
		return "", fmt.Errorf("--%s %w", flagTokenFile, errNoTokenFile)
	}
	if file == "" {
		if token := a.variable(config.EnvToken); token != "" {
			if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
				return "", fmt.Errorf("%s: %w", config.EnvToken, errToken)
			}
			return token, nil
		}
		if file = a.variable(config.EnvTokenFile); file == "" {
			return "", nil
		}
	}
	tokens, err := auth.ReadTokenFile(file)
	if err != nil {
		return "", fmt.Errorf("token file %w", err)
	}
	return tokens[0], nil
}

// variable returns a variable of the environment, "" if it is not set.
func (a *app) variable(name string) string {
	if a.lookup == nil {
		return ""
	}
	value, _ := a.lookup(name)
	return value
}
