package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/publish"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// Exit codes of control.
const (
	exitRejected   = 3
	exitUnanswered = 4
)

// Flags of the commands of control.
const (
	orderTimeout     = "timeout"
	orderAgent       = "agent"
	orderSession     = "session"
	orderRun         = "run"
	orderScope       = "scope"
	orderReason      = "reason"
	orderAttention   = "attention"
	orderOption      = "option"
	orderText        = "text"
	orderValues      = "values"
	orderData        = "data"
	orderID          = "id"
	orderWait        = "wait"
	orderWaitTimeout = "wait-timeout"
	orderJSON        = "json"
)

const controlHelp = `Sends a command to the agent of a session, waits for its acknowledgement and
prints the decision: accepted or rejected.

   AEP_TOKEN=secret sluice control cancel --session s1 --run r1 --wait
   AEP_TOKEN=secret sluice control respond --session s1 --attention ID --option allow

The relay routes commands only when it was started with a token, and only to an
agent that is connected over a WebSocket. The command is sent again until it is
acknowledged; an agent obeys it once. With --wait the event that tells how it
ended is waited for as well, and its type printed: for a run its own end, for
--scope session only session.ended. Pause and resume take no --wait, since no
event is defined to tell their end.

Exit codes: 0 accepted, 1 failed or no agent to route it to, 3 rejected,
4 no acknowledgement within --timeout or, with --wait, no end within
--wait-timeout, 78 usage.`

// controlCommand sends commands to agents.
func (a *app) controlCommand() *cli.Command {
	return &cli.Command{
		Name:            "control",
		Usage:           "send a command to the agent of a session",
		Description:     controlHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Commands: []*cli.Command{
			a.orderCommand(publish.TypeCancel, "cancel", "end a run, or all of the session", []cli.Flag{
				&cli.StringFlag{Name: orderRun, Usage: "the `ID` of the run to end"},
				&cli.StringFlag{Name: orderScope, Usage: "what to end: `run or session`; a run needs --run", DefaultText: "run"},
				&cli.StringFlag{Name: orderReason, Usage: "a `TEXT` that tells why"},
			}),
			a.orderCommand(publish.TypePause, "pause", "make the session pause", nil),
			a.orderCommand(publish.TypeResume, "resume", "let the session go on", nil),
			a.orderCommand(publish.TypeRespond, "respond", "answer an attention request", []cli.Flag{
				&cli.StringFlag{Name: orderAttention, Usage: "the `ID` of the event attention.requested"},
				&cli.StringFlag{Name: orderOption, Aliases: []string{"decision"}, Usage: "the `ID` of the option that is chosen"},
				&cli.StringFlag{Name: orderText, Usage: "a `TEXT` as the answer"},
				&cli.StringFlag{Name: orderValues, Usage: "the answer to a form: a `JSON` object of field ids and values"},
				&cli.StringFlag{Name: orderData, Usage: "the whole payload as a `JSON` object, instead of the above"},
			}),
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return cmdline.UsageError{Err: fmt.Errorf("unknown command %q: see %s --help", name, cmd.FullName())}
			}
			return cmdline.UsageError{Err: fmt.Errorf("say which command: cancel, pause, resume or respond: see %s --help", cmd.FullName())}
		},
	}
}

// orderCommand is one of the commands of control.
func (a *app) orderCommand(typ, name, usage string, flags []cli.Flag) *cli.Command {
	flags = append([]cli.Flag{&cli.StringFlag{Name: orderSession, Usage: "the `NAME` of the session"}}, flags...)
	flags = append(
		append(flags, relayFlags()...),
		&cli.DurationFlag{Name: orderTimeout, Usage: "how `LONG` to wait for the acknowledgement", Value: publish.DefaultWindow},
		&cli.BoolFlag{Name: orderWait, Usage: "wait for the end of what is asked for, too", Hidden: endless(typ)},
		&cli.DurationFlag{
			Name: orderWaitTimeout, Usage: "with --wait: how `LONG`", Value: 10 * time.Minute, Hidden: endless(typ),
		},
		&cli.StringFlag{
			Name: orderID, Usage: "`ID` of the command: that of an earlier one asks what became of it", DefaultText: "a new one",
		},
		&cli.StringFlag{Name: orderAgent, Usage: "`NAME` of the sender in the audit trail", Value: "sluice"},
		&cli.BoolFlag{Name: orderJSON, Usage: "print each message about the command as it came, one JSON text a line"},
	)
	var description string
	if endless(typ) {
		description = "It takes no --wait: no event is defined to tell its end."
	}
	return &cli.Command{
		Name:            name,
		Usage:           usage,
		Description:     description,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags:           flags,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return a.runOrder(ctx, cmd, typ)
		},
	}
}

// endless reports whether no registered type of event tells how a command of a
// type ended, so that nothing can be waited for.
func endless(typ string) bool { return typ == publish.TypePause || typ == publish.TypeResume }

// runOrder sends a command and reports what became of it.
func (a *app) runOrder(ctx context.Context, cmd *cli.Command, typ string) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	relay, err := a.relay(cmd)
	if err != nil {
		return err
	}
	o, err := orderOf(cmd, typ)
	if err != nil {
		return cmdline.UsageError{Err: fmt.Errorf("%w: see %s --help", err, cmd.FullName())}
	}
	o.Notice = func(text string) { fmt.Fprintf(a.stderr, "sluice control: %s\n", text) }
	if cmd.Bool(orderJSON) {
		o.Message = a.printCommand
	} else {
		o.Decided = a.printDecision
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := publish.Command(ctx, relay, o)
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("control: interrupted; to ask what became of it: --%s %s", orderID, r.ID)
	case err != nil:
		return fmt.Errorf("control: %w", err)
	}
	return a.reportOrder(cmd, o, r)
}

