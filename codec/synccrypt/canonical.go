package synccrypt

import (
	"fmt"
	"slices"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// maxDepth is how deep objects and arrays nest, as at the relay.
const maxDepth = 64

// Canonical appends the canonical form of the JSON text src (D10): members
// sorted by the UTF-16 code units of their names and strings spelled as
// JSON.stringify does (RFC 8785), no white space; numbers keep their spelling.
// dst and src do not overlap. ErrJSON: src is no JSON in UTF-8, goes on after
// its value, has a name twice in one object, or nests deeper than 64.
func Canonical(dst, src []byte) ([]byte, error) {
	s := getScratch()
	defer s.put()
	out, err := s.canon.canonical(dst, src, maxDepth)
	if err != nil {
		return dst, fmt.Errorf("synccrypt: %w", err)
	}
	return out, nil
}

// canon reads one JSON text and writes its canonical form.
type canon struct {
	src     []byte
	i       int // next byte of src
	out     []byte
	depth   int      // levels that may still open
	members []member // of all open objects, outermost first
	sorted  []byte   // room to put members in order
}

// member is where a member is in canon.out: its name's quote at start, its
// value before end. name is the length of the spelled name, without quotes.
type member struct{ start, name, end int }

func (m member) nameIn(out []byte) []byte { return out[m.start+1:][:m.name] }

// canonical is Canonical, for text that nests up to depth levels.
func (c *canon) canonical(dst, src []byte, depth int) ([]byte, error) {
	c.reset(dst, src, depth)
	defer c.reset(nil, nil, 0)
	if err := c.value(); err != nil {
		return dst, err
	}
	if c.space(); c.i < len(src) {
		return dst, c.fail("the text goes on after its value")
	}
	return c.out, nil
}

func (c *canon) reset(dst, src []byte, depth int) {
	c.src, c.i, c.out, c.depth, c.members = src, 0, dst, depth, c.members[:0]
}

func (c *canon) fail(reason string) error {
	return fmt.Errorf("%w: %s at byte %d", ErrJSON, reason, c.i)
}

func (c *canon) space() {
	for c.i < len(c.src) {
		switch c.src[c.i] {
		case ' ', '\n', '\r', '\t':
			c.i++
		default:
			return
		}
	}
}

// take passes white space and then b, if it is there.
func (c *canon) take(b byte) bool {
	c.space()
	if c.i == len(c.src) || c.src[c.i] != b {
		return false
	}
	c.i++
	return true
}

func (c *canon) value() error {
	c.space()
	if c.i == len(c.src) {
		return c.fail("expected a value")
	}
	switch b := c.src[c.i]; {
	case b == '"':
		return c.str()
	case b == '{':
		return c.nested(c.object)
	case b == '[':
		return c.nested(c.array)
	case b == '-' || isDigit(b):
		end, ok := jsontext.NumberEnd(c.src, c.i)
		if !ok {
			return c.fail("invalid number")
		}
		c.out = append(c.out, c.src[c.i:end]...)
		c.i = end
		return nil
	}
	for _, literal := range [...]string{"true", "false", "null"} {
		if rest := c.src[c.i:]; len(rest) >= len(literal) && string(rest[:len(literal)]) == literal {
			c.out = append(c.out, literal...)
			c.i += len(literal)
			return nil
		}
	}
	return c.fail("expected a value")
}

// nested reads a container whose opening bracket is next.
func (c *canon) nested(inside func() error) error {
	if c.depth == 0 {
		return c.fail("nested too deep")
	}
	c.depth--
	c.out = append(c.out, c.src[c.i])
	c.i++
	err := inside()
	c.depth++
	return err
}

func (c *canon) array() error {
	if c.take(']') {
		c.out = append(c.out, ']')
		return nil
	}
	for {
		if err := c.value(); err != nil {
			return err
		}
		if c.take(']') {
			c.out = append(c.out, ']')
			return nil
		}
		if !c.take(',') {
			return c.fail("expected a comma or a closing bracket")
		}
		c.out = append(c.out, ',')
	}
}

func (c *canon) object() error {
	if c.take('}') {
		c.out = append(c.out, '}')
		return nil
	}
	base, ascending := len(c.members), true
	for {
		m, err := c.member()
		if err != nil {
			return err
		}
		if n := len(c.members); n > base && compareNames(c.members[n-1].nameIn(c.out), m.nameIn(c.out)) >= 0 {
			ascending = false
		}
		c.members = append(c.members, m)
		if c.take('}') {
			break
		}
		if !c.take(',') {
			return c.fail("expected a comma or a closing bracket")
		}
		c.out = append(c.out, ',')
	}
	if !ascending {
		if err := c.sort(c.members[base:]); err != nil {
			return err
		}
	}
	c.members = c.members[:base]
	c.out = append(c.out, '}')
	return nil
}

func (c *canon) member() (member, error) {
	c.space()
	if c.i == len(c.src) || c.src[c.i] != '"' {
		return member{}, c.fail("expected a member name")
	}
	m := member{start: len(c.out)}
	if err := c.str(); err != nil {
		return member{}, err
	}
	m.name = len(c.out) - m.start - 2
	if !c.take(':') {
		return member{}, c.fail("expected a colon")
	}
	c.out = append(c.out, ':')
	err := c.value()
	m.end = len(c.out)
	return m, err
}

// sort puts the members of one object, which are the end of out, in order.
func (c *canon) sort(members []member) error {
	start := members[0].start
	slices.SortFunc(members, func(a, b member) int {
		return compareNames(a.nameIn(c.out), b.nameIn(c.out))
	})
	c.sorted = c.sorted[:0]
	for i, m := range members {
		if i > 0 {
			if compareNames(members[i-1].nameIn(c.out), m.nameIn(c.out)) == 0 {
				return c.fail("a member name occurs twice in the object that ends")
			}
			c.sorted = append(c.sorted, ',')
		}
		c.sorted = append(c.sorted, c.out[m.start:m.end]...)
	}
	copy(c.out[start:], c.sorted)
	return nil
}
