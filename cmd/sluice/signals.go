package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-relay/sluice/internal/relay"
)

// catchSignals takes the signals over and hands them on:
//
//   - The first SIGTERM or SIGINT ends the returned context (R460).
//   - The second closes Hurry; further ones change nothing.
//   - SIGHUP sends to Reload (C101). While one is waiting there, others add
//     nothing: the reload that it starts comes after all of them.
//
// From its return on none of these signals ends the process, whatever the
// receivers do, until release is called.
func catchSignals(parent context.Context) (ctx context.Context, ctl relay.Control, release func()) {
	ctx, cancel := context.WithCancel(parent)
	// Each kind has a channel of its own with room for all that counts, so
	// that a flood of one cannot push the other out.
	end := make(chan os.Signal, 2)
	hangup := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(hangup, syscall.SIGHUP)

	reload := make(chan struct{}, 1)
	hurry := make(chan struct{})
	released := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ends := 0; ; {
			select {
			case <-end:
				switch ends++; ends {
				case 1:
					cancel()
				case 2:
					close(hurry)
				}
			case <-hangup:
				select {
				case reload <- struct{}{}:
				default:
				}
			case <-released:
				return
			}
		}
	}()
	return ctx, relay.Control{Version: version(), Reload: reload, Hurry: hurry}, func() {
		signal.Stop(end)
		signal.Stop(hangup)
		close(released)
		<-done
		cancel()
	}
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends; from then on
// a second one ends the process at once, if the output does not take what is left.
// In the program itself a write to a pipe whose reader is gone is then an error,
// not the end.
func (a *app) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.exits {
		signal.Ignore(syscall.SIGPIPE)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
