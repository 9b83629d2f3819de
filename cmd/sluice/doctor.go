package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/fatih/color"
	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/doctor"
)

// exitUnwell tells that the checks were made, and some failed.
const exitUnwell = 3

// errUnwritten tells that stdout did not take the findings.
var errUnwritten = errors.New("the findings cannot be written")

// Flags of doctor.
const (
	flagDoctorQuick   = "quick"
	flagDoctorPublish = "publish"
	flagDoctorAdmin   = "admin"
	flagDoctorTimeout = "timeout"
	flagDoctorJSON    = "json"
)

const doctorHelp = `Checks a running relay from outside and says what to do about what it finds: the
address, TLS and its certificate, health, who may use it, its protocol, clocks,
connections that are kept, web pages, and whether streams and WebSockets come
through what is in front of it at once: not buffered, not compressed, not cut.

The relay of this machine, then one behind a proxy:

   sluice doctor
   AEP_TOKEN=secret sluice doctor https://relay.example

Without the wait of half a minute for a heartbeat:

   sluice doctor --quick

With a test event, in a session of its own named sluice-doctor-..., that is timed
on its way through:

   sluice doctor --publish

Each check prints a line: ok, warn, fail, or skip for one that was not made.
Nothing is changed at the relay, and nothing is published without --publish.

Exit codes: 0 nothing failed (warnings may be there), 1 the checks could not be
made or their findings not be written, 3 something failed, 78 command line or environment.`

// doctorCommand checks a relay.
func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:            "doctor",
		Usage:           "check a running relay, and say what to do",
		ArgsUsage:       "[URL]",
		Description:     doctorHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: append(
			relayFlags(),
			&cli.BoolFlag{Name: flagDoctorQuick, Usage: "leave out the heartbeat, which takes half a minute"},
			&cli.BoolFlag{Name: flagDoctorPublish, Usage: "publish a test event, and time it"},
			&cli.StringFlag{
				Name:        flagDoctorAdmin,
				Usage:       "`URL` or host:port of the relay's admin listener, or off",
				DefaultText: doctor.DefaultAdmin + " for a relay of this machine, else off",
			},
			&cli.DurationFlag{Name: flagDoctorTimeout, Usage: "how `LONG` each check may take", Value: doctor.DefaultTimeout},
			&cli.BoolFlag{Name: flagDoctorJSON, Usage: "print one JSON object with all findings"},
		),
		Action: a.runDoctor,
	}
}

func (a *app) runDoctor(ctx context.Context, cmd *cli.Command) error {
	relay, err := a.patient(cmd)
	if err != nil {
		return err
	}
	o := doctor.Options{
		Relay: relay, Timeout: cmd.Duration(flagDoctorTimeout), Admin: cmd.String(flagDoctorAdmin), AdminGiven: cmd.IsSet(flagDoctorAdmin),
		Quick: cmd.Bool(flagDoctorQuick), Publish: cmd.Bool(flagDoctorPublish),
	}
	switch {
	case o.Timeout < 100*time.Millisecond || o.Timeout > time.Minute:
		return cmdline.UsageError{Err: fmt.Errorf("--%s is not between 100ms and 1m", flagDoctorTimeout)}
	case o.Admin == "off":
		o.Admin = ""
	case o.AdminGiven:
		if o.Admin, err = doctor.ParseAdmin(o.Admin); err != nil {
			return cmdline.UsageError{Err: fmt.Errorf("--%s: %w", flagDoctorAdmin, err)}
		}
	case relay.Local():
		o.Admin = doctor.DefaultAdmin
	}
	asJSON := cmd.Bool(flagDoctorJSON)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, unwritten := context.WithCancelCause(ctx)
	defer unwritten(nil)
	if !asJSON {
		colored := terminal(a.stdout) != nil && !color.NoColor
		o.Each = func(f doctor.Finding) {
			if _, err := fmt.Fprint(a.stdout, f.Line(colored)); err != nil {
				unwritten(fmt.Errorf("%w: %w", errUnwritten, err))
			}
		}
	}
	report, err := doctor.Run(ctx, o)
	if cause := context.Cause(ctx); errors.Is(cause, errUnwritten) {
		return fmt.Errorf("doctor: %w", cause)
	}
	if err != nil {
		return fmt.Errorf("doctor: interrupted: %w", err)
	}
	if asJSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(report); err != nil {
			return fmt.Errorf("doctor: %w: %w", errUnwritten, err)
		}
	}
	fmt.Fprintf(a.stderr, "sluice doctor: %s\n", report.Summary())
	if report.Failures > 0 {
		return cli.Exit("", exitUnwell)
	}
	return nil
}

// patient returns the relay to examine: the argument's, or that of the flags.
func (a *app) patient(cmd *cli.Command) (*client.Relay, error) {
	address := cmd.Args().First()
	switch {
	case cmd.Args().Len() > 1:
		return nil, cmdline.UsageError{Err: fmt.Errorf("%s takes one URL, got also %q", cmd.FullName(), cmd.Args().Get(1))}
	case address == "":
		return a.relay(cmd)
	case cmd.IsSet(flagURL):
		return nil, cmdline.UsageError{Err: fmt.Errorf("the relay is given twice, by --%s and as an argument", flagURL)}
	}
	token, err := a.token(cmd)
	if err != nil {
		return nil, cmdline.UsageError{Err: err}
	}
	relay, err := client.New(address, token)
	if err != nil {
		return nil, cmdline.UsageError{Err: err}
	}
	return relay, nil
}
