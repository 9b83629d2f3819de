package netloop

import (
	"fmt"
	"log/slog"
)

// reactorLog hands the reactor's warnings and errors to slog; the rest is
// noise. The reactor keeps one logger for the whole process, the last one set.
type reactorLog struct{ log *slog.Logger }

func (reactorLog) Debugf(string, ...any) {}
func (reactorLog) Infof(string, ...any)  {}

func (l reactorLog) Warnf(format string, args ...any) {
	l.log.Warn("reactor", "text", fmt.Sprintf(format, args...))
}

func (l reactorLog) Errorf(format string, args ...any) {
	l.log.Error("reactor", "text", fmt.Sprintf(format, args...))
}

// Fatalf logs only: a library does not end the process.
func (l reactorLog) Fatalf(format string, args ...any) { l.Errorf(format, args...) }