// printDecision prints what was decided, at once: the wait for the end may be
// interrupted.
func (a *app) printDecision(r publish.Result) {
	line := r.Decision.String()
	if r.Reason != "" {
		line += ": " + r.Reason
	}
	fmt.Fprintln(a.stdout, line)
}

// reportOrder prints what is not printed yet and returns the exit code.
func (a *app) reportOrder(cmd *cli.Command, o publish.Order, r publish.Result) error {
	if !cmd.Bool(orderJSON) {
		if r.Decision == publish.Unanswered {
			a.printDecision(r)
		}
		if r.EndType != "" {
			fmt.Fprintln(a.stdout, r.EndType)
		}
	}
	switch {
	case r.Decision == publish.Rejected:
		return cli.Exit("", exitRejected)
	case r.Decision == publish.Unanswered:
		return cli.Exit(fmt.Sprintf("control: the agent did not acknowledge the command within %v; it may still obey: "+
			"to ask again what became of it: --%s %s", o.Window, orderID, r.ID), exitUnanswered)
	case o.Wait > 0 && r.End == nil:
		return cli.Exit(fmt.Sprintf("control: accepted, but no end of it within %v", o.Wait), exitUnanswered)
	}
	return nil
}

// orderOf reads the flags of a command.
func orderOf(cmd *cli.Command, typ string) (publish.Order, error) {
	o := publish.Order{
		Type: typ, Session: cmd.String(orderSession), ID: cmd.String(orderID), Agent: cmd.String(orderAgent),
		Window: cmd.Duration(orderTimeout),
	}
	switch {
	case o.Session == "":
		return o, fmt.Errorf("--%s is missing", orderSession)
	case o.Agent == "":
		return o, fmt.Errorf("--%s is empty", orderAgent)
	case endless(typ) && cmd.Bool(orderWait):
		return o, fmt.Errorf("%s takes no --%s: no event is defined to tell its end", typ, orderWait)
	case o.Window <= 0 || cmd.Duration(orderWaitTimeout) <= 0:
		return o, fmt.Errorf("--%s and --%s are more than 0", orderTimeout, orderWaitTimeout)
	}
	o.Source = sourceOf(o.Agent)
	if cmd.Bool(orderWait) {
		o.Wait = cmd.Duration(orderWaitTimeout)
	}
	switch typ {
	case publish.TypeCancel:
		return o, cancelOf(cmd, &o)
	case publish.TypeRespond:
		return o, respondOf(cmd, &o)
	}
	return o, nil
}

// sourceOf names the sender: the same for each command of this machine, since
// an agent knows a command by its source and id.
func sourceOf(agent string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return "aep://" + url.PathEscape(host) + "/agent/" + url.PathEscape(agent)
}

// cancelOf reads what to cancel. To end all of a session has to be said.
func cancelOf(cmd *cli.Command, o *publish.Order) error {
	scope := cmd.String(orderScope)
	o.Run = cmd.String(orderRun)
	switch {
	case scope == "" && o.Run == "":
		return fmt.Errorf("say what to cancel: --%s ID, or --%s session", orderRun, orderScope)
	case scope == "":
		scope = "run"
	case scope != "run" && scope != "session":
		return fmt.Errorf("--%s is run or session, not %q", orderScope, scope)
	}
	if (scope == "run") != (o.Run != "") {
		return fmt.Errorf("--%s goes with --%s run, and only with that", orderRun, orderScope)
	}
	data := map[string]string{"scope": scope}
	if reason := cmd.String(orderReason); reason != "" {
		data["reason"], o.Capture = reason, "redacted" // text is at that level (AEP-0004)
	}
	return setData(o, data)
}

// respondOf reads an answer.
func respondOf(cmd *cli.Command, o *publish.Order) error {
	if o.Subject = cmd.String(orderAttention); o.Subject == "" {
		return fmt.Errorf("--%s is missing", orderAttention)
	}
	answer := map[string]any{}
	if option := cmd.String(orderOption); option != "" {
		answer["option"] = option
	}
	if text := cmd.String(orderText); text != "" {
		answer["text"], o.Capture = text, "redacted"
	}
	if values := cmd.String(orderValues); values != "" {
		raw, err := jsonObject(values)
		if err != nil {
			return fmt.Errorf("--%s %w", orderValues, err)
		}
		answer["values"], o.Capture = raw, "redacted" // it may hold text
	}
	data := cmd.String(orderData)
	switch {
	case data != "" && len(answer) > 0:
		return fmt.Errorf("--%s is the whole payload: --%s, --%s and --%s do not go with it",
			orderData, orderOption, orderText, orderValues)
	case data != "":
		raw, err := jsonObject(data)
		if err != nil {
			return fmt.Errorf("--%s %w", orderData, err)
		}
		o.Data, o.Capture = raw, "redacted"
		return nil
	case len(answer) == 0:
		return fmt.Errorf("say what to answer: --%s, --%s, --%s or --%s", orderOption, orderText, orderValues, orderData)
	}
	return setData(o, map[string]any{"answer": answer})
}

func setData(o *publish.Order, data any) error {
	raw, err := json.Marshal(data)
	o.Data = raw
	return err
}

// errNoObject is the error of a flag whose value is something else.
var errNoObject = errors.New("is not a JSON object")

// jsonObject returns a JSON object on one line.
func jsonObject(text string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil || !strings.HasPrefix(b.String(), "{") {
		return nil, errNoObject
	}
	return b.Bytes(), nil
}
