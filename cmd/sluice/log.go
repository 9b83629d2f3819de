package main

import (
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/sluice-relay/sluice/internal/config"
)

// newLogger returns the log handler that the configuration asks for.
func newLogger(w io.Writer, cfg config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// buildVersion is set by the linker (make build).
var buildVersion string

// version returns the version of this build: what the linker was told, else
// what the go command knew of the module, else "dev".
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
