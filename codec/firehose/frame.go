package firehose

import "github.com/sluice-relay/sluice/codec/dagcbor"

// Frame is a message that a Scanner has read. Its zero value is empty; it can
// be scanned into again, which saves an allocation. The byte slices are
// borrowed from the message (H1), and nil where the message has no such field
// or a null.
//
// Kind, Check, SizeBytes and Append make a frame with a number a body to
// publish, as Commit and the others are.
type Frame struct {
	Type []byte // t with its #; nil for an error frame and without a t

	Seq  int64  // of the host that sent it; 0 if it has none that is legal
	DID  []byte // did, or repo of a #commit
	Time []byte

	Rev      []byte      // #commit, #sync
	Blocks   []byte      // #commit, #sync
	OpsCount int         // #commit
	Since    []byte      // #commit
	Commit   dagcbor.CID // #commit
	PrevData dagcbor.CID // #commit

	Handle []byte // #identity
	Active bool   // #account
	Status []byte // #account

	Name    []byte // name of #info, error of an error frame
	Message []byte // #info, error frame

	kind   Kind
	body   []byte
	fields dagcbor.Fields // canonical, if the kind has a number

	// Where the value of seq stands in a body that is canonical as it came.
	// Both are 0 if the body has to be written field by field.
	seqStart, seqEnd int
}

// reset empties the frame but keeps its scratch.
func (f *Frame) reset() {
	clear(f.fields.List)
	*f = Frame{kind: KindUnknown, fields: dagcbor.Fields{List: f.fields.List[:0], Ordered: true}}
}

// Kind returns what the frame is, KindCommit for the zero Frame.
func (f *Frame) Kind() Kind { return f.kind }

// Check is nil: a frame that was scanned without an error can be published.
func (f *Frame) Check() error { return nil }

// The longest value of seq, and its key.
const (
	seqValueBytes = 9
	seqKeyBytes   = 4
	seqKey        = "seq"
)

// SizeBytes is at least the length of what Append appends, and exactly that
// for a number from 2^32.
func (f *Frame) SizeBytes() int {
	if !numbered(f.kind) {
		return 0
	}
	if f.seqStart > 0 {
		return len(headers[f.kind]) + len(f.body) - (f.seqEnd - f.seqStart) + seqValueBytes
	}
	n := len(headers[f.kind]) + dagcbor.HeadLen(uint64(f.count())) + seqKeyBytes + seqValueBytes
	for i := range f.fields.List {
		if field := &f.fields.List[i]; string(field.Key) != seqKey {
			n += dagcbor.HeadLen(uint64(len(field.Key))) + len(field.Key) + len(field.Value)
		}
	}
	return n
}

// count returns how many fields the frame has when it is written.
func (f *Frame) count() int {
	if f.fields.Find(seqKey) == nil {
		return len(f.fields.List) + 1
	}
	return len(f.fields.List)
}

// Append appends the frame with another number and all other fields as they
// came, in canonical order; the header keeps t and op alone (F61). It fails
// with ErrSeq for a number out of range and with ErrKind for a frame that has
// no number. Any goroutine, while the frame is not scanned into or set.
func (f *Frame) Append(dst []byte, seq int64) ([]byte, error) {
	if !numbered(f.kind) {
		return dst, ErrKind
	}
	if err := checkSeq(seq); err != nil {
		return dst, err
	}
	if dst == nil {
		dst = make([]byte, 0, f.SizeBytes())
	}
	dst = append(dst, headers[f.kind]...)
	if f.seqStart > 0 {
		dst = append(dst, f.body[:f.seqStart]...)
		dst = dagcbor.AppendInt(dst, seq)
		return append(dst, f.body[f.seqEnd:]...), nil
	}
	dst = dagcbor.AppendMap(dst, f.count())
	written := false
	for i := range f.fields.List {
		field := &f.fields.List[i]
		if !written && dagcbor.CompareKeys(field.Key, []byte(seqKey)) >= 0 {
			dst = dagcbor.AppendInt(appendKey(dst, seqKey), seq)
			written = true
		}
		if string(field.Key) != seqKey {
			dst = append(dagcbor.AppendText(dst, field.Key), field.Value...)
		}
	}
	if !written {
		dst = dagcbor.AppendInt(appendKey(dst, seqKey), seq)
	}
	return dst, nil
}

// SetAccount gives an #account another status, as the relay that takes it down
// does (F67); its unknown fields stay. It fails with ErrKind for other frames
// and with Account.Check's errors, and then changes nothing. An empty status
// takes the field out. Only the goroutine that scanned the frame may call it.
func (f *Frame) SetAccount(active bool, status string) error {
	if f.kind != KindAccount {
		return ErrKind
	}
	if err := checkStatus(active, status); err != nil {
		return err
	}
	f.seqStart, f.seqEnd = 0, 0
	f.Active, f.Status = active, nil
	f.fields.Set("active", dagcbor.AppendBool(nil, active))
	if status == "" {
		f.fields.Set("status", nil)
		return nil
	}
	value := dagcbor.AppendText(nil, status)
	f.Status, _ = dagcbor.TextOf(value)
	f.fields.Set("status", value)
	return nil
}
