package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/bench/aepwsload"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/faults"
)

const aepwsFile = "aepws.md"

const aepwsHelp = `Events to 1,000 and 10,000 sessions of the aep-0.1 binding beside as many of the
AEP surface of the same relay, events that are acknowledged, with group commit
and with a commit for each, the heartbeats of 10,000 idle sessions, and a replay
of 100,000 events beside live ones. The relay runs in a process of its own. The
report is aepws.md in the directory of --out.`

// aepwsCommand measures the aep-0.1 binding.
func (a *app) aepwsCommand() *cli.Command {
	return &cli.Command{
		Name:            "aepws",
		Usage:           "measure the aep-0.1 WebSocket binding",
		Description:     aepwsHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagRelay, Value: "bin/sluice", Usage: "`PATH` of the relay"},
			&cli.StringFlag{Name: flagOut, Value: "bench/out", Usage: "`DIR` for the report"},
			&cli.StringSliceFlag{Name: flagEnv, Usage: "`NAME=VALUE` for the relay, may be repeated"},
			&cli.BoolFlag{Name: flagQuick, Usage: "only a smoke of each kind of load"},
			&cli.IntFlag{Name: flagRounds, Usage: "`N` rounds instead of its own"},
		},
		Action: a.runAEPWS,
	}
}

func (a *app) runAEPWS(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	o := aepwsload.Standard
	if cmd.Bool(flagQuick) {
		o = aepwsload.Quick
	}
	if n := cmd.Int(flagRounds); n > 0 {
		o = o.WithRounds(n)
	}
	p := aepwsload.Program{Relay: func(env ...string) (*faults.Process, error) {
		return faults.Start(cmd.String(flagRelay), []string{"serve"}, append(env, cmd.StringSlice(flagEnv)...)...)
	}}
	var out bytes.Buffer
	if err := aepwsload.Run(ctx, p, o, &out, a.stderr); err != nil {
		return err
	}
	dir := cmd.String(flagOut)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, aepwsFile), out.Bytes(), 0o644); err != nil {
		return err
	}
	_, err := io.Copy(a.stdout, &out)
	return err
}
