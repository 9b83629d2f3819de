package device

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

func edit(table, id, row string) devicestore.Edit {
	e := devicestore.Edit{Key: devicestore.Key{Table: table, ID: id}}
	if row != "" {
		e.Data = []byte(row)
	}
	return e
}

// rowOfSize returns a canonical row of so many bytes.
func rowOfSize(size int) string { return `{"a":"` + strings.Repeat("x", size-8) + `"}` }

// A wrong edit names itself, and nothing of its call is stored.
func TestPutRefuses(t *testing.T) {
	d := newTestDevice(t, newKey(t), "")
	putRow(t, d, "t", "there", `{}`)
	before, err := d.LastChange()
	if err != nil {
		t.Fatal(err)
	}
	f := func(want error, edits ...devicestore.Edit) {
		t.Helper()
		if _, err := d.Put(edits...); !errors.Is(err, want) {
			t.Errorf("%.60v, want %v", err, want)
		}
		if after, err := d.LastChange(); err != nil || after != before {
			t.Errorf("%v: something was stored: %v", want, err)
		}
	}
	good := edit("t", "1", `{}`)
	f(ErrEdits)
	f(ErrEdits, make([]devicestore.Edit, maxEdits+1)...)
	f(ErrRow, edit("t", "1", `[]`))
	f(ErrRow, edit("t", "1", `null`))
	f(ErrRow, edit("t", "1", `{"a":1,"a":2}`))
	f(ErrRow, good, edit("t", "2", `{"a":`))
	f(ErrRow, edit("t", "1", "{\"a\":\"\xff\"}"))
	f(ErrRow, devicestore.Edit{Key: good.Key, Data: []byte{}})
	f(ErrRowSize, edit("t", "1", rowOfSize(synccrypt.MaxRowBytes+1)))
	f(ErrRowSize, edit("t", "1", `{}`+strings.Repeat(" ", maxInputBytes)))
	f(ErrTable, edit("", "1", `{}`))
	f(ErrTable, edit("a b", "1", `{}`))
	f(ErrTable, good, edit(strings.Repeat("t", 65), "1", `{}`))
	f(ErrRowID, edit("t", "", `{}`))
	f(ErrRowID, edit("t", "a\x00", `{}`))
	f(ErrRowID, edit("t", strings.Repeat("i", 257), ""))
	f(ErrReserved, edit(blobTable, "x", `{}`))
	f(devicestore.ErrNoRow, good, edit("t", "2", ""))
	f(devicestore.ErrNoRow, edit(blobTable, "x", ""))
	if _, err := d.Put(good, edit("t", "2", `[`)); err == nil || !strings.Contains(err.Error(), "edit 2") {
		t.Errorf("%v does not say which", err)
	}
}

// The largest row that Put takes has an envelope that the relay takes, whatever
// white space came with it.
func TestPutLargest(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, strings.Repeat("a", 64), h), newTestDevice(t, key, "b", h)
	row := rowOfSize(synccrypt.MaxRowBytes)
	table, id := strings.Repeat("t", 64), strings.Repeat("\u2028", 85)
	rows, err := a.Put(edit(table, id, "  "+strings.Replace(row, ":", " :\n", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || string(rows[0].Data) != row {
		t.Error("the row that is returned is not the canonical one")
	}
	syncAll(t, a, b)
	wantRow(t, b, table, id, row)
}

func TestExport(t *testing.T) {
	d := newTestDevice(t, newKey(t), "")
	const count = 2*exportRows + 1
	var edits []devicestore.Edit
	for i := range count {
		edits = append(edits, edit("t", fmt.Sprintf("%05d<&>", i), fmt.Sprintf(`{"n": %d, "text": "<é>\u2028"}`, i)))
	}
	for i := 0; i < count; i += maxEdits {
		if _, err := d.Put(edits[i:min(i+maxEdits, count)]...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Put(edit("t", "00001<&>", "")); err != nil {
		t.Fatal(err)
	}
	m := attach(t, d, []byte("x"))
	var out bytes.Buffer
	if err := d.Export(&out); err != nil {
		t.Fatal(err)
	}
	lines, last := 0, ""
	for s := bufio.NewScanner(&out); s.Scan(); lines++ {
		var line exported
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		r, err := d.Get(devicestore.Key{Table: line.Table, ID: line.ID})
		if err != nil || r.Deleted || r.HLC != line.HLC || !bytes.Contains(s.Bytes(), append([]byte(`"row":`), r.Data...)) {
			t.Fatalf("line %s: %v, %v", s.Text(), r, err)
		}
		if at := line.Table + "\x00" + line.ID; at <= last {
			t.Fatalf("%q after %q", at, last)
		} else {
			last = at
		}
		if lines == 0 && line.ID != m.BlobID {
			t.Errorf("the attachment's manifest is missing: %s", s.Text())
		}
	}
	if lines != count {
		t.Errorf("%d lines, want %d", lines, count)
	}
	if err := d.Export(failing{}); !errors.Is(err, errCut) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errCut }

// D36: a purge forgets old deletes that every relay has, and asks the relays to;
// chunks that nothing names go too.
func TestPurgeSweeps(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	d := newTestDevice(t, key, "", h)
	putRow(t, d, "t", "gone", `{}`)
	putRow(t, d, "t", "kept", `{}`)
	m, kept := attach(t, d, bytesOf(1, 10)), attach(t, d, bytesOf(2, 10))
	syncAll(t, d)
	if _, err := d.Put(edit("t", "gone", ""), edit(blobTable, m.BlobID, "")); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if n, err := d.Purge(later); n != 0 || err != nil {
		t.Errorf("purged %d that no relay has, %v", n, err)
	}
	syncAll(t, d)
	if n, err := d.Purge(time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("purged %d that are young, %v", n, err)
	}
	if n := len(chunkFiles(t, d)); n != 2 {
		t.Errorf("%d chunks, want the young one too", n)
	}
	old := time.Now().Add(-2 * sweepAge)
	for _, name := range chunkFiles(t, d) {
		if err := os.Chtimes(d.chunks().path(name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.Purge(later); n != 2 || err != nil {
		t.Errorf("purged %d, %v; want 2", n, err)
	}
	if names := chunkFiles(t, d); len(names) != 1 || names[0] != kept.Chunks[0].Hash {
		t.Errorf("chunks %v are left", names)
	}
	syncAll(t, d)
	if a, _, _ := h.account(key); a.Events != 2 {
		t.Errorf("the relay has %d events, want those of the two rows that are left", a.Events)
	}
	wantRow(t, d, "t", "kept", `{}`)
}
