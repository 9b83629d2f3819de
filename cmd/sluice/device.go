package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/device"
)

const (
	// envDevice names the directory of the device.
	envDevice = "SLUICE_DEVICE"
	// envDevicePhrase has a phrase, or a native key, for restore and rekey (D5).
	envDevicePhrase = "SLUICE_DEVICE_PHRASE"
	// defaultDevice is the directory without a flag and a variable.
	defaultDevice = "sluice-device"
)

// Flags of several commands of device.
const (
	flagDeviceDir  = "dir"
	flagDeviceJSON = "json"
	flagDeviceSync = "sync"
)

const deviceHelp = `A device of the encrypted sync relay: a directory that holds all rows and files of
one owner, readable here, encrypted everywhere else. Relays only pass on what they
cannot read; each device has a full copy.

   sluice device init --relay https://relay.example > phrase.txt
   sluice device put notes today '{"text":"hello"}'
   sluice device sync
   sluice device status

Another machine of the same owner:

   sluice device restore --phrase-file phrase.txt --relay https://relay.example
   sluice device sync
   sluice device get notes today
   sluice device watch

Rows are JSON objects, named by a table and an id. Commands write to the directory
and return, with or without a network; sync exchanges with the relays once, watch
does it all the time. Several commands may use one directory at once. Of two edits
of one row, the later one wins on every device.

The directory is --dir, or ` + envDevice + `, or ./` + defaultDevice + `. Its rows and its
key are not encrypted: it is for the owner's eyes, as any home directory.

Exit codes: 0 done, 1 failed, 78 the command line is wrong.`

// deviceCommand is a device of the encrypted sync relay.
func (a *app) deviceCommand() *cli.Command {
	return &cli.Command{
		Name:            "device",
		Usage:           "keep rows and files in sync, encrypted, over sync relays",
		Description:     deviceHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Commands: []*cli.Command{
			a.deviceInitCommand(), a.deviceRestoreCommand(), a.deviceRelayCommand(),
			a.devicePutCommand(), a.deviceGetCommand(), a.deviceListCommand(), a.deviceDeleteCommand(),
			a.deviceAttachCommand(), a.deviceFetchCommand(),
			a.deviceSyncCommand(), a.deviceWatchCommand(), a.deviceStatusCommand(),
			a.deviceExportCommand(), a.devicePurgeCommand(), a.deviceRekeyCommand(),
		},
		Action: sayWhichCommand("init, restore, relay, put, get, list, delete, attach, fetch, sync, watch, status, export, purge or rekey"),
	}
}

// sayWhichCommand is the action of a command that only has others. What was given
// instead is not repeated: it may be a phrase.
func sayWhichCommand(names string) cli.ActionFunc {
	return func(_ context.Context, cmd *cli.Command) error {
		what := "say which command"
		if cmd.Args().Present() {
			what = "there is no such command"
		}
		return cmdline.UsageError{Err: fmt.Errorf("%s: %s: see %s --help", what, names, cmd.FullName())}
	}
}

// deviceRun is one run of a command of device. Owned by one goroutine, but for say.
type deviceRun struct {
	*app
	cmd  *cli.Command
	out  *deviceOutput
	line *syncLine // of the sync that runs or ran last, nil for none
}

// deviceOutput is standard output that remembers its error, since an EPIPE may
// also come from a relay.
type deviceOutput struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (o *deviceOutput) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.err = err
	}
	return n, err
}

