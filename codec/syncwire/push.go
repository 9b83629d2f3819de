package syncwire

// Longest raw spellings of what is read at the top of a body: six bytes an
// escape, and the quotes.
const (
	maxNameBytes  = 6*len("ownerId") + 2
	maxOwnerBytes = 6*maxOwnerChars + 2
)

// Limits bound a push (S20).
type Limits struct {
	MaxEvents     int // number of envelopes
	MaxEventBytes int // bytes of one stored form
}

// Sink takes what a PushDecoder finds. Its methods are called from within Feed,
// and must not call the decoder. An error they return ends the body: Feed
// returns it.
type Sink interface {
	// Owner is called once, as soon as the request's ownerId has been read
	// (S16): before, between or after the envelopes, as members come.
	Owner(id string) error
	// Envelope is called for each envelope in order. Where it comes before
	// Owner, the envelope's owner is compared when that is known.
	Envelope(e *Envelope) error
}

// PushDecoder decodes push bodies, one after the other: Reset, Feed for each
// piece, End. One goroutine at a time. The zero value needs a Reset.
//
// A fault is an *Error. When the owner is known by then (Owner was called), who
// the client is has to be settled before the fault is answered (S16).
type PushDecoder struct {
	limits Limits
	sink   Sink

	lex      lexer
	checker  checker
	envelope Envelope

	member   topMember // the top-level member under way
	hasOwner bool
	hasList  bool
	owner    string
	claimed  []byte // ownerId of all envelopes so far, while owner is unknown
	count    int

	held *Error // a fault that waits for the owner
	err  error  // sticky
}

// topMember is a member of the body's object.
type topMember uint8

const (
	memberOther topMember = iota
	memberOwner
	memberList
)

// Reset makes the decoder ready for a new body.
func (d *PushDecoder) Reset(limits Limits, sink Sink) {
	d.lex.reset()
	d.checker.reset()
	*d = PushDecoder{
		limits: limits, sink: sink,
		lex: d.lex, checker: d.checker, claimed: d.claimed[:0],
	}
	d.lex.watch = 1
}

// Owner returns the request's ownerId once it has been read (S16).
func (d *PushDecoder) Owner() (id string, ok bool) { return d.owner, d.hasOwner }

// Count returns the number of envelopes begun so far.
func (d *PushDecoder) Count() int { return d.count }

// Feed takes the next piece of the body, borrowed until return. The error is
// an *Error or what the sink returned, and is the same for all later calls. It
// does not allocate but for the owner and for scratch that grows.
func (d *PushDecoder) Feed(p []byte) error {
	for i := 0; d.err == nil; {
		var m mark
		if i, m = d.lex.run(p, i); m == markMore {
			return nil
		}
		d.err = d.step(p, i, m)
	}
	return d.err
}

// End tells that the body is complete, and returns its first fault.
func (d *PushDecoder) End() error {
	if d.err == nil {
		d.err = d.atEnd()
	}
	return d.err
}

func (d *PushDecoder) atEnd() error {
	switch {
	case d.held != nil:
		return d.held
	case d.lex.state != wantNothing:
		return badRequest("the body ends early")
	case !d.hasOwner:
		return badRequest("ownerId is missing")
	case !d.hasList:
		return badRequest("events is missing")
	}
	return nil
}

// step acts on a mark of the lexer.
func (d *PushDecoder) step(p []byte, i int, m mark) error {
	switch m {
	case markFail:
		if d.held != nil {
			return d.held
		}
		return badRequest(d.lex.reason)
	case markOver:
		return d.over()
	case markName:
		d.member = memberOther
		d.lex.capture(i-1, maxNameBytes)
	case markNameEnd:
		return d.named(p, i)
	case markBegin:
		return d.begin(p, i)
	case markEnd:
		return d.end(p, i)
	}
	return nil
}

// over acts on a capture beyond its limit.
func (d *PushDecoder) over() error {
	d.lex.capturing = false
	switch {
	case d.lex.isName && d.lex.depth == 1:
		return nil // too long for any name that counts
	case d.member == memberOwner:
		return d.badOwner()
	}
	return d.tooLarge()
}

func (d *PushDecoder) badOwner() error {
	return badRequest("ownerId is not 1 to 128 visible ASCII characters")
}

func (d *PushDecoder) tooLarge() error {
	return d.fault(EventTooLarge, "the envelope is too large")
}

