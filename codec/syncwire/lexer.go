package syncwire

// maxDepth is the deepest nesting of objects and arrays in a body. Envelopes
// are three levels deep; one word holds the kinds of all open containers.
const maxDepth = 64

// keepBytes is the scratch that outlives one body.
const keepBytes = 64 << 10

// mark says why lexer.run came back.
type mark uint8

const (
	markMore    mark = iota // the piece is used up
	markFail                // the text is no JSON; reason says why
	markOver                // what is captured exceeds its limit
	markName                // the byte before i opened a member name
	markNameEnd             // a member name ends at i
	markBegin               // the byte before i is the first of a value
	markEnd                 // a value ends at i
)

// state is what the lexer expects, or what it is in the middle of.
type state uint8

const (
	wantValue   state = iota
	wantFirst         // the first element of an array, or its end
	wantName          // after a comma
	wantFirstNm       // the first name of an object, or its end
	wantColon
	wantNext    // a comma or a closing bracket
	wantNothing // the value of the body is complete
	inString    // from here on white space is content, or ends the token
	inEscape
	inHex
	inRune
	inLiteral
	inMinus
	inZero
	inWhole
	inPoint
	inFraction
	inExponent
	inExponentSign
	inExponentDigits
)

// lexer checks one JSON text (RFC 8259, UTF-8) that comes in pieces. It stops
// at names and values that have at most `watch` containers around them, and
// captures what it passes, minus white space between tokens, when told to. The
// zero lexer is at the start of a text and watches nothing but the outermost
// value.
type lexer struct {
	state  state
	isName bool   // the string under way is a member name
	depth  int    // open containers
	open   uint64 // one bit for each of them, set for an object
	watch  int
	level  int // containers around what the last mark is about
	reason string

	hexLeft int
	part    [4]byte // an incomplete character
	partLen int
	literal string // what is left of true, false or null

	// The capture: kept, then piece[from:] of the piece under way.
	capturing bool
	from      int
	limit     int // in bytes
	kept      []byte
}

func (x *lexer) reset() {
	kept := x.kept[:0]
	if cap(kept) > keepBytes {
		kept = nil
	}
	*x = lexer{kept: kept}
}

// run goes on at p[i] until something is to be told, and returns the offset
// there; that of the first wrong byte for markFail. It is called with the same
// p until it tells markMore; after markOver or an end the caller stops
// capturing. p is borrowed until markMore.
func (x *lexer) run(p []byte, i int) (int, mark) {
	if x.reason != "" {
		return i, markFail
	}
	for i < len(p) {
		var m mark
		if x.state >= inString {
			i, m = x.token(p, i)
		} else if c := p[i]; c <= ' ' && isSpace(c) {
			i, m = x.space(p, i)
		} else if m = x.punctuation(c); m != markFail {
			i++
		}
		if m == markFail && x.exceeds(i) {
			m = markOver // it came first, wherever the text was cut (Y4)
		}
		if m != markMore {
			return i, m
		}
	}
	if x.capturing && !x.keep(p, i) {
		return i, markOver
	}
	x.from = 0
	return i, markMore
}

// fail notes why the text is no JSON.
func (x *lexer) fail(reason string) mark {
	x.reason = reason
	return markFail
}

// capture starts a capture at offset from of the piece under way.
func (x *lexer) capture(from, limit int) {
	x.capturing, x.from, x.limit = true, from, limit
	x.kept = x.kept[:0]
}

// captured ends the capture at p[i] and returns it, borrowed until the next
// call of run or capture. It reports false when it exceeds its limit.
func (x *lexer) captured(p []byte, i int) ([]byte, bool) {
	x.capturing = false
	if x.overLimit(i) {
		return nil, false
	}
	if len(x.kept) == 0 {
		return p[x.from:i], true
	}
	x.kept = append(x.kept, p[x.from:i]...)
	return x.kept, true
}

func (x *lexer) exceeds(i int) bool { return x.capturing && x.overLimit(i) }

func (x *lexer) overLimit(i int) bool { return len(x.kept)+i-x.from > x.limit }

// keep moves the capture up to p[i] into kept, within the limit.
func (x *lexer) keep(p []byte, i int) bool {
	if x.overLimit(i) {
		return false
	}
	x.kept = append(x.kept, p[x.from:i]...)
	return true
}

// space passes white space between tokens.
func (x *lexer) space(p []byte, i int) (int, mark) {
	if x.capturing && !x.keep(p, i) {
		return i, markOver
	}
	for i < len(p) && isSpace(p[i]) {
		i++
	}
	x.from = i
	return i, markMore
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// punctuation takes the byte c between tokens.
func (x *lexer) punctuation(c byte) mark {
	switch x.state {
	case wantValue:
		return x.begin(c)
	case wantFirst:
		if c == ']' {
			return x.close()
		}
		return x.begin(c)
	case wantName, wantFirstNm:
		if c == '"' {
			x.state, x.isName, x.level = inString, true, x.depth
			return x.tell(markName)
		}
		if c == '}' && x.state == wantFirstNm {
			return x.close()
		}
		return x.fail("expected a member name")
	case wantColon:
		if c == ':' {
			x.state = wantValue
			return markMore
		}
		return x.fail("expected a colon")
	case wantNext:
		return x.next(c)
	}
	return x.fail("the text goes on after its value")
}

// next takes the byte after a value inside a container.
func (x *lexer) next(c byte) mark {
	object := x.open>>(x.depth-1)&1 != 0
	switch {
	case c == ',' && object:
		x.state = wantName
	case c == ',':
		x.state = wantValue
	case c == '}' && object, c == ']' && !object:
		return x.close()
	default:
		return x.fail("expected a comma or a closing bracket")
	}
	return markMore
}

// begin takes the first byte of a value.
func (x *lexer) begin(c byte) mark {
	x.level, x.isName = x.depth, false
	switch {
	case c == '{':
		x.state = wantFirstNm
		return x.push(1)
	case c == '[':
		x.state = wantFirst
		return x.push(0)
	case c == '"':
		x.state = inString
	case c == '-':
		x.state = inMinus
	case c == '0':
		x.state = inZero
	case isDigit(c):
		x.state = inWhole
	case c == 't':
		x.state, x.literal = inLiteral, "rue"
	case c == 'f':
		x.state, x.literal = inLiteral, "alse"
	case c == 'n':
		x.state, x.literal = inLiteral, "ull"
	default:
		return x.fail("expected a value")
	}
	return x.tell(markBegin)
}

func (x *lexer) push(object uint64) mark {
	if x.depth == maxDepth {
		return x.fail("nested too deep")
	}
	x.open = x.open&^(1<<x.depth) | object<<x.depth
	x.depth++
	return x.tell(markBegin)
}

// close takes the closing bracket of the innermost container.
func (x *lexer) close() mark {
	x.depth--
	return x.ended()
}

// ended notes that a value is complete.
func (x *lexer) ended() mark {
	x.level = x.depth
	if x.depth == 0 {
		x.state = wantNothing
	} else {
		x.state = wantNext
	}
	return x.tell(markEnd)
}

// tell returns m if it is watched for.
func (x *lexer) tell(m mark) mark {
	if x.level > x.watch {
		return markMore
	}
	return m
}
