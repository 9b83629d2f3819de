package main

import (
	"bufio"
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// Flags of list.
const (
	flagDeviceLimit   = "limit"
	flagDeviceAfter   = "after"
	flagDeviceDeleted = "deleted"
)

// listRows is how many rows are asked for at once.
const listRows = 1000

const deviceListHelp = `Prints rows in order of table and id, one a line:

   sluice device list
   sluice device list notes --limit 20 --after today
   sluice device list --deleted --json

--after needs a TABLE and is an id, which need not be there. With --deleted the rows
that were deleted and are still remembered are printed instead, in the order in which
this device got to know of it. With --json each line is an object as "sluice device
get --json" prints it; a deleted row has "deleted":true and no row.`

func (a *app) deviceListCommand() *cli.Command {
	return a.devicePart("list", "print rows", "[TABLE]", deviceListHelp, (*deviceRun).list,
		&cli.IntFlag{Name: flagDeviceLimit, Usage: "end after `N` rows", DefaultText: "all"},
		&cli.StringFlag{Name: flagDeviceAfter, Usage: "begin after this `ID`", DefaultText: "the first"},
		&cli.BoolFlag{Name: flagDeviceDeleted, Usage: "print the deleted rows instead"},
		deviceJSONFlag("print one object a line"))
}

func (r *deviceRun) list(context.Context) error {
	args, err := r.arguments(0, 1)
	if err != nil {
		return err
	}
	limit := r.cmd.Int(flagDeviceLimit)
	from := devicestore.Key{ID: r.cmd.String(flagDeviceAfter)}
	table := ""
	if len(args) == 1 {
		if table = args[0]; table == "" {
			return r.usage("the table's name is empty")
		}
		from.Table = table
	}
	switch {
	case limit < 0 || limit == 0 && r.cmd.IsSet(flagDeviceLimit):
		return r.usage("--%s is at least 1", flagDeviceLimit)
	case r.cmd.IsSet(flagDeviceAfter) && table == "":
		return r.usage("--%s is an id of a table: name the table", flagDeviceAfter)
	}
	if deleted := r.cmd.Bool(flagDeviceDeleted); deleted && r.cmd.IsSet(flagDeviceAfter) {
		return r.usage("--%s is in the order of deletion: leave out --%s", flagDeviceDeleted, flagDeviceAfter)
	} else if deleted {
		return r.with(func(d *device.Device) error { return r.listDeleted(d, table, limit) })
	}
	return r.with(func(d *device.Device) error { return r.listRows(d, table, from, limit) })
}

// listRows prints the rows after a key, page by page; limit 0 prints all.
func (r *deviceRun) listRows(d *device.Device, table string, from devicestore.Key, limit int) error {
	p := r.startPages(limit)
	for !p.full() {
		rows, err := d.List(table, from, p.next())
		if err != nil || len(rows) == 0 {
			return p.end(err)
		}
		from = rows[len(rows)-1].Key
		if err := p.print(rows); err != nil {
			return err
		}
	}
	return p.end(nil)
}

// listDeleted prints the deleted rows of a table, or of all for "".
func (r *deviceRun) listDeleted(d *device.Device, table string, limit int) error {
	p := r.startPages(limit)
	for after := int64(0); !p.full(); {
		rows, err := d.Changes(after, listRows)
		if err != nil || len(rows) == 0 {
			return p.end(err)
		}
		after = rows[len(rows)-1].Change
		rows = slices.DeleteFunc(rows, func(row devicestore.Row) bool {
			return !row.Deleted || table != "" && row.Table != table
		})
		if err := p.print(rows); err != nil {
			return err
		}
	}
	return p.end(nil)
}

// pages prints rows, up to a limit.
type pages struct {
	out     *bufio.Writer
	line    func(devicestore.Row) []byte
	limited bool
	left    int // if limited
}

// startPages returns what prints so many rows, 0 for all.
func (r *deviceRun) startPages(limit int) *pages {
	return &pages{
		out: bufio.NewWriterSize(r.out, 64<<10), line: r.rowPrinter(r.cmd.Bool(flagDeviceJSON), false),
		limited: limit > 0, left: limit,
	}
}

// full tells that the limit is reached.
func (p *pages) full() bool { return p.limited && p.left <= 0 }

// next is how many rows to ask for.
func (p *pages) next() int {
	if p.limited {
		return min(p.left, listRows)
	}
	return listRows
}

// print prints rows, as far as the limit goes.
func (p *pages) print(rows []devicestore.Row) error {
	if p.limited {
		rows = rows[:min(p.left, len(rows))]
		p.left -= len(rows)
	}
	for _, row := range rows {
		if _, err := p.out.Write(p.line(row)); err != nil {
			return err
		}
	}
	return nil
}

// end writes what is left and returns what went wrong.
func (p *pages) end(err error) error { return errors.Join(err, p.out.Flush()) }
