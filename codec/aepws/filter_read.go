package aepws

import "time"

// FilterRequest is the payload of subscription.requested (B47). The zero value
// is ready for ReadFilter.
type FilterRequest struct {
	// Raw is the payload as sent, which answers name as `filter`. Borrowed
	// until the next Scan.
	Raw    []byte
	Filter *Filter // owned by the caller
	// HasCursor tells that from_cursor was given. Cursor is its text as given,
	// CursorID and CursorSequence are its parts; see ParseCursor.
	HasCursor      bool
	Cursor         string
	CursorID       string
	CursorSequence int64
	Mode           Mode
	ExpiresAt      time.Time // zero: none (B54)
}

// ReadFilter reads the filter in the payload of an admitted
// subscription.requested, for a session of a tenant (B46, B47, B49, B51, B54).
// now is what expires_at has to be after. It returns nil, or the first fault,
// to be answered with subscription.rejected; r.Raw is set in either case.
func (s *Scanner) ReadFilter(e *Envelope, tenant string, now time.Time, r *FilterRequest) *Fault {
	*r = FilterRequest{Raw: e.Payload}
	reader := filterReader{s: s, r: r, f: &Filter{tenant: tenant}, now: now}
	for m := membersOf(e.Payload); m.next(); {
		if fault := reader.member(s.unescaped(m.name), m.value); fault != nil {
			return fault
		}
	}
	if !reader.selective && !r.HasCursor {
		return refuse("one of types, source, target, topic or from_cursor is required")
	}
	if reader.types == nil {
		reader.types = []string{"*"}
	}
	reader.f.compile(reader.types)
	r.Filter = reader.f
	return nil
}

// filterReader reads one filter.
type filterReader struct {
	s         *Scanner
	r         *FilterRequest
	f         *Filter
	now       time.Time
	types     []string
	selective bool // a member that B47 asks for was there
	seen      uint16
}

// Bits of filterReader.seen beside those of the attributes.
const (
	seenTypes = attrCount + iota
	seenCursor
	seenMode
	seenExpiry
)

func refuse(text string) *Fault { return &Fault{Code: SubscriptionRejected, Text: text} }

// member reads one member; unknown ones are ignored.
func (x *filterReader) member(name, raw []byte) *Fault {
	bit := attribute(0)
	for bit < attrCount && attrNames[bit] != string(name) {
		bit++
	}
	if bit == attrCount {
		switch string(name) {
		case "types":
			bit = seenTypes
		case "from_cursor":
			bit = seenCursor
		case "delivery_mode":
			bit = seenMode
		case "expires_at":
			bit = seenExpiry
		default:
			return nil
		}
	}
	if x.seen&(1<<bit) != 0 {
		return refuse(string(name) + " occurs twice")
	}
	x.seen |= 1 << bit
	switch bit {
	case seenTypes:
		return x.readTypes(raw)
	case seenCursor:
		return x.cursor(raw)
	case seenMode:
		return x.mode(raw)
	case seenExpiry:
		return x.expiry(raw)
	}
	values, fault := x.values(attrNames[bit], raw)
	x.f.members = append(x.f.members, exact{bit, values})
	x.selective = x.selective || bit == attrSource || bit == attrTarget || bit == attrTopic
	return fault
}

func (x *filterReader) readTypes(raw []byte) (fault *Fault) {
	x.selective = true
	x.types, fault = x.values("types", raw)
	for _, p := range x.types {
		if !legalPattern(p) {
			return refuse("types: a segment is empty, or has a star that is not the whole of it")
		}
	}
	return fault
}

// values reads a string or a non-empty array of strings.
func (x *filterReader) values(name string, raw []byte) ([]string, *Fault) {
	if raw[0] != '[' {
		v, fault := x.value(name, raw)
		return []string{v}, fault
	}
	var values []string
	for e := elementsOf(raw); e.next(); {
		if len(values) == MaxFilterValues {
			return nil, refuse(name + " has more than 64 values")
		}
		v, fault := x.value(name, e.value)
		if fault != nil {
			return nil, fault
		}
		values = append(values, v)
	}
	if values == nil {
		return nil, refuse(name + " is an empty array")
	}
	return values, nil
}

func (x *filterReader) value(name string, raw []byte) (string, *Fault) {
	v, ok := x.s.content(raw)
	switch {
	case !ok:
		return "", refuse(name + " is not a string or an array of strings")
	case len(v) > maxIdentityBytes:
		return "", refuse(name + " has a value longer than 512 bytes")
	}
	return string(v), nil
}

func (x *filterReader) cursor(raw []byte) *Fault {
	text, _ := x.s.content(raw)
	id, sequence, err := ParseCursor(text)
	if err != nil {
		return &Fault{SubscriptionRejected, "from_cursor is not <event id>:<sequence>", ReasonCursorMalformed}
	}
	x.r.HasCursor, x.r.Cursor = true, string(text)
	x.r.CursorID, x.r.CursorSequence = x.r.Cursor[:len(id)], sequence
	return nil
}

func (x *filterReader) mode(raw []byte) *Fault {
	name, _ := x.s.content(raw)
	if x.r.Mode = modeOf(name); x.r.Mode == ModeAbsent {
		return refuse("delivery_mode is not best_effort, at_least_once or replayable")
	}
	return nil
}

func (x *filterReader) expiry(raw []byte) *Fault {
	if raw[0] == 'n' {
		return nil
	}
	text, _ := x.s.content(raw)
	t, ok := parseTime(text)
	switch {
	case !ok:
		return refuse("expires_at is not an RFC 3339 time with a zone")
	case !t.After(x.now):
		return refuse("expires_at is not in the future")
	}
	x.r.ExpiresAt = t
	return nil
}
