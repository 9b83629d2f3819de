package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/store"
)

// compactPath is the relay's route (S47).
const compactPath = "/v1/admin/compact"

// maxCompactAnswer bounds what is read of an answer.
const maxCompactAnswer = 64 << 10

const syncCompactHelp = `Deletes events that a newer one of their stream replaces, of all owners, as the
relay does by itself every six hours. A running relay is asked to do it:

   SYNC_ADMIN_TOKEN=secret sluice sync compact --url https://relay.example

The relay must have been started with the same SYNC_ADMIN_TOKEN. The token is
taken from that variable only, since everyone sees the arguments of a process.

A stopped relay's database is compacted by this command itself:

   sluice sync compact --offline --data /var/lib/sluice

It refuses a database that a process has open: a relay beside it would answer its
devices that it is busy.

The file does not get smaller: what is free in it is used again. A backup is a
copy without the free space.`

func (a *app) syncCompactCommand() *cli.Command {
	return syncPart("compact", "delete events that newer ones replace", syncCompactHelp, a.runSyncCompact,
		&cli.StringFlag{
			Name: flagURL, Usage: "the relay's address: http, https or unix:/path [" + envURL + "]", DefaultText: client.DefaultURL,
		},
		&cli.DurationFlag{Name: flagSyncTimeout, Usage: "how `LONG` to wait for the relay's answer", Value: 10 * time.Minute},
		&cli.BoolFlag{Name: flagSyncOffline, Usage: "compact the database of a stopped relay, without one"})
}

func (a *app) runSyncCompact(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	compact := a.compactOnline
	if cmd.Bool(flagSyncOffline) {
		compact = a.compactOffline
	}
	r, err := compact(ctx, cmd)
	if err != nil {
		return err
	}
	if cmd.Bool(flagSyncJSON) {
		return a.printJSON(r)
	}
	_, err = fmt.Fprintf(a.stdout, "deleted events: %d, reclaimed: %s\n", r.DeletedEvents, sizeText(r.ReclaimedBytes))
	return err
}

// reclaimed is the answer of S47.
type reclaimed struct {
	DeletedEvents  int64 `json:"deletedEvents"`
	ReclaimedBytes int64 `json:"reclaimedBytes"`
}

func (a *app) compactOffline(ctx context.Context, cmd *cli.Command) (reclaimed, error) {
	if cmd.IsSet(flagURL) || cmd.IsSet(flagSyncTimeout) {
		return reclaimed{}, cmdline.UsageError{Err: fmt.Errorf("--%s asks no relay: --%s and --%s do not go with it",
			flagSyncOffline, flagURL, flagSyncTimeout)}
	}
	path, err := a.syncPath(cmd)
	if err != nil {
		return reclaimed{}, err
	}
	r, err := store.CompactOffline(ctx, path)
	if errors.Is(err, store.ErrInUse) {
		err = fmt.Errorf("%w: if it is a relay, leave out --%s, and the relay compacts", err, flagSyncOffline)
	}
	return reclaimed(r), absentSync(path, err)
}

func (a *app) compactOnline(ctx context.Context, cmd *cli.Command) (r reclaimed, err error) {
	token, timeout := a.variable(config.EnvSyncAdmin), cmd.Duration(flagSyncTimeout)
	switch {
	case cmd.IsSet(flagSyncData):
		return r, cmdline.UsageError{Err: fmt.Errorf("--%s goes with --%s only: the relay knows its own", flagSyncData, flagSyncOffline)}
	case timeout <= 0:
		return r, cmdline.UsageError{Err: fmt.Errorf("--%s is not more than 0", flagSyncTimeout)}
	case token == "":
		return r, cmdline.UsageError{Err: fmt.Errorf("%s is not set: give it to the relay and to this command, "+
			"or stop the relay and use --%s: see %s --help", config.EnvSyncAdmin, flagSyncOffline, cmd.FullName())}
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return r, cmdline.UsageError{Err: fmt.Errorf("%s: %w", config.EnvSyncAdmin, errToken)}
	}
	address := cmd.String(flagURL)
	if !cmd.IsSet(flagURL) {
		address = a.variable(envURL)
	}
	relay, err := client.New(address, token)
	if err != nil {
		return r, cmdline.UsageError{Err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v; the relay goes on", timeout))
	defer cancel()
	r, err = askToCompact(ctx, relay)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return r, err
}

// askToCompact makes the request of S47.
func askToCompact(ctx context.Context, relay *client.Relay) (r reclaimed, err error) {
	req, err := relay.Request(ctx, http.MethodPost, compactPath, nil, nil)
	if err != nil {
		return r, err
	}
	if t, ok := relay.HTTP.Transport.(*http.Transport); ok {
		t.ResponseHeaderTimeout = 0 // the answer comes at the end; ctx bounds it
	}
	answer, err := relay.HTTP.Do(req)
	if err != nil {
		return r, fmt.Errorf("%w: for the database of a stopped relay: --%s", err, flagSyncOffline)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxCompactAnswer))
	switch {
	case err != nil:
		return r, err
	case answer.StatusCode == http.StatusUnauthorized:
		return r, fmt.Errorf("%s: the relay has another %s", relay, config.EnvSyncAdmin)
	case answer.StatusCode == http.StatusNotFound:
		return r, fmt.Errorf("%s has no %s: was it started with %s, and with the sync surface?", relay, compactPath, config.EnvSyncAdmin)
	case answer.StatusCode != http.StatusOK:
		return r, fmt.Errorf("%s: %s: %s", relay, answer.Status, reasonIn(body))
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("%s: the answer is no sync relay's: %w", relay, err)
	}
	return r, nil
}

// reasonIn returns the message of an error answer (S4), or the answer.
func reasonIn(body []byte) string {
	var e struct{ Message string }
	if json.Unmarshal(body, &e) == nil && e.Message != "" {
		return e.Message
	}
	return strings.TrimSpace(string(body))
}
