package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/config"
)

// flagPrintConfig is the flag that mirrors no variable.
const flagPrintConfig = "print-config"

// errNoTokenFile is the error of a --token-file that is set to nothing.
var errNoTokenFile = errors.New("names no file")

// serveHelp teaches the first minute: publish, watch, resume.
const serveHelp = `Publish an event, and watch what is published:

   curl -N http://127.0.0.1:8787/stream

   curl http://127.0.0.1:8787/events \
     -H 'AEP-Version: 0.1' -H 'Content-Type: application/json' \
     -d '` + exampleEvent + `'

Watch one session only, from its first event that is still held:

   curl -NG http://127.0.0.1:8787/stream \
     --data-urlencode 'filter={"session":"demo"}' \
     --data-urlencode 'from=[{"session":"demo"}]'

Many events in one request, one JSON text a line:

   curl http://127.0.0.1:8787/events -H 'AEP-Version: 0.1' \
     -H 'Content-Type: application/x-ndjson' --data-binary @events.ndjson

With a token (commands to agents need one), and bound to every interface:

   AEP_TOKEN=secret sluice serve
   curl -N -H 'Authorization: Bearer secret' http://relay.example:8787/stream

Each flag has a variable, named in brackets; the flag wins. A profile gives
what neither sets; GOGC and GOMEMLIMIT are variables only. Tokens come from
AEP_TOKEN and the token file, never from the command line; all are valid.
SYNC_ADMIN_TOKEN, FIREHOSE_PUBLISH_TOKEN, FIREHOSE_ADMIN_TOKEN and AEPWS_TOKEN
are those of the other surfaces, each for routes of its own.
SIGHUP reads the token file again; clients that are connected stay.

SIGTERM or SIGINT ends the relay: streams are told, what is queued is sent,
and it exits within 5 s after the window of --drain. A second one skips what
is left of that window.`

// exampleEvent is a valid event (R101 to R107), as the README shows it too.
const exampleEvent = `{"aep":"0.1","id":"demo-0","type":"run.started",` +
	`"time":"2026-01-01T00:00:00Z","source":"urn:demo:shell","agent":"demo","session":"demo","seq":0}`

// serveCommand runs the relay.
func (a *app) serveCommand() *cli.Command {
	return &cli.Command{
		Name:            "serve",
		Usage:           "run the relay",
		Description:     serveHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags:           serveFlags(),
		Action:          a.runServe,
	}
}

// serveFlags returns a flag for each variable that is no secret, and the one
// that mirrors none.
func serveFlags() []cli.Flag {
	var flags []cli.Flag
	for _, v := range config.Variables() {
		if v.Flag == "" {
			continue
		}
		flags = append(flags, &cli.StringFlag{
			Name:        v.Flag,
			Usage:       v.Usage + " [" + v.Env + "]",
			DefaultText: v.Default,
		})
	}
	return append(
		flags,
		&cli.BoolFlag{Name: flagPrintConfig, Usage: "print the resulting configuration, secrets masked, and exit"},
	)
}

// runServe reads the configuration and runs the relay until a signal.
func (a *app) runServe(ctx context.Context, cmd *cli.Command) error {
	// Before all else: a SIGHUP that comes early must not end the process.
	ctx, ctl, release := catchSignals(ctx)
	if !a.exits {
		defer release()
	}
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	cfg, err := a.configure(cmd)
	if err != nil {
		return cmdline.UsageError{Err: err}
	}
	if cmd.Bool(flagPrintConfig) {
		_, err := fmt.Fprint(a.stdout, cfg)
		return err
	}
	log := newLogger(a.stderr, cfg)
	warn(log, cfg)
	err = a.serve(ctx, cfg, log, a.stdout, ctl)
	if wrong, ok := errors.AsType[*config.VariableError](err); ok { // found out only when it was to be served
		return cmdline.UsageError{Err: wrong}
	}
	return err
}

// warn logs what is allowed and deserves a thought.
func warn(log *slog.Logger, cfg config.Config) {
	if cfg.Exposed() {
		log.Warn("no token is set and the bind address is not loopback: anyone who reaches it may read and publish; "+
			"set AEP_TOKEN, or bind loopback", "listen", strings.Join(cfg.ListenAddrs(), " "))
	}
	if cfg.MemoryTight() {
		log.Warn("the replay buffers and the live window alone would fill the memory limit, and the collector would run "+
			"without a pause: lower AEP_BUFFER_BYTES, or raise GOMEMLIMIT",
			"buffer_bytes", cfg.BufferBytes, "memory_limit_bytes", cfg.MemoryLimitBytes)
	}
	if cfg.TokenFile == "" {
		return
	}
	if err := auth.TokenFileWarning(cfg.TokenFile); err != nil {
		log.Warn("the token file is not private", "error", err)
	}
}

// configure lays the flags over the environment and reads the result. The
// token file is read too, so that a bad one stops the start here (R11).
func (a *app) configure(cmd *cli.Command) (config.Config, error) {
	over := map[string]string{}
	flagOf := map[string]string{}
	for _, v := range config.Variables() {
		if v.Flag != "" && cmd.IsSet(v.Flag) {
			over[v.Env] = cmd.String(v.Flag)
			flagOf[v.Env] = "--" + v.Flag
		}
	}
	// Nothing clears a variable, but here it would more likely be a shell
	// variable that is not set, and open the relay unseen.
	if file, set := over[config.EnvTokenFile]; set && file == "" {
		return config.Config{}, nameFlag(&config.VariableError{Env: config.EnvTokenFile, Err: errNoTokenFile}, flagOf)
	}
	cfg, err := config.FromEnv(func(name string) (string, bool) {
		if value, ok := over[name]; ok {
			return value, true
		}
		return a.lookup(name)
	})
	if err == nil {
		_, err = cfg.Tokens()
	}
	return cfg, nameFlag(err, flagOf)
}

// nameFlag adds the flag to the error of a variable whose value came from
// one, so that the reader finds where to change it.
func nameFlag(err error, flagOf map[string]string) error {
	wrong, ok := errors.AsType[*config.VariableError](err)
	if !ok || flagOf[wrong.Env] == "" {
		return err
	}
	return &config.VariableError{Env: wrong.Env + " (" + flagOf[wrong.Env] + ")", Err: wrong.Err}
}
