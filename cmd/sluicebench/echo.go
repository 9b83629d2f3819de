package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/engine/netloop"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/echo"
)

const (
	flagListen = "listen"
	flagLimit  = "limit"
)

// defaultListen is the port that conformance suites look at by custom.
const defaultListen = "127.0.0.1:9001"

const echoHelp = `Every path is a WebSocket; text and binary messages come back as they are,
each as one frame. The frames, the handshake and the closing are the relay's
own code, so that a conformance suite can judge it:

   sluicebench echo --listen 127.0.0.1:9001
   wstest -m fuzzingclient -s fuzzingclient.json

Port 0 takes a free port; the line on standard output says which. SIGTERM or
SIGINT closes the sockets with 1001 and ends within 5 s.`

// echoCommand serves echo.
func (a *app) echoCommand() *cli.Command {
	return &cli.Command{
		Name:            "echo",
		Usage:           "serve WebSocket echo through the relay's own code",
		Description:     echoHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagListen, Value: defaultListen, Usage: "`ADDR` to listen on, host:port or unix:path"},
			&cli.Int64Flag{
				Name: flagLimit, Value: echo.DefaultLimitBytes,
				Usage: fmt.Sprintf("largest message in `BYTES`, fragments summed, at most %d", echo.MaxLimitBytes),
			},
		},
		Action: a.runEcho,
	}
}

// runEcho serves until a signal.
func (a *app) runEcho(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	limit := cmd.Int64(flagLimit)
	if limit == 0 { // would mean the default
		return cmdline.UsageError{Err: fmt.Errorf("%w: 0", echo.ErrLimit)}
	}
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	s, err := echo.New(echo.Config{Addr: cmd.String(flagListen), LimitBytes: limit, Log: log})
	switch {
	case errors.Is(err, echo.ErrLimit), errors.Is(err, netloop.ErrAddress):
		return cmdline.UsageError{Err: err}
	case err != nil:
		return err
	}
	s.Start()
	fmt.Fprintf(a.stdout, "sluicebench echo listening on %s\n", s.Addr())
	select {
	case <-ctx.Done():
	case <-s.Failed():
		return errors.Join(errors.New("serving ended by itself"), s.Err())
	}
	release() // from here on a second signal ends the process
	return s.Shutdown(context.WithoutCancel(ctx))
}
