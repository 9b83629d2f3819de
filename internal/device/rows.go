package device

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// blobTable is the table of the manifests (D51). Attach writes its rows.
const blobTable = "blob"

// Bounds of one call.
const (
	maxEdits      = 1000 // the store's
	exportRows    = 500
	purgeRows     = 1000
	maxRowBytes   = synccrypt.MaxRowBytes
	maxInputBytes = 4 * maxRowBytes // white space and escapes before they are made canonical
)

// What a row can be refused for. Nothing of the call is stored then.
var (
	ErrRow      = errors.New("a row is a JSON object")
	ErrRowSize  = fmt.Errorf("a row is at most %d bytes of canonical JSON, so that its envelope fits into a relay's MAX_EVENT_BYTES", maxRowBytes)
	ErrTable    = errors.New("a table is named by 1 to 64 of A-Z, a-z, 0-9, _, . and -")
	ErrRowID    = errors.New("a row's id is 1 to 256 bytes of UTF-8 without control characters")
	ErrReserved = errors.New(`the table "blob" is for attachments`)
	ErrEdits    = fmt.Errorf("one call takes 1 to %d edits", maxEdits)
)

// Put stores rows and deletes (nil Data), all of them or none, in one
// transaction with what is to be pushed of them (D30), and returns them as
// stored: in canonical JSON, with their HLC. Data is borrowed until return. The
// errors say which edit is wrong: ErrRow, ErrRowSize, ErrTable, ErrRowID,
// ErrReserved, ErrEdits, and devicestore.ErrNoRow for a delete of what is not
// there. A row of the table "blob" can be deleted, and is made by Attach. Any
// goroutine.
func (d *Device) Put(edits ...devicestore.Edit) ([]devicestore.Row, error) {
	if len(edits) == 0 || len(edits) > maxEdits {
		return nil, ErrEdits
	}
	ready := make([]devicestore.Edit, len(edits))
	for i, e := range edits {
		var err error
		if ready[i], err = readyEdit(e); err != nil {
			if len(edits) > 1 {
				return nil, fmt.Errorf("edit %d, table %q, id %q: %w", i+1, shorten(e.Table), shorten(e.ID), err)
			}
			return nil, fmt.Errorf("table %q, id %q: %w", shorten(e.Table), shorten(e.ID), err)
		}
	}
	return d.write(ready...)
}

// write stores edits that are ready and tells who pushes.
func (d *Device) write(edits ...devicestore.Edit) ([]devicestore.Row, error) {
	rows, err := d.store.Write(d.o.Now(), edits...)
	if err == nil {
		d.wrote()
	}
	return rows, err
}

// readyEdit checks an edit and makes its row canonical.
func readyEdit(e devicestore.Edit) (devicestore.Edit, error) {
	if e.Table == blobTable && e.Data != nil {
		return e, ErrReserved
	}
	if e.Data != nil {
		if len(e.Data) > maxInputBytes {
			return e, ErrRowSize
		}
		row, err := synccrypt.Canonical(nil, e.Data)
		if err != nil {
			return e, fmt.Errorf("%w: %w", ErrRow, err)
		}
		if row[0] != '{' {
			return e, ErrRow
		}
		if len(row) > maxRowBytes {
			return e, fmt.Errorf("%w; this one has %d", ErrRowSize, len(row))
		}
		e.Data = row
	}
	switch {
	case !synccrypt.ValidTable(e.Table):
		return e, ErrTable
	case !synccrypt.ValidRowID(e.ID):
		return e, ErrRowID
	}
	return e, nil
}

// shorten bounds a name in an error.
func shorten(name string) string {
	const shown = 80
	if len(name) <= shown {
		return name
	}
	return name[:shown] + "..."
}

// Get returns a row; devicestore.ErrNoRow when there is none. What was deleted
// is returned with Deleted set. Any goroutine, as with the rest that reads.
func (d *Device) Get(k devicestore.Key) (devicestore.Row, error) { return d.store.Get(k) }

// List returns rows after a key in the order of keys, at most limit and some
// MiB of them, without the deleted ones; table "" is all tables. No rows mean
// the end.
func (d *Device) List(table string, after devicestore.Key, limit int) ([]devicestore.Row, error) {
	return d.store.List(table, after, limit, false)
}

// Changes returns rows whose number of change is above after, in its order:
// what was written here and what came from others, each row once, as it is
// now. At most limit and some MiB of them.
func (d *Device) Changes(after int64, limit int) ([]devicestore.Row, error) {
	return d.store.Changes(after, limit)
}

// LastChange returns the number of the latest change, 0 when there was none.
func (d *Device) LastChange() (int64, error) { return d.store.LastChange() }

// Export writes every current row as one line of JSON,
// {"table","id","hlc","row"}, in the order of keys, with bounded memory. Rows
// that change meanwhile are written as they are when their turn comes.
func (d *Device) Export(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for after := (devicestore.Key{}); ; {
		rows, err := d.store.List("", after, exportRows, false)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return out.Flush()
		}
		for _, r := range rows {
			if err := lines.Encode(exported{r.Table, r.ID, r.HLC, r.Data}); err != nil {
				return err
			}
			after = r.Key
		}
	}
}

// exported is a line of Export.
type exported struct {
	Table string          `json:"table"`
	ID    string          `json:"id"`
	HLC   string          `json:"hlc"`
	Row   json.RawMessage `json:"row"`
}

// Purge forgets deletes that are older than before and that every relay has,
// and returns how many. Their streams are queued, and each relay is asked to
// forget them too (D36). A device that was away for longer and still holds such
// a row brings it back, so before is best some months ago. Chunks that no
// attachment names any more are removed.
func (d *Device) Purge(before time.Time) (int, error) {
	id, err := d.identity()
	if err != nil {
		return 0, err
	}
	stream := func(k devicestore.Key) string { return id.StreamID(k.Table, k.ID) }
	total := 0
	for {
		n, err := d.store.Purge(before, purgeRows, stream)
		total += n
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
	}
	if total > 0 {
		d.wrote()
	}
	_, err = d.sweepChunks()
	return total, err
}