// devicePart is one of the commands of device.
func (a *app) devicePart(name, usage, arguments, description string,
	run func(*deviceRun, context.Context) error, flags ...cli.Flag,
) *cli.Command {
	return &cli.Command{
		Name:            name,
		Usage:           usage,
		ArgsUsage:       arguments,
		Description:     description,
		HideHelpCommand: true,
		// An address or a name may hold commas.
		DisableSliceFlagSeparator: true,
		OnUsageError:              deviceUsageError,
		Flags: append([]cli.Flag{
			&cli.StringFlag{
				Name: flagDeviceDir, Usage: "the device's `DIR` [" + envDevice + "]", DefaultText: "./" + defaultDevice,
			},
		}, flags...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ctx, stop := a.untilSignal(ctx)
			defer stop()
			r := &deviceRun{app: a, cmd: cmd, out: &deviceOutput{Writer: a.stdout}}
			err := run(r, ctx)
			switch _, usage := errors.AsType[cmdline.UsageError](err); {
			case err == nil || usage || err.Error() == "":
				return err
			case errors.Is(r.out.err, syscall.EPIPE) && !errors.Is(err, errHidden):
				return nil // the reader of the pipe has seen enough
			case ctx.Err() != nil && errors.Is(err, context.Canceled):
				return fmt.Errorf("%s: interrupted; what was written stays, the rest goes on with the next run", r.name())
			}
			return fmt.Errorf("%s: %s", r.name(), render.Escape(r.explain(err)))
		},
	}
}

// deviceUsageError is cmdline.OnUsageError without values, and names of flags that
// cannot be one: they may be a phrase (D5).
func deviceUsageError(ctx context.Context, cmd *cli.Command, err error, sub bool) error {
	text := err.Error()
	if _, value, found := strings.Cut(text, " for flag -"); found {
		name, _, _ := strings.Cut(value, ":")
		err = fmt.Errorf("the value of --%s cannot be read", name)
	} else if before, name, found := strings.Cut(text, "not defined: -"); found && !flagLike(name) {
		err = errors.New(before + "not defined")
	}
	return cmdline.OnUsageError(ctx, cmd, err, sub)
}

// flagLike tells whether a text may be shown as the name of a flag.
func flagLike(name string) bool {
	return len(name) <= 20 && !strings.ContainsFunc(name, func(c rune) bool { return c != '-' && (c < 'a' || c > 'z') })
}

// name is the command's name, behind the program's.
func (r *deviceRun) name() string {
	_, name, _ := strings.Cut(r.cmd.FullName(), " ")
	return name
}

// usage is a cmdline.UsageError that names the command's help.
func (r *deviceRun) usage(format string, args ...any) error {
	return cmdline.UsageError{Err: fmt.Errorf("%s: see %s --help", fmt.Sprintf(format, args...), r.cmd.FullName())}
}

// arguments returns the arguments if there are from least to most of them. They
// are not repeated in the error: what is too much may be a phrase (D5).
func (r *deviceRun) arguments(least, most int) ([]string, error) {
	args := r.cmd.Args().Slice()
	switch {
	case len(args) >= least && len(args) <= most:
		return args, nil
	case most == 0:
		return nil, r.usage("%s takes no argument", r.cmd.FullName())
	}
	return nil, r.usage("%s takes %s", r.cmd.FullName(), r.cmd.ArgsUsage)
}

// dir returns the device's directory.
func (r *deviceRun) dir() (string, error) {
	dir := r.cmd.String(flagDeviceDir)
	switch {
	case dir != "":
		return dir, nil
	case r.cmd.IsSet(flagDeviceDir):
		return "", cmdline.UsageError{Err: fmt.Errorf("--%s is empty", flagDeviceDir)}
	}
	if dir = r.variable(envDevice); dir == "" {
		dir = defaultDevice
	}
	return dir, nil
}

// with opens the device, calls do, and closes the device.
func (r *deviceRun) with(do func(*device.Device) error) error {
	dir, err := r.dir()
	if err != nil {
		return err
	}
	d, err := device.Open(dir, device.Options{Log: r.deviceLog()})
	if err != nil {
		return absentDevice(dir, err)
	}
	return errors.Join(do(d), d.Close())
}

// say writes a line for people to standard error. Any goroutine, once the line of
// progress is there or if there will be none.
func (r *deviceRun) say(format string, args ...any) {
	if r.line != nil {
		r.line.clear()
	}
	fmt.Fprintf(r.stderr, "%s: %s\n", r.cmd.FullName(), render.Escape(fmt.Sprintf(format, args...)))
}
