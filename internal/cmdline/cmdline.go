package cmdline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"
)

// UsageError marks an error of whoever wrote the command line or set the
// environment.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e UsageError) Unwrap() error { return e.Err }

// OnUsageError keeps the library from printing its help on an error. It is a
// command's OnUsageError.
func OnUsageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	return UsageError{fmt.Errorf("%w: see %s --help", err, cmd.FullName())}
}

// NoArguments refuses arguments that would be ignored, with a UsageError.
func NoArguments(cmd *cli.Command) error {
	if arg := cmd.Args().First(); arg != "" {
		return UsageError{fmt.Errorf("%s takes no argument, got %q", cmd.FullName(), arg)}
	}
	return nil
}

// Exit writes what a program ended with on stderr, as one line, and returns its
// exit code: 0 without an error, usage for a UsageError, a cli.ExitCoder's own,
// and 1 for any other. An error without a text is not written: all was said.
func Exit(stderr io.Writer, program string, err error, usage int) int {
	if err == nil {
		return 0
	}
	code := 1
	if exit, ok := errors.AsType[cli.ExitCoder](err); ok {
		code = exit.ExitCode()
	} else if _, ok := errors.AsType[UsageError](err); ok {
		code = usage
	}
	if text := err.Error(); text != "" {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", program, text)
	}
	return code
}
