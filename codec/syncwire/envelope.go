package syncwire

import "github.com/sluice-relay/sluice/codec/jsontext"

// Envelope is one checked envelope of a push (S18). Its slices are borrowed
// until the call that handed it out returns.
type Envelope struct {
	Index int // position in events, from 0
	// EventID is decoded: 1 to 256 visible ASCII characters.
	EventID []byte
	// StreamID is decoded: 1 to 128 visible ASCII characters, or empty where
	// the envelope has none.
	StreamID []byte
	// Stored is the stored form (S19); its length is the size of S20.
	Stored []byte
}

// Longest ids, in characters (S11, S18).
const (
	maxOwnerChars  = 128
	maxEventChars  = 256
	maxStreamChars = 128
)

// field is a member that S18 names.
type field uint8

const (
	fieldVersion field = iota
	fieldOwner
	fieldEvent
	fieldDevice
	fieldCreated
	fieldNonce
	fieldCiphertext
	fieldStream // the one that may be absent
	fieldCount
	fieldOther
)

var fieldNames = [fieldCount]string{
	"version", "ownerId", "eventId", "deviceId", "createdAt", "nonce",
	"ciphertext", "streamId",
}

// Reasons of bad_envelope, by field.
var (
	absentReasons = reasons(" is missing")
	twiceReasons  = reasons(" occurs twice")
	stringReasons = reasons(" is not a non-empty string")
)

func reasons(suffix string) (all [fieldCount]string) {
	for f, name := range fieldNames {
		all[f] = name + suffix
	}
	return all
}

func fieldOf(name []byte) field {
	switch string(name) {
	case "version":
		return fieldVersion
	case "ownerId":
		return fieldOwner
	case "eventId":
		return fieldEvent
	case "deviceId":
		return fieldDevice
	case "createdAt":
		return fieldCreated
	case "nonce":
		return fieldNonce
	case "ciphertext":
		return fieldCiphertext
	case "streamId":
		return fieldStream
	}
	return fieldOther
}

// checker checks envelopes and holds scratch for it.
type checker struct {
	others  jsontext.NameSet
	decoded []byte
	owner   []byte // ownerId of the envelope checked last, decoded
}

func (c *checker) reset() {
	c.others.Shrink()
	if cap(c.decoded) > keepBytes {
		c.decoded = nil
	}
	c.owner = nil
}

// check applies S18, the comparison of owners excepted, to e.Stored and sets
// the ids of e. It returns why the envelope is refused, or nothing.
func (c *checker) check(e *Envelope) (reason string) {
	e.EventID, e.StreamID, c.owner = nil, nil, nil
	c.others.Clear()
	c.decoded = c.decoded[:0]
	seen := uint(0)
	for m := (members{text: e.Stored}); m.next(); {
		var name []byte
		name, c.decoded = decoded(m.name, c.decoded)
		f := fieldOf(name)
		if f == fieldOther {
			if !c.others.Add(name) {
				return "a member occurs twice"
			}
			continue
		}
		if seen&(1<<f) != 0 {
			return twiceReasons[f]
		}
		seen |= 1 << f
		if reason = c.field(e, f, m.value); reason != "" {
			return reason
		}
	}
	for f := range fieldStream {
		if seen&(1<<f) == 0 {
			return absentReasons[f]
		}
	}
	return ""
}

// field checks one member.
func (c *checker) field(e *Envelope, f field, raw []byte) (reason string) {
	if f == fieldVersion {
		if !isOne(raw) {
			return "version is not the number 1"
		}
		return ""
	}
	if f == fieldStream && raw[0] == 'n' {
		return ""
	}
	if raw[0] != '"' || len(raw) == 2 {
		return stringReasons[f]
	}
	switch f {
	case fieldOwner:
		c.owner, c.decoded, _ = stringContent(raw, c.decoded)
	case fieldEvent:
		e.EventID, c.decoded, _ = stringContent(raw, c.decoded)
		if !isVisible(e.EventID, maxEventChars) {
			return "eventId is not 1 to 256 visible ASCII characters"
		}
	case fieldStream:
		e.StreamID, c.decoded, _ = stringContent(raw, c.decoded)
		if !isVisible(e.StreamID, maxStreamChars) {
			return "streamId is not 1 to 128 visible ASCII characters"
		}
	}
	return ""
}

// isOne tells whether a raw value is a number of value 1, however spelled. It
// never expands a number.
func isOne(raw []byte) bool {
	if len(raw) == 1 {
		return raw[0] == '1'
	}
	// The one digit that is not zero must be a 1; weight is its power of ten.
	weight, whole, found := 0, true, false
	for i, ch := range raw {
		switch {
		case ch|0x20 == 'e' && found:
			return exponentIs(raw[i+1:], -weight)
		case ch == '.':
			whole = false
		case ch == '0':
			if found && whole {
				weight++
			} else if !found && !whole {
				weight--
			}
		case ch == '1' && !found:
			found = true
			if !whole {
				weight--
			}
		default:
			return false
		}
	}
	return found && weight == 0
}

// exponentIs tells whether a written exponent has the value want.
func exponentIs(written []byte, want int) bool {
	sign, n := 1, 0
	for _, c := range written {
		switch {
		case c == '-':
			sign = -1
		case c == '+':
		case n > 1<<30:
			return false // no text has as many digits as would make up for it
		default:
			n = n*10 + int(c-'0')
		}
	}
	return sign*n == want
}

// isVisible tells whether id is 1 to most visible ASCII characters.
func isVisible[T string | []byte](id T, most int) bool {
	if len(id) == 0 || len(id) > most {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
