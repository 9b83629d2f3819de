package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/store"
)

func (a *app) runSyncStatus(_ context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	owners, epochs := cmd.Int(flagSyncOwners), cmd.Int(flagSyncEpochs)
	if min(owners, epochs) < 0 || max(owners, epochs) > maxSyncList {
		return cmdline.UsageError{Err: fmt.Errorf("--%s and --%s are 0 to %d", flagSyncOwners, flagSyncEpochs, maxSyncList)}
	}
	db, err := a.openSync(cmd)
	if err != nil {
		return err
	}
	s, err := db.Summary(owners, epochs)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if cmd.Bool(flagSyncJSON) {
		return a.printJSON(s)
	}
	_, err = fmt.Fprint(a.stdout, syncStatusText(s))
	return err
}

// syncStatusText writes a summary for people. What came with requests is
// escaped.
func syncStatusText(s store.Summary) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, render.Escape(fmt.Sprintf(format, args...)))
	}
	older := s.SchemaVersion < s.KnownVersion
	line("database", "%s", s.Path)
	if older {
		line("schema", "%d, older than this program's %d: a relay migrates it when it starts", s.SchemaVersion, s.KnownVersion)
	} else {
		line("schema", "%d", s.SchemaVersion)
	}
	line("store", "%s", s.StoreID)
	if !older {
		line("owners", "%d open, %d closed", s.Open, s.Closed)
		line("stored", "%s: events %d, of streams %d; chunks %d", sizeText(s.StoredBytes), s.Events, s.Streams, s.Blobs)
	}
	if older || s.TotalBytes != s.StoredBytes {
		line("total", "%s by the relay's counter", sizeText(s.TotalBytes))
	}
	line("file", "%s, free in it %s", sizeText(s.FileBytes), sizeText(s.FreeBytes))
	line("log", "%s", sizeText(s.WALBytes))
	line("compacted", "%s", s.CompactedAt)
	line("last seq", "%d", s.LastSeq)
	line("epochs", "%d", s.EpochCount)
	for _, e := range s.Epochs {
		line("", "%d to %d, opened %s", e.Start, e.Last, e.OpenedAt)
	}
	for _, o := range s.Largest {
		life := "since " + o.CreatedAt
		if o.ClosedAt != "" {
			life += ", closed " + o.ClosedAt
		}
		line("owner", "%s: %s: events %d, of streams %d; chunks %d; %s", o.ID, sizeText(o.Bytes), o.Events, o.Streams, o.Blobs, life)
	}
	return b.String()
}
