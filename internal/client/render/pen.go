package render

import (
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Style is an SGR parameter of a terminal (ECMA-48, section 8.3.117), "" for
// none.
type Style string

// The styles in use.
const (
	Plain   Style = ""
	Bold    Style = "1"
	Dim     Style = "2"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Magenta Style = "35"
	Cyan    Style = "36"
	Alarm   Style = "1;31"
)

const (
	// maxClusterRunes is how many runes may share a place on the screen. A
	// family of four with skin tones has eleven.
	maxClusterRunes = 12
	// windowBytes is what is looked at to find the end of a cluster: more than
	// maxClusterRunes take, or a long chain of joiners would cost its square.
	windowBytes = 64
	// ellipsis marks a line that was cut. It is one column wide.
	ellipsis = "…"
)

// Pen writes one line of foreign text: escaped, coloured and cut. It appends
// to the slice that NewPen got. One goroutine.
type Pen struct {
	dst     []byte
	color   bool
	width   int // columns of the line, 0 for no bound
	columns int // written so far
	safe    int // length of dst where an ellipsis still fits
	full    bool
	scratch []byte
}

// NewPen returns a pen that appends a line to dst, of at most width columns,
// 0 for no bound.
func NewPen(dst []byte, width int, color bool) *Pen {
	return &Pen{dst: dst, color: color, width: max(width, 0), safe: len(dst)}
}

// Columns returns how many columns are written. Any text that was cut off is
// not counted.
func (p *Pen) Columns() int { return p.columns }

// End returns the slice with the line in it, without a line end.
func (p *Pen) End() []byte { return p.dst }

// Pad writes spaces up to a column, counted from 0.
func (p *Pen) Pad(column int) {
	for p.columns < column && !p.full {
		p.unit([]byte{' '}, 1)
	}
}

// Put writes text, which may be anything, in a style. Once the line is full it
// writes nothing more.
func (p *Pen) Put(style Style, text string) {
	if p.full || text == "" {
		return
	}
	styled := p.color && style != Plain
	if styled {
		p.dst = append(append(append(p.dst, "\x1b["...), style...), 'm')
	}
	for text != "" && !p.full {
		text = p.put(text)
	}
	if styled && !p.full {
		p.reset()
	}
}

// Word writes a space, unless the line is empty, and text.
func (p *Pen) Word(style Style, text string) {
	if text == "" {
		return
	}
	if p.columns > 0 {
		p.Put(Plain, " ")
	}
	p.Put(style, text)
}

func (p *Pen) reset() { p.dst = append(p.dst, "\x1b[0m"...) }

// put writes the first unit of text and returns the rest.
func (p *Pen) put(text string) string {
	if n := asciiRun(text); n > 0 {
		return text[p.ascii(text[:n]):]
	}
	r, size := utf8.DecodeRuneInString(text)
	if !shown(r, size) || runeColumns(r) == 0 {
		p.scratch = appendEscape(p.scratch[:0], r, size, text[0])
		p.unit(p.scratch, len(p.scratch))
		return text[size:]
	}
	length := p.cluster(text)
	return text[length:]
}

// asciiRun returns how many bytes text begins with that are visible ASCII and
// each a cluster of its own: the last one before other characters is not,
// since a mark may follow.
func asciiRun(text string) int {
	n := 0
	for n < len(text) && text[n] >= ' ' && text[n] < 0x7f {
		n++
	}
	if n < len(text) && text[n] >= utf8.RuneSelf {
		n--
	}
	return max(n, 0)
}

// ascii writes visible ASCII as far as there is room, and returns how much of
// it is dealt with.
func (p *Pen) ascii(text string) int {
	if p.width > 0 && p.columns+len(text) > p.width {
		text = text[:p.width-p.columns+1] // the last one does not fit
		p.ascii(text[:len(text)-1])
		p.unit(nil, 1)
		return len(text)
	}
	p.dst = append(p.dst, text...)
	p.columns += len(text)
	switch {
	case p.columns < p.width:
		p.safe = len(p.dst)
	case p.columns == p.width && text != "":
		p.safe = len(p.dst) - 1
	}
	return len(text)
}

// cluster writes the grapheme cluster that text begins with and returns its
// length in text.
func (p *Pen) cluster(text string) int {
	window := text[:min(len(text), windowBytes)]
	cluster, _, columns, _ := uniseg.FirstGraphemeClusterInString(window, -1)
	p.scratch = p.scratch[:0]
	length, sum := 0, 0
	for range maxClusterRunes {
		if length == len(cluster) {
			break
		}
		r, size := utf8.DecodeRuneInString(cluster[length:])
		if !shown(r, size) {
			break
		}
		p.scratch = append(p.scratch, cluster[length:length+size]...)
		sum += runeColumns(r)
		length += size
	}
	p.unit(p.scratch, max(columns, sum))
	return length
}

// unit appends what must not be parted, or the ellipsis when it does not fit.
func (p *Pen) unit(b []byte, columns int) {
	if p.width > 0 && p.columns+columns > p.width {
		p.dst = append(p.dst[:p.safe], ellipsis...)
		if p.color {
			p.reset()
		}
		p.full = true
		return
	}
	p.dst = append(p.dst, b...)
	p.columns += columns
	if p.columns < p.width {
		p.safe = len(p.dst)
	}
}

// shown tells whether a rune may reach a terminal (N1).
func shown(r rune, size int) bool {
	if r == utf8.RuneError && size <= 1 {
		return false
	}
	switch r {
	case '\u200c', '\u200d': // the joiners
		return true
	case '\u2028', '\u2029':
		return false
	}
	return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r)
}

// runeColumns returns the width of one rune by itself.
func runeColumns(r rune) int {
	if r >= ' ' && r < 0x7f {
		return 1
	}
	return uniseg.StringWidth(string(r))
}

// Columns returns how many columns text takes on a terminal, written by a Pen.
func Columns(text string) int {
	p := NewPen(nil, 0, false)
	p.Put(Plain, text)
	return p.columns
}

// Escape returns text as a Pen writes it, without colour and bound.
func Escape(text string) string {
	p := NewPen(nil, 0, false)
	p.Put(Plain, text)
	return string(p.dst)
}

const hexDigits = "0123456789abcdef"

// appendEscape appends a rune that is not to be shown; first is its first
// byte, which is all there is when the text is not UTF-8.
func appendEscape(dst []byte, r rune, size int, first byte) []byte {
	if r == utf8.RuneError && size <= 1 {
		r = rune(first)
	}
	letter, digits := byte('U'), 8
	switch {
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r < 0x100:
		letter, digits = 'x', 2
	case r < 0x10000:
		letter, digits = 'u', 4
	}
	dst = append(dst, '\\', letter)
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[r>>shift&15])
	}
	return dst
}
