package aepws

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// openDelivery is how a stored form ends; `"retry":...,` follows it when the
// publisher gave that. AppendDelivery goes on there.
const openDelivery = `,"delivery":{`

// StoredForm appends the form of an admitted event that the log keeps: the
// object as published, order and bytes of its members kept, without the
// publisher's `delivery`, and open at its end: there stands a delivery member
// with nothing in it but the publisher's `retry` (B57). The event must have no
// faults. Text of StoredForm with a delivery is one valid event. Pure.
func StoredForm(dst []byte, e *Envelope) []byte {
	text := e.text
	if e.cutEnd == 0 {
		dst = append(dst, text[e.start:e.lastEnd]...)
	} else {
		dst = append(dst, text[e.start:e.cutStart]...)
		dst = append(dst, text[e.cutEnd:max(e.lastEnd, e.cutEnd)]...)
	}
	dst = append(dst, openDelivery...)
	if e.Retry != nil {
		dst = append(dst, `"retry":`...)
		dst = append(dst, e.Retry...)
		dst = append(dst, ',')
	}
	return dst
}

// StoredBytes returns an upper bound of what StoredForm appends.
func (e *Envelope) StoredBytes() int {
	return e.lastEnd - e.start + len(openDelivery) + len(`"retry":,`) + len(e.Retry)
}

// Delivery is what the relay says of one delivery (B57, B58, B60).
type Delivery struct {
	Mode           Mode
	Sequence       int64  // the event's number, at least 1
	ID             string // the event's id, for the cursor
	SubscriptionID string
	Attempt        int   // from 2 on; less is left out (B58)
	Dropped        int64 // events skipped just before; 0 is left out (B60)
}

// AppendDelivery appends the complete event: a stored form, which is borrowed
// until return, and its delivery. It copies the stored form once. Pure.
func AppendDelivery(dst, stored []byte, d *Delivery) []byte {
	return d.append(append(dst, stored...))
}

// AppendDeliveryFrame appends the same as one WebSocket text frame of a server
// (B10). Pure.
func AppendDeliveryFrame(dst, stored []byte, d *Delivery) []byte {
	var scratch [maxTailBytes]byte
	tail := d.append(scratch[:0])
	dst = wsframe.AppendHeader(dst, wsframe.OpText, len(stored)+len(tail))
	dst = append(dst, stored...)
	return append(dst, tail...)
}

// maxTailBytes holds the tail of a usual delivery: fixed text, three numbers,
// an id of 128 characters that are all escaped, and a subscription's id.
const maxTailBytes = 512

// append appends the members of delivery, and closes it and the event.
func (d *Delivery) append(dst []byte) []byte {
	dst = append(dst, `"mode":"`...)
	dst = append(dst, d.Mode.String()...)
	dst = append(dst, `","sequence":`...)
	dst = strconv.AppendInt(dst, d.Sequence, 10)
	dst = append(dst, `,"cursor":`...)
	dst = appendQuotedCursor(dst, d.ID, d.Sequence)
	dst = append(dst, `,"subscription_id":`...)
	dst = appendQuoted(dst, d.SubscriptionID)
	if d.Attempt > 1 {
		dst = append(dst, `,"attempt":`...)
		dst = strconv.AppendInt(dst, int64(d.Attempt), 10)
	}
	if d.Dropped > 0 {
		dst = append(dst, `,"dropped":`...)
		dst = strconv.AppendInt(dst, d.Dropped, 10)
	}
	return append(dst, '}', '}')
}

// AppendOriginal appends a stored form as the event that was published, for a
// dead letter (B58): delivery has the publisher's retry and mode, and is left
// out when there was neither. Pure.
func AppendOriginal(dst, stored []byte, mode Mode) []byte {
	dst = append(dst, stored...)
	end := len(dst)
	switch {
	case mode != ModeAbsent:
		dst = append(dst, `"mode":"`...)
		dst = append(dst, mode.String()...)
		return append(dst, `"}}`...)
	case bytes.HasSuffix(stored, []byte(openDelivery)):
		return append(dst[:end-len(openDelivery)], '}')
	}
	return append(dst[:end-1], '}', '}') // for the comma after retry
}

// ErrStored is returned for a text that StoredForm cannot have made: its file
// was damaged.
var ErrStored = errors.New("not the stored form of an event")

// ReadStored checks a stored form, as a page of the log gives it, and reads
// its attributes. Their strings share stored, which must stay as it is; those
// written with escapes are copies. tenant is the event's tenant, which may
// have come from the session (B46). The error is ErrStored.
func (s *Scanner) ReadStored(stored []byte, tenant string) (Attributes, error) {
	s.reset()
	if len(stored) > maxTextBytes || len(stored) == 0 || stored[0] != '{' {
		return Attributes{}, ErrStored
	}
	s.text = stored
	if !s.scanStored() || len(s.twice) > 0 {
		return Attributes{}, ErrStored
	}
	typ := s.lasting(fieldType)
	if !ValidType(typ) {
		return Attributes{}, ErrStored
	}
	return Attributes{
		Type:           typ,
		Source:         s.lasting(fieldSource),
		Target:         s.lasting(fieldTarget),
		Topic:          s.lasting(fieldTopic),
		SessionID:      s.lasting(fieldSession),
		ConversationID: s.lasting(fieldConversation),
		TaskID:         s.lasting(fieldTask),
		TenantID:       tenant,
	}, nil
}

// scanStored scans the members of a stored form up to its open end.
func (s *Scanner) scanStored() bool {
	b := s.text
	for i := skipSpace(b, 1); ; i = skipSpace(b, i+1) {
		f := fieldOther
		if i, f = s.scanTopName(i); i < 0 {
			return false
		}
		if f == fieldDelivery {
			return s.scanOpenDelivery(i)
		}
		value := i
		if i = s.scanValue(i, 1); i < 0 {
			return false
		}
		if f != fieldOther {
			s.fields[f] = span{uint32(value), uint32(i)}
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ',' {
			return false
		}
	}
}

// scanOpenDelivery scans what follows the name of delivery at the end.
func (s *Scanner) scanOpenDelivery(i int) bool {
	rest := s.text[i:]
	if string(rest) == "{" {
		return true
	}
	const retry = `{"retry":`
	if !bytes.HasPrefix(rest, []byte(retry)) {
		return false
	}
	i = s.scanValue(i+len(retry), 2)
	return i >= 0 && string(s.text[i:]) == ","
}

// lasting returns a member of the stored text as a string that shares it, or
// is a copy; empty when it is absent or no string.
func (s *Scanner) lasting(f field) string {
	raw := s.raw(f)
	if raw == nil || raw[0] != '"' {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		return string(s.unescaped(inner))
	}
	return borrow(inner)
}
