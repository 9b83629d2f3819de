package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/bench/firehoseload"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/faults"
)

const (
	firehoseFloor  = "firehose-floor"
	firehoseSource = "firehose-source"
	flagThreads    = "threads"
	flagCount      = "count"

	firehoseFile = "firehose.md"
)

const firehoseHelp = `Commits of 1.2 KB to 1,000 and 10,000 consumers of the repository event stream
beside the floor of bare writes, 1,000 consumers that stall beside 100 that
read, and the stream of another host. The relay runs in a process of its own,
and so do the floor and the host. The report is firehose.md in the directory of
--out.`

// firehoseCommand measures the repository event stream.
func (a *app) firehoseCommand() *cli.Command {
	return &cli.Command{
		Name:            "firehose",
		Usage:           "measure the repository event stream",
		Description:     firehoseHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagRelay, Value: "bin/sluice", Usage: "`PATH` of the relay"},
			&cli.StringFlag{Name: flagOut, Value: "bench/out", Usage: "`DIR` for the report"},
			&cli.StringSliceFlag{Name: flagEnv, Usage: "`NAME=VALUE` for the relay, may be repeated"},
			&cli.BoolFlag{Name: flagQuick, Usage: "only a smoke of each kind of load"},
			&cli.IntFlag{Name: flagRounds, Usage: "`N` rounds instead of its own"},
		},
		Action: a.runFirehose,
	}
}

func (a *app) runFirehose(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := firehoseload.Standard
	if cmd.Bool(flagQuick) {
		o = firehoseload.Quick
	}
	if n := cmd.Int(flagRounds); n > 0 {
		o = o.WithRounds(n)
	}
	p := firehoseload.Program{
		Relay: func(env ...string) (*faults.Process, error) {
			return faults.Start(cmd.String(flagRelay), []string{"serve"}, append(env, cmd.StringSlice(flagEnv)...)...)
		},
		Floor: func(threads int) *exec.Cmd {
			return exec.Command(self, firehoseFloor, "--"+flagThreads, strconv.Itoa(threads))
		},
		Source: func(count int) *exec.Cmd {
			return exec.Command(self, firehoseSource, "--"+flagCount, strconv.Itoa(count))
		},
	}
	var out bytes.Buffer
	if err := firehoseload.Run(ctx, p, o, &out, a.stderr); err != nil {
		return err
	}
	dir := cmd.String(flagOut)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, firehoseFile), out.Bytes(), 0o644); err != nil {
		return err
	}
	_, err = io.Copy(a.stdout, &out)
	return err
}

// firehoseFloorCommand is the floor of the firehose command.
func (a *app) firehoseFloorCommand() *cli.Command {
	return &cli.Command{
		Name:   firehoseFloor,
		Hidden: true,
		Flags:  []cli.Flag{&cli.IntFlag{Name: flagThreads, Value: 1}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			defer release()
			return firehoseload.Floor(ctx, cmd.Int(flagThreads), a.stdout)
		},
	}
}

// firehoseSourceCommand is the host whose stream the firehose command has taken.
func (a *app) firehoseSourceCommand() *cli.Command {
	return &cli.Command{
		Name:   firehoseSource,
		Hidden: true,
		Flags:  []cli.Flag{&cli.IntFlag{Name: flagCount, Value: 1}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			defer release()
			return firehoseload.Source(ctx, cmd.Int(flagCount), os.Stdin, a.stdout)
		},
	}
}
