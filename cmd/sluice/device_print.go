package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/client/repos"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// Least widths of the columns of a row's line.
const (
	rowTimeColumns  = len("2026-01-02T15:04:05.000Z")
	rowTableColumns = 10
	rowIDColumns    = 16
)

// maxShownRow is how much of a row is looked at for a line on a terminal, in bytes.
const maxShownRow = 4 << 10

// rowJSON is a row as --json prints it.
type rowJSON struct {
	Change  int64           `json:"change,omitempty"`
	Table   string          `json:"table"`
	ID      string          `json:"id"`
	HLC     string          `json:"hlc"`
	Deleted bool            `json:"deleted,omitempty"`
	Row     json.RawMessage `json:"row,omitempty"`
}

// rowPrinter returns what makes a line of a row, with its line end. The result is
// valid until the next call. change tells that JSON has the number of the change.
func (r *deviceRun) rowPrinter(asJSON, change bool) func(devicestore.Row) []byte {
	var line []byte
	if !asJSON {
		look, resized := r.look(true), terminal(r.stdout) != nil
		return func(row devicestore.Row) []byte {
			if resized {
				look = r.look(true) // a terminal may change meanwhile
			}
			line = append(rowLine(line[:0], row, look), '\n')
			return line
		}
	}
	return func(row devicestore.Row) []byte {
		o := rowJSON{Table: row.Table, ID: row.ID, HLC: row.HLC, Deleted: row.Deleted, Row: row.Data}
		if change {
			o.Change = row.Change
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(o) != nil { // the store has JSON only
			return nil
		}
		return r.visible(b.Bytes())
	}
}

// rowLine appends one line about a row to dst, without a line end: the time of its
// edit, its table, its id and the row.
func rowLine(dst []byte, row devicestore.Row, o render.Options) []byte {
	p := render.NewPen(dst, o.Width, o.Color)
	column := func(style render.Style, text string, columns int) {
		start := p.Columns()
		if start > 0 {
			start++
		}
		p.Word(style, text)
		p.Pad(start + columns)
	}
	column(render.Dim, hlcTime(row.HLC), rowTimeColumns)
	column(render.Magenta, row.Table, rowTableColumns)
	column(render.Bold, row.ID, rowIDColumns)
	switch data := row.Data; {
	case row.Deleted:
		p.Word(render.Red, "deleted")
	case row.Table == blobTable:
		p.Word(render.Plain, fileText(data))
	case o.Width > 0 && len(data) > maxShownRow:
		p.Word(render.Plain, string(data[:maxShownRow]))
	default:
		p.Word(render.Plain, string(data))
	}
	return p.End()
}

// fileText is what a line says of the manifest of a file (D51): its kind and its
// size, or all of it if it is none.
func fileText(data []byte) string {
	m, err := synccrypt.DecodeManifest(data)
	if err != nil {
		return string(data)
	}
	return fmt.Sprintf("file %s, %s", m.MimeType, sizeText(m.ByteSize))
}

// writeRow prints the line of one row.
func (r *deviceRun) writeRow(line func(devicestore.Row) []byte, row devicestore.Row) error {
	_, err := r.out.Write(line(row))
	return err
}

// visible spells out in JSON what a terminal would act on, if standard output is
// one.
func (r *deviceRun) visible(text []byte) []byte {
	if terminal(r.stdout) == nil {
		return text
	}
	return repos.AppendVisible(nil, text)
}

// visibleWriter is visible for a stream. What it gets ends with a whole character
// at the last call, and with any byte before.
type visibleWriter struct {
	out  *deviceOutput
	kept []byte // the beginning of a character, less than utf8.UTFMax bytes
}

// Write implements io.Writer.
func (v *visibleWriter) Write(p []byte) (int, error) {
	text := append(v.kept, p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	if _, err := v.out.Write(repos.AppendVisible(nil, text[:whole])); err != nil {
		return 0, err
	}
	v.kept = append([]byte(nil), text[whole:]...)
	return len(p), nil
}

// printJSONTo prints one object over several lines, as printJSON does.
func (r *deviceRun) printJSONTo(v any) error {
	to := app{stdout: r.out}
	return to.printJSON(v)
}
