package testrelay

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relay"
)

// asRelay is set for a test binary that is to be a relay.
const asRelay = "TEST_BINARY_AS_RELAY"

// stopTime is far more than the 5 s after which a relay closes what is left
// (R464): it is only used up when a test fails.
const stopTime = time.Minute

// Main serves, and ends the process, if this test binary was started by Spawn.
func Main() {
	if os.Getenv(asRelay) != "" {
		os.Exit(serve())
	}
}

// serve serves as the program does, and returns its exit code.
func serve() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := config.FromEnv(os.LookupEnv)
	if err == nil {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
		err = relay.Run(ctx, cfg, log, os.Stdout, relay.Control{Version: "test"})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	return 0
}

// Environ returns the variable, as NAME=value, that makes this test binary a
// relay when it is run.
func Environ() string { return asRelay + "=1" }

// Spawn starts a relay in a process of its own, with settings as NAME=value, as
// faults.Start does. Nobody ends it.
func Spawn(settings ...string) (*faults.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return faults.Start(self, nil, append([]string{Environ()}, settings...)...)
}

// SpawnKilled is Spawn for a relay that is killed when the test ends.
func SpawnKilled(tb testing.TB, settings ...string) *faults.Process {
	tb.Helper()
	p, err := Spawn(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Kill)
	return p
}

// Start starts a relay in this process, on a free port of 127.0.0.1 and without
// an admin listener unless settings, as NAME=value, say otherwise. It has no log,
// and nobody ends it: see Stop.
func Start(tb testing.TB, settings ...string) *relay.Relay {
	tb.Helper()
	env := map[string]string{"AEP_PORT": "0", "AEP_HOST": "127.0.0.1", "SLUICE_ADMIN": "off"}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	cfg, err := config.FromEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		tb.Fatal(err)
	}
	r, err := relay.New(cfg, slog.New(slog.DiscardHandler), "test")
	if err != nil {
		tb.Fatal(err)
	}
	if err := r.Start(); err != nil {
		tb.Fatal(err)
	}
	return r
}

// Stop ends a relay in an orderly way, which must succeed; a second time it does
// nothing (R464).
func Stop(tb testing.TB, r *relay.Relay) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		tb.Errorf("R464: Shutdown: %v", err)
	}
}
