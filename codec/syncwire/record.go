package syncwire

import (
	"encoding/binary"
	"errors"
)

// recordHead is the fixed part of a record: the lengths of the event id, the
// stream id and the stored form, 2, 2 and 4 bytes, little endian.
const recordHead = 8

// ErrRecord says that bytes are no record of AppendRecord.
var ErrRecord = errors.New("syncwire: broken record")

// AppendRecord appends an envelope in the form in which a push waits, in memory
// or in a spool file, until it is complete (S20a): ReadRecord gets it back
// without parsing it again. The form is private to one run of the program.
func AppendRecord(dst []byte, e *Envelope) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.EventID)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.StreamID)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Stored)))
	dst = append(dst, e.EventID...)
	dst = append(dst, e.StreamID...)
	return append(dst, e.Stored...)
}

// ReadRecord reads the record at the start of p into e, which borrows p; Index
// is left alone. It returns the record's length. When p ends inside the record
// it reads nothing, and the length is what p must have at least: 8 as long as
// that is not known. ErrRecord: p was never written by AppendRecord.
func ReadRecord(p []byte, e *Envelope) (n int, ok bool, err error) {
	if len(p) < recordHead {
		return recordHead, false, nil
	}
	event := int(binary.LittleEndian.Uint16(p))
	stream := int(binary.LittleEndian.Uint16(p[2:]))
	stored := int64(binary.LittleEndian.Uint32(p[4:]))
	if event == 0 || event > maxEventChars || stream > maxStreamChars || stored > 1<<31-1<<12 {
		return 0, false, ErrRecord
	}
	n = recordHead + event + stream + int(stored)
	if len(p) < n {
		return n, false, nil
	}
	p = p[recordHead:n:n]
	e.EventID = p[:event:event]
	e.StreamID = p[event : event+stream : event+stream]
	e.Stored = p[event+stream:]
	return n, true, nil
}
