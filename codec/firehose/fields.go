package firehose

import (
	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// read checks the types of the known fields and notes their values in the
// frame (F59). With sent, a number is among the required ones. It returns the
// name of a field and what is wrong with it.
func (f *Frame) read(sent bool) (string, error) {
	for i := range f.fields.List {
		field := &f.fields.List[i]
		var name string
		var err error
		switch f.kind {
		case KindCommit:
			name, err = f.readCommit(field)
		case KindSync, KindIdentity, KindAccount:
			err = f.readAbout(field)
		default:
			err = f.readNotice(field)
		}
		if err != nil {
			if name == "" {
				name = string(field.Key)
			}
			return name, err
		}
	}
	return f.required(sent)
}

// required looks for the fields without which the relay cannot work.
func (f *Frame) required(sent bool) (string, error) {
	didKey := "did"
	switch f.kind {
	case KindInfo:
		return present("name", f.Name)
	case KindError:
		return present("error", f.Name)
	case KindCommit:
		didKey = "repo"
	case KindAccount:
		if f.fields.Find("active") == nil {
			return "active", ErrMissing
		}
	}
	if sent && f.Seq == 0 {
		switch value := f.fields.Find(seqKey); {
		case value == nil:
			return seqKey, ErrMissing
		case dagcbor.MajorOf(value) != dagcbor.Unsigned && dagcbor.MajorOf(value) != dagcbor.Negative:
			return seqKey, ErrType
		}
		return seqKey, ErrSeq
	}
	if name, err := present(didKey, f.DID); err != nil {
		return name, err
	}
	if !ValidDID(f.DID) {
		return didKey, ErrDID
	}
	if f.kind == KindCommit || f.kind == KindSync {
		if name, err := present("rev", f.Rev); err != nil {
			return name, err
		}
		if !ValidTID(f.Rev) {
			return "rev", ErrTID
		}
	}
	return "", nil
}

func present(key string, text []byte) (string, error) {
	if text == nil {
		return key, ErrMissing
	}
	return "", nil
}

// readCommit reads a field of a #commit. The name is of a field inside it.
func (f *Frame) readCommit(field *dagcbor.Field) (name string, err error) {
	value := field.Value
	switch string(field.Key) {
	case "ops":
		return f.readOps(value)
	case "rev":
		err = readText(&f.Rev, value)
	case "repo":
		err = readText(&f.DID, value)
	case "time":
		err = readText(&f.Time, value)
	case "blobs":
		err = checkBlobs(value)
	case "since":
		if !dagcbor.IsNull(value) {
			err = readText(&f.Since, value)
		}
	case "blocks":
		err = readBytes(&f.Blocks, value)
	case "commit":
		err = readLink(&f.Commit, value)
	case "rebase", "tooBig":
		var v bool
		err = readBool(&v, value)
	case "prevData":
		err = readLink(&f.PrevData, value)
	}
	return "", err
}

// readAbout reads a field of the other numbered kinds.
func (f *Frame) readAbout(field *dagcbor.Field) error {
	value := field.Value
	switch string(field.Key) {
	case "did":
		return readText(&f.DID, value)
	case "time":
		return readText(&f.Time, value)
	}
	switch f.kind {
	case KindSync:
		switch string(field.Key) {
		case "rev":
			return readText(&f.Rev, value)
		case "blocks":
			return readBytes(&f.Blocks, value)
		}
	case KindIdentity:
		if string(field.Key) == "handle" {
			return readText(&f.Handle, value)
		}
	case KindAccount:
		switch string(field.Key) {
		case "active":
			return readBool(&f.Active, value)
		case "status":
			return readText(&f.Status, value)
		}
	}
	return nil
}

// readNotice reads a field of #info or an error frame.
func (f *Frame) readNotice(field *dagcbor.Field) error {
	switch key := string(field.Key); {
	case key == "message":
		return readText(&f.Message, field.Value)
	case key == "name" && f.kind == KindInfo, key == "error" && f.kind == KindError:
		return readText(&f.Name, field.Value)
	}
	return nil
}

// readOps checks the types in the array of operations and counts them.
func (f *Frame) readOps(value []byte) (string, error) {
	if dagcbor.MajorOf(value) != dagcbor.Array {
		return "ops", ErrType
	}
	f.OpsCount, _ = dagcbor.Count(value)
	for op := range dagcbor.Elements(value) {
		if dagcbor.MajorOf(op) != dagcbor.Map {
			return "ops", ErrType
		}
		for key, v := range dagcbor.Entries(op) {
			if name := wrongOpField(key, v); name != "" {
				return name, ErrType
			}
		}
	}
	return "", nil
}

// wrongOpField returns the name of a field of an operation if it is of the
// wrong type.
func wrongOpField(key, value []byte) string {
	switch string(key) {
	case "cid":
		if _, ok := dagcbor.Link(value); !ok && !dagcbor.IsNull(value) {
			return "ops.cid"
		}
	case "prev":
		if _, ok := dagcbor.Link(value); !ok {
			return "ops.prev"
		}
	case "path":
		if dagcbor.MajorOf(value) != dagcbor.Text {
			return "ops.path"
		}
	case "action":
		if dagcbor.MajorOf(value) != dagcbor.Text {
			return "ops.action"
		}
	}
	return ""
}

func checkBlobs(value []byte) error {
	if dagcbor.MajorOf(value) != dagcbor.Array {
		return ErrType
	}
	for blob := range dagcbor.Elements(value) {
		if _, ok := dagcbor.Link(blob); !ok {
			return ErrType
		}
	}
	return nil
}

func readText(into *[]byte, value []byte) error { return note(into, value, dagcbor.TextOf) }

func readBytes(into *[]byte, value []byte) error { return note(into, value, dagcbor.BytesOf) }

func note(into *[]byte, value []byte, read func([]byte) ([]byte, bool)) error {
	content, ok := read(value)
	if !ok {
		return ErrType
	}
	*into = content
	return nil
}

func readLink(into *dagcbor.CID, value []byte) error {
	cid, ok := dagcbor.Link(value)
	if !ok {
		return ErrType
	}
	*into = cid
	return nil
}

func readBool(into *bool, value []byte) error {
	v, ok := dagcbor.Bool(value)
	if !ok {
		return ErrType
	}
	*into = v
	return nil
}
