package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/store"
)

// Flags of the commands of sync.
const (
	flagSyncData       = "data"
	flagSyncJSON       = "json"
	flagSyncOwners     = "owners"
	flagSyncEpochs     = "epochs"
	flagSyncQuickCheck = "quick-check"
	flagSyncOffline    = "offline"
	flagSyncTimeout    = "timeout"
)

// maxSyncList bounds --owners and --epochs: they are held in memory.
const maxSyncList = 10_000

const syncHelp = `Looks after the database of the encrypted sync relay, sync.db in the data
directory, while a relay runs on it or after it ended:

   sluice sync status --owners 10
   sluice sync check
   sluice sync backup /backups/sync-2026-11-30.db
   SYNC_ADMIN_TOKEN=secret sluice sync compact

status, check and backup only read: they change nothing, and a relay's pushes do
not wait for them. Run them as the relay's user. --data may also name a database
file, such as a backup.

To restore a backup: stop the relay, put the file in place of sync.db, remove
sync.db-wal and sync.db-shm if they are there, start the relay. Devices that
hold newer cursors are told so and send again what is missing.

Exit codes: 0 done, 1 failed or an invariant is broken, 78 command line or
environment.`

const syncBackupHelp = `Writes a consistent copy to a new file, while the relay goes on:

   sluice sync backup /backups/sync-2026-11-30.db
   sluice sync check --data /backups/sync-2026-11-30.db

An existing file is never overwritten. The name appears when the copy is whole
and on the disk; until then it is FILE.*.part, which may be deleted should it be
left by a crash. The relay's write-ahead log grows meanwhile by what is pushed.

To restore: stop the relay, put the file in place of sync.db, remove sync.db-wal
and sync.db-shm if they are there, start the relay.`

const syncCheckHelp = `Tests what always holds: sums and counts of each owner, the total, and that each
sequence number was issued. Each broken invariant is printed, with the first
rows that break it, and the exit code is 1.

   sluice sync check
   sluice sync check --quick-check

It reads all events, one query after the other, beside a running relay. With
--quick-check SQLite also looks at the structure of the whole file, chunks
included: as long again as reading the file takes.`

// syncCommand looks after the sync relay's database.
func (a *app) syncCommand() *cli.Command {
	return &cli.Command{
		Name:            "sync",
		Usage:           "look after the database of the encrypted sync relay",
		Description:     syncHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Commands: []*cli.Command{
			syncPart("status", "print owners, bytes, sequence numbers and epochs", "", a.runSyncStatus,
				&cli.IntFlag{Name: flagSyncOwners, Usage: "list the `N` owners with the most bytes"},
				&cli.IntFlag{Name: flagSyncEpochs, Usage: "list the newest `N` epochs", Value: 5}),
			syncPart("check", "test the database's invariants", syncCheckHelp, a.runSyncCheck,
				&cli.BoolFlag{Name: flagSyncQuickCheck, Usage: "also let SQLite look at the whole file"}),
			a.syncCompactCommand(),
			a.syncBackupCommand(),
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return cmdline.UsageError{Err: fmt.Errorf("unknown command %q: see %s --help", name, cmd.FullName())}
			}
			return cmdline.UsageError{Err: fmt.Errorf("say which command: status, check, compact or backup: see %s --help", cmd.FullName())}
		},
	}
}

// syncPart is one of the commands of sync, without arguments.
func syncPart(name, usage, description string, run func(context.Context, *cli.Command) error, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name:            name,
		Usage:           usage,
		Description:     description,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: append([]cli.Flag{
			&cli.StringFlag{
				Name: flagSyncData, Usage: "the relay's data `DIR`, or a database file [" + config.EnvData + "]",
				DefaultText: defaultData(),
			},
			&cli.BoolFlag{Name: flagSyncJSON, Usage: "print one JSON object"},
		}, flags...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			err := run(ctx, cmd)
			if _, usage := errors.AsType[cmdline.UsageError](err); err == nil || usage || err.Error() == "" {
				return err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("sync %s: interrupted", name)
			}
			return fmt.Errorf("sync %s: %s", name, render.Escape(err.Error()))
		},
	}
}

func (a *app) syncBackupCommand() *cli.Command {
	c := syncPart("backup", "write a consistent copy to a file", syncBackupHelp, a.runSyncBackup)
	c.ArgsUsage = "FILE"
	return c
}

