package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/config"
)

// Control is what the program around a relay has for it. A nil channel is never
// ready.
type Control struct {
	// Version is the build's, for the admin listener and the sync relay.
	Version string
	// Reload is received from at each SIGHUP: the token file is read again
	// (C101). Several that come at once are one.
	Reload <-chan struct{}
	// Hurry is closed by the second signal to end: what is left of the drain
	// window is skipped.
	Hurry <-chan struct{}
}

// reload reads the token file again. On an error the tokens stay as they are.
func (r *Relay) reload() {
	tokens, err := r.cfg.Tokens()
	if err == nil {
		err = r.auth.Set(tokens)
	}
	if err != nil {
		r.log.Error("reload failed, the tokens stay as they are", "error", err)
		return
	}
	r.log.Info("reloaded", "tokens", len(tokens))
}

// Run serves until ctx ends and then shuts down. It writes the line that says
// where the relay listens to stdout (R12). It returns nil after a complete
// shutdown.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, stdout io.Writer, ctl Control) error {
	tuneCollector(cfg, log)
	r, err := New(cfg, log, ctl.Version)
	if err != nil {
		return err
	}
	r.startAdmin(ctl.Version)
	if err := r.Start(); err != nil {
		return err
	}
	state := "OFF (watch-only: no commands)"
	if cfg.HasToken() {
		state = "on"
	}
	if _, err := fmt.Fprintf(stdout, "aep-relay listening on %s, auth %s\n", r.Addr(), state); err != nil {
		log.Warn("cannot write to standard output", "error", err)
	}
	for {
		select {
		case <-ctl.Reload:
			r.reload()
		case <-ctx.Done():
			log.Info("shutting down", "drain", cfg.Drain)
			return r.end(context.WithoutCancel(ctx), ctl)
		case <-r.Failed():
			if r.Err() == nil {
				return errors.New("relay: serving ended by itself")
			}
			return r.Err()
		}
	}
}

// tuneCollector hands the profile's values to the Go runtime, for the whole
// process. Those of the environment it took by itself before main.
func tuneCollector(cfg config.Config, log *slog.Logger) {
	if cfg.FromPreset(config.EnvGCPercent) {
		debug.SetGCPercent(cfg.GCPercent)
	}
	if cfg.FromPreset(config.EnvMemoryLimit) {
		debug.SetMemoryLimit(cfg.MemoryLimitBytes)
	}
	if cfg.Profile != "" {
		log.Info("profile", "name", cfg.Profile, "gives", strings.Join(cfg.Preset, " "))
	}
}

// end shuts down, and lets the operator cut the drain window short.
func (r *Relay) end(ctx context.Context, ctl Control) error {
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-ctl.Hurry:
			r.Hurry()
			ctl.Hurry = nil
		case <-ctl.Reload: // changes nothing any more
		}
	}
}

// startAdmin starts the admin listener. The relay serves without it when its
// address is taken.
func (r *Relay) startAdmin(version string) {
	if r.cfg.Admin == "" {
		return
	}
	srv, err := admin.Start(admin.Config{Addr: r.cfg.Admin, Source: r, Log: r.log, Version: version})
	if err != nil {
		r.log.Warn("no admin listener", "addr", r.cfg.Admin, "error", err)
		return
	}
	r.admin = srv
	go r.beat()
	r.log.Info("admin listener", "addr", srv.Addr())
}

// beat rings the loops, so that one which does not turn is seen in time.
func (r *Relay) beat() {
	tick := time.NewTicker(beatInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, w := range r.workers {
				w.Loop().Ring()
			}
		case <-r.served:
			return
		}
	}
}
