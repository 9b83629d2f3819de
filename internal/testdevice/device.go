package testdevice

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// patience bounds each Sync. It is used up only when a test fails.
const patience = time.Minute

// pageRows is how many rows Held asks for at a time.
const pageRows = 1000

// Device is a device with a directory and a clock.
type Device struct {
	*device.Device
	// Name is its device id.
	Name string
	// Dir is its directory, below the test's.
	Dir string
	// Options are those that it was opened with last.
	Options device.Options
	// Skew is how far its clock is off when Set brings it to a time.
	Skew time.Duration

	tb    testing.TB
	clock *atomic.Int64 // nanoseconds since 1970
}

// New makes a device from a credential alone; its clock stands at now. It is
// closed when the test ends. Without a Now in its options it has its own clock.
func New(tb testing.TB, credential, name string, now time.Time, o device.Options) *Device {
	tb.Helper()
	d := &Device{Name: name, Dir: filepath.Join(tb.TempDir(), "device"), Options: o, tb: tb, clock: new(atomic.Int64)}
	if o.Now == nil {
		d.Options.Now = d.Now
	}
	d.Set(now)
	var err error
	if d.Device, err = device.Create(d.Dir, credential, name, d.Options); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("%s: %v", name, err)
		}
	})
	return d
}

// Now is the device's clock. Any goroutine.
func (d *Device) Now() time.Time { return time.Unix(0, d.clock.Load()).UTC() }

// Set brings the device's clock to what it makes of a true time. Any goroutine
// that does not change Skew meanwhile.
func (d *Device) Set(now time.Time) { d.clock.Store(now.Add(d.Skew).UnixNano()) }

// Reopen ends the device and starts it again with other options, whose Now may
// be nil.
func (d *Device) Reopen(o device.Options) {
	d.tb.Helper()
	if o.Now == nil {
		o.Now = d.Now
	}
	err := d.Close()
	if err == nil {
		d.Options = o
		d.Device, err = device.Open(d.Dir, o)
	}
	if err != nil {
		d.tb.Fatalf("%s: %v", d.Name, err)
	}
}

// Cycle is a Sync that ends before the test would. Any goroutine.
func (d *Device) Cycle() error {
	_, err := d.Report()
	return err
}

// Report is Cycle with what it did.
func (d *Device) Report() (device.Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := d.Sync(ctx, device.SyncOptions{})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", d.Name, err)
	}
	return r, err
}

// Write is a Put that must work, and returns its rows.
func (d *Device) Write(edits ...devicestore.Edit) []devicestore.Row {
	d.tb.Helper()
	rows, err := d.Put(edits...)
	if err != nil || len(rows) != len(edits) {
		d.tb.Fatalf("%s: %d rows of %d edits, %v", d.Name, len(rows), len(edits), err)
	}
	return rows
}

// Held returns all rows that the device has, tombstones too.
func (d *Device) Held() map[devicestore.Key]devicestore.Row {
	d.tb.Helper()
	rows := map[devicestore.Key]devicestore.Row{}
	for after := int64(0); ; {
		page, err := d.Changes(after, pageRows)
		if err != nil {
			d.tb.Fatalf("%s: %v", d.Name, err)
		}
		if len(page) == 0 {
			return rows
		}
		for _, row := range page {
			if row.Change <= after {
				d.tb.Fatalf("%s: change %d comes after %d", d.Name, row.Change, after)
			}
			after = row.Change
			rows[row.Key] = row
		}
	}
}

// State is the device's status, which must be there.
func (d *Device) State() device.Status {
	d.tb.Helper()
	st, err := d.Status()
	if err != nil {
		d.tb.Fatalf("%s: %v", d.Name, err)
	}
	return st
}