// defaultData is what a relay takes when the variable is not set.
func defaultData() string {
	for _, v := range config.Variables() {
		if v.Env == config.EnvData {
			return v.Default
		}
	}
	return "."
}

// syncPath returns the database that the flag or the variable names.
func (a *app) syncPath(cmd *cli.Command) (string, error) {
	dir := cmd.String(flagSyncData)
	switch {
	case dir != "":
	case cmd.IsSet(flagSyncData):
		return "", cmdline.UsageError{Err: fmt.Errorf("--%s is empty", flagSyncData)}
	default:
		if dir = a.variable(config.EnvData); dir == "" {
			dir = defaultData()
		}
	}
	path := dir
	if info, err := os.Stat(dir); err != nil || info.IsDir() {
		path = filepath.Join(dir, relay.SyncFile)
	}
	return path, nil
}

// openSync opens the database to read it.
func (a *app) openSync(cmd *cli.Command) (*store.Inspector, error) {
	path, err := a.syncPath(cmd)
	if err != nil {
		return nil, err
	}
	db, err := store.OpenReadOnly(path)
	return db, absentSync(path, err)
}

// absentSync says what to do when there is no database.
func absentSync(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database %s: a relay makes it at the first push; --%s or %s names its directory",
			path, flagSyncData, config.EnvData)
	}
	return err
}

func (a *app) runSyncCheck(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	db, err := a.openSync(cmd)
	if err != nil {
		return err
	}
	began := time.Now()
	broken, err := db.Check(ctx, cmd.Bool(flagSyncQuickCheck))
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if cmd.Bool(flagSyncJSON) {
		err = a.printJSON(struct {
			OK     bool           `json:"ok"`
			Broken []store.Broken `json:"broken"`
		}{len(broken) == 0, append([]store.Broken{}, broken...)})
	} else {
		err = a.printBroken(broken)
	}
	switch took := time.Since(began).Round(time.Millisecond); {
	case err != nil:
		return err
	case len(broken) > 0:
		fmt.Fprintf(a.stderr, "sluice sync check: broken: %d (%v)\n", len(broken), took)
		return cli.Exit("", exitFailed)
	default:
		fmt.Fprintf(a.stderr, "sluice sync check: all is well (%v)\n", took)
	}
	return nil
}

// printBroken prints a line for each row that breaks an invariant.
func (a *app) printBroken(broken []store.Broken) error {
	var b strings.Builder
	for _, broken := range broken {
		for _, row := range broken.Rows {
			fmt.Fprintf(&b, "%s: %s\n", broken.Name, render.Escape(row))
		}
		if broken.More {
			fmt.Fprintf(&b, "%s: and more\n", broken.Name)
		}
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// printJSON prints one object over several lines.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (a *app) runSyncBackup(ctx context.Context, cmd *cli.Command) error {
	file := cmd.Args().First()
	switch {
	case file == "":
		return cmdline.UsageError{Err: fmt.Errorf("say which FILE to write: see %s --help", cmd.FullName())}
	case cmd.Args().Len() > 1:
		return cmdline.UsageError{Err: fmt.Errorf("%s takes one FILE, got also %q", cmd.FullName(), cmd.Args().Get(1))}
	case file == "-":
		return cmdline.UsageError{Err: errors.New("a database cannot be written to standard output: name a FILE")}
	}
	db, err := a.openSync(cmd)
	if err != nil {
		return err
	}
	s, err := db.Backup(ctx, file)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if cmd.Bool(flagSyncJSON) {
		return a.printJSON(s)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s, last seq %d%s\n", render.Escape(file), sizeText(s.FileBytes), s.LastSeq, epochText(s.Epochs))
	return err
}

// epochText tells of the newest epoch.
func epochText(epochs []store.Epoch) string {
	if len(epochs) == 0 {
		return ", no epoch"
	}
	e := epochs[0]
	return fmt.Sprintf(", epoch %d to %d of %s", e.Start, e.Last, render.Escape(e.OpenedAt))
}

// sizeText writes a size for people and exactly.
func sizeText(n int64) string {
	text := strconv.FormatInt(n, 10) + " bytes"
	f, unit := float64(n), -1
	for f >= 1000 && unit < len("kMGTPE")-1 {
		f, unit = f/1000, unit+1
	}
	if unit < 0 {
		return text
	}
	return fmt.Sprintf("%.1f %cB (%s)", f, "kMGTPE"[unit], text)
}