// fault ends the body, or is kept until the owner is known: from then on only
// the owner is looked for.
func (d *PushDecoder) fault(code Code, reason string) error {
	e := &Error{Code: code, Index: d.count - 1, Reason: reason}
	if code == TooManyEvents || code == BadRequest {
		e.Index = -1
	}
	if d.hasOwner {
		return e
	}
	d.held = e
	d.lex.watch = 1
	return nil
}

// named acts on the end of a top-level name.
func (d *PushDecoder) named(p []byte, i int) error {
	if !d.lex.capturing {
		return nil
	}
	raw, ok := d.lex.captured(p, i)
	if !ok {
		return nil
	}
	var name []byte
	name, d.checker.decoded, _ = stringContent(raw, d.checker.decoded[:0])
	switch string(name) {
	case "ownerId":
		if d.hasOwner {
			return badRequest("ownerId occurs twice")
		}
		d.member = memberOwner
	case "events":
		if d.held != nil {
			return nil
		}
		if d.hasList {
			return d.fault(BadRequest, "events occurs twice")
		}
		d.member, d.hasList = memberList, true
	}
	return nil
}

// begin acts on the first byte of a value, p[i-1].
func (d *PushDecoder) begin(p []byte, i int) error {
	first := p[i-1]
	switch {
	case d.lex.level == 0:
		if first != '{' {
			return badRequest("the body is not an object")
		}
	case d.lex.level == 2:
		return d.beginEnvelope(first, i-1)
	case d.member == memberOwner:
		if first != '"' {
			return badRequest("ownerId is not a string")
		}
		d.lex.capture(i-1, maxOwnerBytes)
	case d.member == memberList:
		if first != '[' {
			return d.fault(BadRequest, "events is not an array")
		}
		d.lex.watch = 2
	}
	return nil
}

func (d *PushDecoder) beginEnvelope(first byte, from int) error {
	if d.count == d.limits.MaxEvents {
		return d.fault(TooManyEvents, "more events than a push may have")
	}
	d.count++
	if first != '{' {
		return d.fault(BadEnvelope, "not an object")
	}
	d.lex.capture(from, d.limits.MaxEventBytes)
	return nil
}

// end acts on the end of a value.
func (d *PushDecoder) end(p []byte, i int) error {
	switch {
	case d.lex.level == 2:
		raw, ok := d.lex.captured(p, i)
		if !ok {
			return d.tooLarge()
		}
		return d.endEnvelope(raw)
	case d.lex.level == 1 && d.member == memberOwner:
		raw, ok := d.lex.captured(p, i)
		if !ok {
			return d.badOwner()
		}
		return d.endOwner(raw)
	case d.lex.level == 1:
		d.lex.watch = 1
	}
	return nil
}

func (d *PushDecoder) endEnvelope(raw []byte) error {
	e := &d.envelope
	e.Index, e.Stored = d.count-1, raw
	if reason := d.checker.check(e); reason != "" {
		return d.fault(BadEnvelope, reason)
	}
	if !d.sameOwner(d.checker.owner) {
		return d.fault(BadEnvelope, "ownerId is not the request's")
	}
	return d.sink.Envelope(e)
}

// sameOwner compares an envelope's owner with the request's, or, as long as
// that is unknown, with that of the first envelope.
func (d *PushDecoder) sameOwner(id []byte) bool {
	switch {
	case d.hasOwner:
		return string(id) == d.owner
	case len(d.claimed) > 0:
		return string(id) == string(d.claimed)
	case !isVisible(id, maxOwnerChars):
		return false
	}
	d.claimed = append(d.claimed, id...)
	return true
}

func (d *PushDecoder) endOwner(raw []byte) error {
	var id []byte
	id, d.checker.decoded, _ = stringContent(raw, d.checker.decoded[:0])
	if !isVisible(id, maxOwnerChars) {
		return d.badOwner()
	}
	d.member, d.hasOwner, d.owner = memberOther, true, string(id)
	if err := d.sink.Owner(d.owner); err != nil {
		return err
	}
	if d.held != nil {
		return d.held
	}
	if len(d.claimed) > 0 && string(d.claimed) != d.owner {
		return &Error{Code: BadEnvelope, Index: 0, Reason: "ownerId is not the request's"}
	}
	return nil
}
