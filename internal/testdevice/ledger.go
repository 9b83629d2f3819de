package testdevice

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// Ledger is every write that really happened, which no device knows.
type Ledger struct {
	tb     testing.TB
	writes map[devicestore.Key]map[string]devicestore.Row // by HLC
	used   map[string]devicestore.Key                     // HLCs
}

// NewLedger returns an empty ledger.
func NewLedger(tb testing.TB) *Ledger {
	return &Ledger{tb, map[devicestore.Key]map[string]devicestore.Row{}, map[string]devicestore.Key{}}
}

// enter takes what a Put returned. No HLC is used twice (D20, D21).
func (l *Ledger) enter(rows ...devicestore.Row) {
	l.tb.Helper()
	for _, row := range rows {
		if key, twice := l.used[row.HLC]; twice {
			l.tb.Fatalf("D21: %s was given to %v and %v", row.HLC, key, row.Key)
		}
		l.used[row.HLC] = row.Key
		if l.writes[row.Key] == nil {
			l.writes[row.Key] = map[string]devicestore.Row{}
		}
		row.Data = bytes.Clone(row.Data)
		l.writes[row.Key][row.HLC] = row
	}
}

// Wrote has a device write, and enters it.
func (l *Ledger) Wrote(d *Device, edits ...devicestore.Edit) []devicestore.Row {
	l.tb.Helper()
	rows := d.Write(edits...)
	l.enter(rows...)
	return rows
}

// Len is the number of keys that were written.
func (l *Ledger) Len() int { return len(l.writes) }

// At returns the write of a key with an HLC.
func (l *Ledger) At(key devicestore.Key, hlc string) (devicestore.Row, bool) {
	row, written := l.writes[key][hlc]
	return row, written
}

// Winners are the rows of the greatest HLC of each key.
func (l *Ledger) Winners() map[devicestore.Key]devicestore.Row {
	rows := make(map[devicestore.Key]devicestore.Row, len(l.writes))
	for key, of := range l.writes {
		rows[key] = of[slices.Max(slices.Collect(maps.Keys(of)))]
	}
	return rows
}

// True wants each row of a device to be one that was written, as it was
// written.
func (l *Ledger) True(d *Device) {
	l.tb.Helper()
	for key, row := range d.Held() {
		if want, written := l.At(key, row.HLC); !written || !Same(row, want) {
			l.tb.Fatalf("%s has %s, which nobody wrote: %s", d.Name, Text(row), Text(want))
		}
	}
}

// Differences tells where a device does not hold exactly the winners; "" is
// nowhere.
func (l *Ledger) Differences(d *Device) string {
	l.tb.Helper()
	rows, want := d.Held(), l.Winners()
	var lines []string
	for key, w := range want {
		if row := rows[key]; !Same(row, w) {
			lines = append(lines, fmt.Sprintf("%s has %s, want %s", d.Name, Text(row), Text(w)))
		}
	}
	for key, row := range rows {
		if _, written := want[key]; !written {
			lines = append(lines, fmt.Sprintf("%s has %s, which nobody wrote", d.Name, Text(row)))
		}
	}
	slices.Sort(lines)
	if len(lines) > 20 {
		lines = append(lines[:20], fmt.Sprintf("and %d more", len(lines)-20))
	}
	return strings.Join(lines, "\n")
}

// Same tells whether two rows are one write.
func Same(a, b devicestore.Row) bool {
	return a.Key == b.Key && a.HLC == b.HLC && a.Deleted == b.Deleted && bytes.Equal(a.Data, b.Data)
}

// Text is a row for a log.
func Text(row devicestore.Row) string {
	switch {
	case row.HLC == "":
		return "nothing"
	case row.Deleted:
		return fmt.Sprintf("%s/%s deleted at %s", row.Table, row.ID, row.HLC)
	}
	return fmt.Sprintf("%s/%s at %s: %.60s", row.Table, row.ID, row.HLC, row.Data)
}
