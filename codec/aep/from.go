package aep

import "math"

// Position is where a consumer resumes in one session (R165).
type Position struct {
	Session string
	Epoch   int64 // from 0
	Seq     int64 // from 0, or -1 for "from the earliest held" (R168)
}

// before reports whether p is the lower position.
func (p Position) before(q Position) bool {
	if p.Epoch != q.Epoch {
		return p.Epoch < q.Epoch
	}
	return p.Seq < q.Seq
}

// FromError says why a list of resume positions is refused. The values are the
// three Err constants below, which callers tell apart with ==.
type FromError string

func (e FromError) Error() string { return string(e) }

// Refusals of resume positions, in the order of the checks (R270, R321).
const (
	// ErrFromSyntax: neither a JSON array nor the word all.
	ErrFromSyntax FromError = "from is neither an array of positions nor all"
	// ErrFromTooLarge: more entries than allowed (R173).
	ErrFromTooLarge FromError = "from has too many positions (AEP_MAX_FROM)"
	// ErrFromEntry: an entry that is no position (R174).
	ErrFromEntry FromError = "from has an entry that is not a position"
)

// ParseFrom reads the `from` of a WebSocket subscribe frame: raw is a JSON
// array of positions or the JSON string "all"; nil is absent. A session named
// more than once is returned once, with its lowest position, in the place of
// its first mention (R172). Entries is the count as sent, which may be at most
// limit (R173); it is also right with ErrFromTooLarge. A number above 63 bits
// stands for a position above all events. The error is one of the three
// FromError constants. Raw is borrowed until return. Any goroutine.
func ParseFrom(raw []byte, limit int) (pos []Position, all bool, entries int, err error) {
	if raw == nil {
		return nil, false, 0, nil
	}
	var s Scanner
	if s.Scan(raw) != nil {
		return nil, false, 0, ErrFromSyntax
	}
	raw = trimSpace(raw)
	if rawEqual(raw, "all") {
		return nil, true, 0, nil
	}
	return parsePositions(raw, limit)
}

// ParseFromQuery is ParseFrom for the SSE parameter, where replay-all is the
// bare word all and an empty text is absent (R34, section 11).
func ParseFromQuery(text []byte, limit int) (pos []Position, all bool, entries int, err error) {
	switch string(text) {
	case "":
		return nil, false, 0, nil
	case "all":
		return nil, true, 0, nil
	}
	var s Scanner
	if s.Scan(text) != nil {
		return nil, false, 0, ErrFromSyntax
	}
	return parsePositions(trimSpace(text), limit)
}

func parsePositions(raw []byte, limit int) ([]Position, bool, int, error) {
	if kindOf(raw) != '[' {
		return nil, false, 0, ErrFromSyntax
	}
	entries := 0
	for e := elementsOf(raw); e.next(); {
		entries++
	}
	if entries > limit {
		return nil, false, entries, ErrFromTooLarge
	}
	pos := make([]Position, 0, entries)
	places := make(map[string]int, entries)
	for e := elementsOf(raw); e.next(); {
		p, ok := parsePosition(e.value)
		if !ok {
			return nil, false, entries, ErrFromEntry
		}
		place, seen := places[p.Session]
		switch {
		case !seen:
			places[p.Session] = len(pos)
			pos = append(pos, p)
		case p.before(pos[place]):
			pos[place] = p
		}
	}
	return pos, false, entries, nil
}

// parsePosition reads one entry (R174). Of a repeated member the last counts.
func parsePosition(raw []byte) (Position, bool) {
	if kindOf(raw) != '{' {
		return Position{}, false
	}
	var session, epoch, seq []byte
	for m := membersOf(raw); m.next(); {
		switch {
		case rawEqual(m.name, "session"):
			session = m.value
		case rawEqual(m.name, "epoch"):
			epoch = m.value
		case rawEqual(m.name, "seq"):
			seq = m.value
		}
	}
	p := Position{Seq: -1}
	if kindOf(session) != '"' || len(session) <= len(`""`) {
		return p, false
	}
	p.Session = decodeString(session)
	beyond := false
	ok := true
	if epoch != nil {
		p.Epoch, beyond, ok = parseBound(epoch, 0)
	}
	if ok && seq != nil {
		p.Seq, _, ok = parseBound(seq, -1)
	}
	if beyond {
		p.Seq = math.MaxInt64
	}
	return p, ok
}

// parseBound reads an integer not below least. One above 63 bits is held at the
// highest value and reported as beyond.
func parseBound(raw []byte, least int64) (n int64, beyond, ok bool) {
	if !isNumber(raw) {
		return 0, false, false
	}
	number, ok := ParseInteger(raw)
	if !ok {
		return 0, false, false
	}
	n, fits := number.Int64()
	if !fits {
		return math.MaxInt64, true, raw[0] != '-'
	}
	return n, false, n >= least
}
