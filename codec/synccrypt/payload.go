package synccrypt

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// SchemaVersion is the form of payloads that this package knows in full.
const SchemaVersion = 1

// BlobTable is the table of blob manifests (D51).
const BlobTable = "blob"

// Payload is what an envelope hides: one row as it was after one write (D14).
type Payload struct {
	SchemaVersion int    // 1
	Table, ID     string // see ValidTable and ValidRowID
	Deleted       bool
	HLC           string // the form of D12, which is the envelope's event id
	Row           []byte // a JSON object; nil when deleted
}

// Append appends the payload as canonical JSON (D10), its Row made canonical as
// well. It borrows the payload; dst does not overlap Row. ErrPayload: a member
// breaks D14.
func (p *Payload) Append(dst []byte) ([]byte, error) {
	s := getScratch()
	defer s.put()
	out, err := p.append(dst, &s.canon)
	if err != nil {
		return dst, fmt.Errorf("synccrypt: %w", err)
	}
	return out, nil
}

func (p *Payload) append(dst []byte, c *canon) ([]byte, error) {
	if err := p.check(); err != nil {
		return dst, err
	}
	out := append(dst, `{"hlc":"`...)
	out = append(out, p.HLC...)
	out = append(out, `","id":`...)
	out = appendString(out, p.ID)
	if p.Deleted {
		out = append(out, `,"op":"delete"`...)
	} else {
		out = append(out, `,"op":"upsert","row":`...)
		row := len(out)
		var err error
		if out, err = c.canonical(out, p.Row, maxDepth); err != nil {
			return dst, fmt.Errorf("%w: row: %w", ErrPayload, err)
		}
		if out[row] != '{' {
			return dst, fmt.Errorf("%w: the row is no object", ErrPayload)
		}
	}
	out = append(out, `,"schemaVersion":`...)
	out = strconv.AppendInt(out, int64(p.SchemaVersion), 10)
	out = append(out, `,"table":"`...)
	out = append(out, p.Table...)
	return append(out, `"}`...), nil
}

func (p *Payload) check() error {
	switch _, err := ParseHLC(p.HLC); {
	case p.SchemaVersion < 1 || p.SchemaVersion > math.MaxInt32:
		return fmt.Errorf("%w: the schema version is out of range", ErrPayload)
	case !ValidTable(p.Table):
		return fmt.Errorf("%w: the table is not 1 to 64 of A-Z, a-z, 0-9, _, . and -", ErrPayload)
	case !ValidRowID(p.ID):
		return fmt.Errorf("%w: the row id is not 1 to 256 bytes of text without control characters", ErrPayload)
	case err != nil:
		return fmt.Errorf("%w: the hlc is not of the form millis-counter-device", ErrPayload)
	case p.Deleted && p.Row != nil:
		return fmt.Errorf("%w: a delete has a row", ErrPayload)
	}
	return nil
}

// DecodePayload reads what an envelope hid. Row is canonical, and shares plain
// when that is canonical as a whole.
//
// ErrUnknown: a schemaVersion above 1, or an op or a member that version 1 does
// not have. SchemaVersion then is what it says, and Table, ID and HLC are
// filled where they are as version 1 has them, else empty. ErrPayload: anything
// else that D14 does not allow; the payload is zero.
func DecodePayload(plain []byte) (Payload, error) {
	s := getScratch()
	defer s.put()
	var err error
	if s.text, err = s.canon.canonical(s.text[:0], plain, maxDepth+1); err != nil {
		return Payload{}, fmt.Errorf("synccrypt: %w: %w", ErrPayload, err)
	}
	form := plain
	if !bytes.Equal(s.text, plain) {
		form = bytes.Clone(s.text)
	}
	p, err := decodePayload(form)
	if err != nil {
		return p, fmt.Errorf("synccrypt: %w", err)
	}
	return p, nil
}

// payloadMembers are the members of D14 as they lie in the text, nil where they
// are absent.
type payloadMembers struct {
	version, table, id, op, hlc, row []byte
	other                            bool // one that version 1 does not have
}

func decodePayload(form []byte) (Payload, error) {
	if form[0] != '{' {
		return Payload{}, fmt.Errorf("%w: no object", ErrPayload)
	}
	var m payloadMembers
	_ = eachMember(form, func(name, value []byte) error {
		switch string(name) {
		case "hlc":
			m.hlc = value
		case "id":
			m.id = value
		case "op":
			m.op = value
		case "row":
			m.row = value
		case "schemaVersion":
			m.version = value
		case "table":
			m.table = value
		default:
			m.other = true
		}
		return nil
	})
	return m.payload()
}

func (m *payloadMembers) payload() (Payload, error) {
	version, ok := int64(0), false
	if m.version != nil {
		version, ok = integer(m.version)
	}
	if !ok || version < 1 || version > math.MaxInt32 {
		return Payload{}, fmt.Errorf("%w: schemaVersion is no positive integer", ErrPayload)
	}
	p := Payload{
		SchemaVersion: int(version),
		Table:         textIf(m.table, ValidTable),
		ID:            textIf(m.id, ValidRowID),
		HLC:           textIf(m.hlc, validHLC),
	}
	op, isText := "", false
	if m.op != nil {
		op, isText = text(m.op)
	}
	switch {
	case version > SchemaVersion:
		return p, fmt.Errorf("%w: schemaVersion %d", ErrUnknown, version)
	case m.other:
		return p, fmt.Errorf("%w: a member that version 1 does not have", ErrUnknown)
	case isText && op != "upsert" && op != "delete":
		return p, fmt.Errorf("%w: an op that version 1 does not have", ErrUnknown)
	case !isText:
		return Payload{}, fmt.Errorf("%w: op is missing or no string", ErrPayload)
	case (op == "upsert") != (m.row != nil):
		return Payload{}, fmt.Errorf("%w: an upsert without a row, or a delete with one", ErrPayload)
	case m.row != nil && m.row[0] != '{':
		return Payload{}, fmt.Errorf("%w: the row is no object", ErrPayload)
	}
	p.Deleted, p.Row = op == "delete", m.row
	if err := p.check(); err != nil {
		return Payload{}, err
	}
	return p, nil
}

func validHLC(s string) bool {
	_, err := ParseHLC(s)
	return err == nil
}

// textIf decodes a string that is there and valid, else it returns "".
func textIf(value []byte, valid func(string) bool) string {
	if value == nil {
		return ""
	}
	if s, ok := text(value); ok && valid(s) {
		return s
	}
	return ""
}
