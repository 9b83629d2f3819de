package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/bench/syncload"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
)

const (
	syncRelay = "sync-relay"
	syncProbe = "sync-probe"
	flagGroup = "group"
	flagAddr  = "addr"
	flagFor   = "for"

	syncFile = "sync.md"
)

const syncHelp = `Pushes of 64 owners with group commit and with a transaction each, a pull of
100,000 events, 1,000 chunks of 256 KiB, 10,000 devices that wait, sealing and
opening of events and the first sync of a device with 100,000 rows, and the
latency of the AEP relay beside each load. The relay, this program's own code,
runs in a process of its own. The report is sync.md in the directory of --out.`

// syncCommand measures the sync relay.
func (a *app) syncCommand() *cli.Command {
	return &cli.Command{
		Name:            "sync",
		Usage:           "measure the encrypted sync relay",
		Description:     syncHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagOut, Value: "bench/out", Usage: "`DIR` for the report"},
			&cli.BoolFlag{Name: flagQuick, Usage: "only a smoke of each kind of load"},
			&cli.IntFlag{Name: flagRounds, Usage: "`N` rounds instead of its own"},
		},
		Action: a.runSync,
	}
}

func (a *app) runSync(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := syncload.Standard
	if cmd.Bool(flagQuick) {
		o = syncload.Quick
	}
	if n := cmd.Int(flagRounds); n > 0 {
		o.Rounds = n
	}
	p := syncload.Program{
		Path:  self,
		Relay: func(group int) []string { return []string{syncRelay, "--" + flagGroup, strconv.Itoa(group)} },
		Probe: func(addr string, d time.Duration) []string {
			return []string{syncProbe, "--" + flagAddr, addr, "--" + flagFor, d.String()}
		},
	}
	var out bytes.Buffer
	if err := syncload.Run(ctx, p, o, &out, a.stderr); err != nil {
		return err
	}
	dir := cmd.String(flagOut)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, syncFile), out.Bytes(), 0o644); err != nil {
		return err
	}
	_, err = io.Copy(a.stdout, &out)
	return err
}

// syncRelayCommand is the relay of the sync command, settings from the
// environment.
func (a *app) syncRelayCommand() *cli.Command {
	return &cli.Command{
		Name:   syncRelay,
		Hidden: true,
		Flags:  []cli.Flag{&cli.IntFlag{Name: flagGroup}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			defer release()
			cfg, err := config.FromEnv(os.LookupEnv)
			if err != nil {
				return cmdline.UsageError{Err: err}
			}
			cfg.Sync.GroupCount = cmd.Int(flagGroup)
			// At info: the line of the admin listener tells where that is.
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			return relay.Run(ctx, cfg, log, a.stdout, relay.Control{Version: "bench"})
		},
	}
}

// syncProbeCommand is the prober of the sync command.
func (a *app) syncProbeCommand() *cli.Command {
	return &cli.Command{
		Name:   syncProbe,
		Hidden: true,
		Flags:  []cli.Flag{&cli.StringFlag{Name: flagAddr}, &cli.DurationFlag{Name: flagFor, Value: time.Second}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.String(flagAddr) == "" {
				return cmdline.UsageError{Err: fmt.Errorf("--%s names no relay", flagAddr)}
			}
			return syncload.Probe(ctx, cmd.String(flagAddr), cmd.Duration(flagFor), a.stdout)
		},
	}
}
