package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// Flags of the commands about rows.
const (
	flagDeviceLines = "lines"
	flagDeviceOlder = "older-than"
)

const (
	// maxDeleteIDs is how many rows one delete takes: one transaction.
	maxDeleteIDs = 1000
	// defaultPurgeAge is how long a deleted row is remembered without a flag.
	defaultPurgeAge = 30 * 24 * time.Hour
)

const devicePutHelp = `Writes one row, or many:

   sluice device put notes today '{"text":"hello","stars":3}'
   sluice device put notes today - < row.json
   sluice device put --lines - < rows.ndjson

A row is a JSON object. It replaces the row that is there as a whole; members are
not merged. TABLE is 1 to 64 of letters, digits, _, . and -; ID is up to 256 bytes.
The table blob belongs to "sluice device attach".

With --lines each line is {"table":"...","id":"...","row":{...}}, as "sluice device
export" writes them; "row":null deletes. Up to 1000 lines are one transaction. At a
line that cannot be written it stops, and says which lines were written.

Rows are written here and wait for the next sync, a running watch, or --sync.`

const deviceGetHelp = `Prints one row:

   sluice device get notes today
   sluice device get notes today --json

The row is printed as it travels: members in order, no blanks. With --json it is in
an object with its table, its id and the time of its last edit. A row that is not
there, or deleted, is an error.`

const deviceDeleteHelp = `Deletes rows:

   sluice device delete notes today
   sluice device delete notes today tomorrow --sync

All of them or none, if one is not there. A deleted row is remembered, so that older
edits which come later do not bring it back: see "sluice device purge".`

const deviceExportHelp = `Writes all current rows to standard output, one JSON object a line:

   sluice device export > rows.ndjson

Each has table, id, hlc and row. "sluice device put --lines -" reads them. Rows of
the table blob describe attached files, whose content is not written: fetch those.`

const devicePurgeHelp = `Forgets deleted rows, and asks the relays to do so too:

   sluice device purge --older-than 2160h

Until then a deleted row costs some bytes here and at each relay. Only rows whose
deletion every relay has are forgotten. A device that was away for longer than
--older-than, and edited such a row before, brings it back: take more than the
longest absence.`

func deviceJSONFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: flagDeviceJSON, Usage: usage} }

func deviceSyncFlag() cli.Flag {
	return &cli.BoolFlag{Name: flagDeviceSync, Usage: "sync after it, as \"sluice device sync\" does"}
}

func (a *app) devicePutCommand() *cli.Command {
	return a.devicePart("put", "write a row", "TABLE ID ROW|-", devicePutHelp, (*deviceRun).put,
		&cli.StringFlag{Name: flagDeviceLines, Usage: "read rows from the lines of `FILE`, - for standard input", DefaultText: "none"},
		deviceSyncFlag())
}

func (a *app) deviceGetCommand() *cli.Command {
	return a.devicePart("get", "print a row", "TABLE ID", deviceGetHelp, (*deviceRun).get,
		deviceJSONFlag("print an object with the row's table, id and time"))
}

func (a *app) deviceDeleteCommand() *cli.Command {
	return a.devicePart("delete", "delete rows", "TABLE ID...", deviceDeleteHelp, (*deviceRun).delete, deviceSyncFlag())
}

func (a *app) deviceExportCommand() *cli.Command {
	return a.devicePart("export", "write all rows as JSON lines", "", deviceExportHelp, (*deviceRun).export)
}

func (a *app) devicePurgeCommand() *cli.Command {
	return a.devicePart("purge", "forget rows that were deleted long ago", "", devicePurgeHelp, (*deviceRun).purge,
		&cli.DurationFlag{Name: flagDeviceOlder, Usage: "`AGE` of the deletion, at least", Value: defaultPurgeAge},
		deviceSyncFlag())
}

func (r *deviceRun) put(ctx context.Context) error {
	if r.cmd.IsSet(flagDeviceLines) {
		return r.putLines(ctx)
	}
	args, err := r.arguments(3, 3)
	if err != nil {
		return err
	}
	row := []byte(args[2])
	if args[2] == "-" {
		if row, err = readBounded(r.stdin(ctx), maxLineBytes); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
	return r.with(func(d *device.Device) error {
		edit := devicestore.Edit{Key: devicestore.Key{Table: args[0], ID: args[1]}, Data: row}
		if _, err := d.Put(edit); err != nil {
			return err
		}
		return r.syncIfAsked(ctx, d)
	})
}

// readBounded reads all of in, which may have so many bytes. An empty input is an
// error: as a row it would delete.
func readBounded(in io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > most:
		return nil, fmt.Errorf("more than %d bytes", most)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("there is no row in it")
	}
	return text, nil
}

func (r *deviceRun) get(context.Context) error {
	args, err := r.arguments(2, 2)
	if err != nil {
		return err
	}
	return r.with(func(d *device.Device) error {
		row, err := d.Get(devicestore.Key{Table: args[0], ID: args[1]})
		switch {
		case errors.Is(err, devicestore.ErrNoRow):
			return fmt.Errorf("there is no row %q in table %q", args[1], args[0])
		case err != nil:
			return err
		case row.Deleted:
			return fmt.Errorf("row %q of table %q was deleted %s by %s", args[1], args[0], hlcTime(row.HLC), hlcDevice(row.HLC))
		}
		if r.cmd.Bool(flagDeviceJSON) {
			return r.writeRow(r.rowPrinter(true, false), row)
		}
		_, err = r.out.Write(append(r.visible(row.Data), '\n'))
		return err
	})
}

func (r *deviceRun) delete(ctx context.Context) error {
	args, err := r.arguments(2, 1+maxDeleteIDs)
	if err != nil {
		return err
	}
	edits := make([]devicestore.Edit, 0, len(args)-1)
	for _, id := range args[1:] {
		edits = append(edits, devicestore.Edit{Key: devicestore.Key{Table: args[0], ID: id}})
	}
	return r.with(func(d *device.Device) error {
		if _, err := d.Put(edits...); err != nil {
			return err
		}
		return r.syncIfAsked(ctx, d)
	})
}

func (r *deviceRun) export(context.Context) error {
	if _, err := r.arguments(0, 0); err != nil {
		return err
	}
	return r.with(func(d *device.Device) error {
		if terminal(r.stdout) == nil {
			return d.Export(r.out)
		}
		return d.Export(&visibleWriter{out: r.out})
	})
}

func (r *deviceRun) purge(ctx context.Context) error {
	if _, err := r.arguments(0, 0); err != nil {
		return err
	}
	age := r.cmd.Duration(flagDeviceOlder)
	if age <= 0 {
		return r.usage("--%s is more than 0, as 720h", flagDeviceOlder)
	}
	return r.with(func(d *device.Device) error {
		n, err := d.Purge(time.Now().Add(-age))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(r.out, "forgotten rows: %d\n", n); err != nil {
			return err
		}
		return r.syncIfAsked(ctx, d)
	})
}

// hlcTime is the time of an HLC for people, in UTC; what is none is shown as it is.
func hlcTime(text string) string {
	h, err := synccrypt.ParseHLC(text)
	if err != nil {
		return text
	}
	return time.UnixMilli(h.Millis).UTC().Format("2006-01-02T15:04:05.000Z")
}

// hlcDevice is the device that wrote an HLC.
func hlcDevice(text string) string {
	h, err := synccrypt.ParseHLC(text)
	if err != nil {
		return "?"
	}
	return h.Device
}
