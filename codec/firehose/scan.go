package firehose

import (
	"errors"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// Scanner reads messages. Its zero value is ready; it keeps scratch, so that a
// scanner and a frame that are used again do not allocate for a canonical
// message. One goroutine at a time.
type Scanner struct {
	// MaxFrameBytes is the largest message that is read; 0 is the constant.
	MaxFrameBytes int

	cbor   dagcbor.Scanner
	sorter dagcbor.Sorter
	head   dagcbor.Fields // of a header, CAR header or commit block
}

// Scan reads a binary message of another host into f, whose old content is
// forgotten (F58, F59). The error is a ScanError with the reaction. After an
// error f has at most Type, Kind and Seq.
func (s *Scanner) Scan(message []byte, f *Frame) error {
	err := s.scan(message, f, true)
	if err != nil {
		name, kind, seq := f.Type, f.kind, f.Seq
		f.reset()
		f.Type, f.kind, f.Seq = name, kind, seq
	}
	return err
}

// ScanPublished reads a frame that a producer hands in (F52): it has one of the
// numbered kinds and is held to F14, a seq in it is ignored, and unknown fields
// are kept. The error is a ScanError, a FieldError in it or not; after it f is
// empty.
func (s *Scanner) ScanPublished(message []byte, f *Frame) error {
	err := s.scan(message, f, false)
	if err == nil && !numbered(f.kind) {
		err = skip(ErrKind)
	}
	if err == nil {
		if fault := f.check(); fault != nil {
			err = skip(fault)
		}
	}
	if err != nil {
		f.reset()
	}
	return err
}

// scan reads a message. Whatever is wrong with its fields, its CBOR is looked
// at first: that decides if the connection can go on.
func (s *Scanner) scan(message []byte, f *Frame, sent bool) error {
	f.reset()
	limit := s.MaxFrameBytes
	if limit == 0 {
		limit = MaxFrameBytes
	}
	if len(message) > limit {
		return drop(ErrFrameTooBig)
	}
	bodyStart, headerErr, err := s.header(message, f)
	if err != nil {
		return err
	}
	f.body = message[bodyStart:]
	end, err := s.cbor.Map(message, bodyStart, &f.fields)
	var skipped error
	if errors.Is(err, dagcbor.ErrTooManyFields) {
		skipped = skip(err)
		end, _, err = s.cbor.Value(message, bodyStart)
	}
	switch {
	case err != nil:
		return drop(err)
	case end != len(message):
		return drop(&dagcbor.SyntaxError{Offset: end, Err: dagcbor.ErrTrailing})
	case skipped != nil:
		return skipped
	}
	if sent {
		f.Seq = legalSeq(f.fields.Find(seqKey))
	}
	if headerErr != nil {
		return headerErr
	}
	if field, err := f.read(sent); err != nil {
		return skip(bad(field, err))
	}
	if numbered(f.kind) {
		s.prepare(f)
	}
	return nil
}

// header reads the header of a message and notes what it says in f. The first
// error asks to skip the frame once its body is found right, the second to
// drop the connection.
func (s *Scanner) header(message []byte, f *Frame) (bodyStart int, skipped, err error) {
	for kind, header := range headers {
		if len(message) >= len(header) && string(message[:len(header)]) == header {
			f.kind = Kind(kind)
			if f.kind != KindError {
				f.Type = message[4 : len(header)-4] // after the map's head, t, and the text's head
			}
			return len(header), nil, nil
		}
	}
	end, err := s.cbor.Map(message, 0, &s.head)
	if err != nil {
		return 0, nil, drop(err)
	}
	opValue := s.head.Find("op")
	if opValue == nil {
		return 0, nil, drop(ErrNoOp)
	}
	if major := dagcbor.MajorOf(opValue); major != dagcbor.Unsigned && major != dagcbor.Negative {
		return 0, nil, drop(ErrOpType)
	}
	t, isText := dagcbor.TextOf(s.head.Find("t"))
	op, _ := dagcbor.Int(opValue) // 0, which is unknown, if it fits no int64
	switch {
	case op == -1:
		f.kind = KindError
	case op != 1:
		return end, skip(ErrUnknownOp), nil
	case !isText:
		return end, skip(ErrNoType), nil
	default:
		f.Type = t
		if f.kind = kindOfType(t); f.kind == KindUnknown {
			return end, skip(ErrUnknownType), nil
		}
	}
	return end, nil, nil
}

// legalSeq returns the number in a value of seq, 0 if it has none (F15).
func legalSeq(value []byte) int64 {
	seq, ok := dagcbor.Int(value)
	if !ok || seq < 1 || seq > MaxSeq {
		return 0
	}
	return seq
}

// prepare makes the frame ready for Append: it finds the number in a body that
// is canonical, or makes the fields canonical.
func (s *Scanner) prepare(f *Frame) {
	sorted := f.fields.Ordered
	at := dagcbor.HeadLen(uint64(len(f.fields.List)))
	for i := range f.fields.List {
		field := &f.fields.List[i]
		at += dagcbor.HeadLen(uint64(len(field.Key))) + len(field.Key)
		if string(field.Key) == seqKey {
			f.seqStart, f.seqEnd = at, at+len(field.Value)
		}
		at += len(field.Value)
		if !field.Sorted {
			sorted = false
			field.Value, field.Sorted = s.sorter.AppendSorted(nil, field.Value), true
		}
	}
	if !sorted {
		f.seqStart, f.seqEnd = 0, 0
		f.fields.Sort()
	}
}

// AppendJSON appends the JSON form of a message, for people who watch:
// {"header":{...},"body":{...}}, with links and bytes as dagcbor has them. Any
// header and body pass if their CBOR is right, unknown ones and keys out of
// order too. After an error dst comes back as it was.
func (s *Scanner) AppendJSON(dst, message []byte) ([]byte, error) {
	bodyStart, _, err := s.cbor.Value(message, 0)
	if err != nil {
		return dst, err
	}
	out, err := s.cbor.AppendJSON(append(dst, `{"header":`...), message[:bodyStart])
	if err != nil {
		return dst, err
	}
	out, err = s.cbor.AppendJSON(append(out, `,"body":`...), message[bodyStart:])
	if err != nil {
		var syntax *dagcbor.SyntaxError
		if errors.As(err, &syntax) {
			err = &dagcbor.SyntaxError{Offset: syntax.Offset + bodyStart, Err: syntax.Err}
		}
		return dst, err
	}
	return append(out, '}'), nil
}
