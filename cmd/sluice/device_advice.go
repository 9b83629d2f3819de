package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// absentDevice says what to do when there is no device in dir, or only a part of
// one.
func absentDevice(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	credential := credentialPath(dir)
	if _, failed := os.Stat(credential); failed == nil {
		return fmt.Errorf("%w: \"sluice device restore --phrase-file %s\" finishes it", err, credential)
	}
	if _, failed := os.Stat(filepath.Join(dir, "device.db")); failed == nil {
		return fmt.Errorf("%w: write the owner's phrase to %s, as one line and with mode 0600", err, credential)
	}
	return fmt.Errorf("there is no device in %s: \"sluice device init\" makes one for a new owner, "+
		"\"sluice device restore\" one more of an owner; --%s or %s names another directory", dir, flagDeviceDir, envDevice)
}

// presentDevice says what to do when there is a device already.
func presentDevice(dir string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("there is a device in %s already, and nothing was changed: --%s or %s names another directory, "+
			"\"sluice device rekey\" gives the owner a new phrase", dir, flagDeviceDir, envDevice)
	}
	return err
}

// explain is the text of an error, with what to do about it.
func (r *deviceRun) explain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // of joined errors
	if advice := deviceAdvice(err); advice != "" {
		return text + ": " + advice
	}
	return text
}

// deviceAdvice says what to do about an error, "" if its text says it.
func deviceAdvice(err error) string {
	if errors.Is(err, device.ErrRekeyUnready) {
		return "try again when the relay is there, or use --" + flagDeviceForce + " and lose what only it has"
	}
	if refusal, ok := errors.AsType[*device.Refusal](err); ok {
		return refusalAdvice(refusal)
	}
	switch {
	case errors.Is(err, device.ErrNoRelays):
		return "\"sluice device relay add URL\""
	case errors.Is(err, devicestore.ErrRelayExists), errors.Is(err, devicestore.ErrNoRelay):
		return "\"sluice device relay list\" shows the relays"
	case errors.Is(err, sqldb.ErrBusy):
		return "another process is writing to this device for long; try again"
	case errors.Is(err, sqldb.ErrNewerSchema):
		return "a newer sluice wrote it: use that one"
	case errors.Is(err, devicestore.ErrOwnerChanged):
		return "another command has just re-keyed it; run this one again"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the relay speaks http there, not https"
	case errors.Is(err, os.ErrPermission):
		return "run the command as the user whose device this is"
	}
	if ofNetwork(err) {
		return "is the relay up, and the network? nothing is lost, and the next sync goes on"
	}
	return ""
}

// ofNetwork tells whether an error comes from a connection. A file's error is
// a net.Error by its methods too.
func ofNetwork(err error) bool {
	if _, file := errors.AsType[*fs.PathError](err); file {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

// refusalAdvice says what to do about a relay's answer (D34).
func refusalAdvice(r *device.Refusal) string {
	switch r.Status {
	case http.StatusUnauthorized:
		return "this owner was first at that relay with another token, or something between asks for one; is it the right address?"
	case http.StatusForbidden:
		return "the relay takes no more owners, or not this one: ask who runs it, or use another"
	case http.StatusGone:
		return "the owner is closed there, by a re-key on another device: \"sluice device rekey --phrase-file FILE\" with the " +
			"new phrase follows it, \"sluice device rekey\" makes a new owner"
	case http.StatusRequestEntityTooLarge:
		return "the relay has no room for it: delete rows and purge, or ask who runs it for a higher limit; what is there stays readable"
	case http.StatusTooManyRequests:
		return "the relay asks for a pause: it is tried again in some minutes"
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return "is it the address of a sync relay?"
	}
	if r.Status >= http.StatusInternalServerError {
		return "the relay is in trouble: nothing is lost, try again later"
	}
	return ""
}

// deviceLog tells of what goes wrong meanwhile, as a line on standard error, with
// what to do about it.
func (r *deviceRun) deviceLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(&logLines{r: r}, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			if err, ok := a.Value.Any().(error); ok {
				return slog.String(a.Key, r.explain(err))
			}
			return a
		},
	}))
}

// logLines writes the lines of a log as the program's own. The handler calls it
// with one line at a time, under its lock.
type logLines struct{ r *deviceRun }

// Write implements io.Writer.
func (l *logLines) Write(p []byte) (int, error) {
	l.r.say("%s", strings.TrimPrefix(strings.TrimSuffix(string(p), "\n"), slog.MessageKey+"="))
	return len(p), nil
}
