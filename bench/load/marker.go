//go:build linux

package load

import (
	"bytes"
	"encoding/binary"
)

const (
	// markerText begins the marker; ten digits and a quote end it.
	markerText  = `"id":"bench-`
	digits      = 10
	markerBytes = len(markerText) + digits + 1

	// noNumber stands for a marker that is damaged.
	noNumber = -1
)

var (
	marker     = []byte(markerText)
	markerHead = binary.LittleEndian.Uint64(marker)
	markerRest = binary.LittleEndian.Uint32(marker[8:])
)

// numberAt returns the number of the marker that begins at w[0]. The text is
// there if isMarker; the number is noNumber if no ten digits and a quote
// follow. w has at least markerBytes.
func numberAt(w []byte) (n int64, isMarker bool) {
	_ = w[markerBytes-1]
	if binary.LittleEndian.Uint64(w) != markerHead || binary.LittleEndian.Uint32(w[8:]) != markerRest {
		return 0, false
	}
	high, ok := eightDigits(binary.LittleEndian.Uint64(w[12:]))
	a, b := w[20]-'0', w[21]-'0'
	if !ok || a > 9 || b > 9 || w[22] != '"' {
		return noNumber, true
	}
	return high*100 + int64(a)*10 + int64(b), true
}

// eightDigits returns the number that eight ASCII digits tell, the first in
// the lowest byte of v.
func eightDigits(v uint64) (int64, bool) {
	const zeros, tops = 0x3030303030303030, 0xf0f0f0f0f0f0f0f0
	if v&tops != zeros || (v+0x0606060606060606)&tops != zeros {
		return 0, false
	}
	// Join neighbours: 8 digits, 4 pairs, 2 fours, 1 eight.
	v -= zeros
	v = (v*10 + v>>8) & 0x00ff00ff00ff00ff
	v = (v*100 + v>>16) & 0x0000ffff0000ffff
	v = (v*10000 + v>>32) & 0x00000000ffffffff
	return int64(v), true
}

// shape is what the frames of one class look like, as far as it was learned.
// It is a guess that makes recognition cheap; a wrong guess costs a search.
type shape struct {
	at         int // where the marker stands in a frame's payload
	chunkBytes int // SSE: length of a chunk that is one whole event
}

// find returns the number of the event whose whole text is m. There is no
// event in it if !isEvent; n is noNumber if its marker is damaged.
func (s *shape) find(m []byte) (n int64, isEvent bool) {
	if at := s.at; at+markerBytes <= len(m) {
		if n, isEvent = numberAt(m[at : at+markerBytes]); isEvent {
			return n, true
		}
	}
	return s.search(m)
}

// search looks for the marker everywhere and learns where it is.
func (s *shape) search(m []byte) (n int64, isEvent bool) {
	i := bytes.Index(m, marker)
	if i < 0 {
		return 0, false
	}
	if i+markerBytes > len(m) {
		return noNumber, true
	}
	s.at = i
	return numberAt(m[i : i+markerBytes])
}

// scan looks for the marker in a text that comes in pieces. It keeps only the
// end of what it saw.
type scan struct {
	number int64 // the event's number once isEvent, noNumber if damaged
	tail   [markerBytes - 1]byte
	kept   uint8 // bytes in tail
	event  bool
}

// feed takes the next piece of the text. m is borrowed until return.
func (s *scan) feed(m []byte) {
	if s.event || len(m) == 0 {
		return
	}
	if s.kept > 0 {
		var seam [2*markerBytes - 2]byte
		n := copy(seam[:], s.tail[:s.kept])
		n += copy(seam[n:], m[:min(len(m), markerBytes-1)])
		if s.look(seam[:n]); s.event {
			return
		}
	}
	if s.look(m); s.event {
		return
	}
	if len(m) >= len(s.tail) {
		s.kept = uint8(copy(s.tail[:], m[len(m)-len(s.tail):]))
		return
	}
	if over := int(s.kept) + len(m) - len(s.tail); over > 0 {
		s.kept = uint8(copy(s.tail[:], s.tail[over:s.kept]))
	}
	s.kept += uint8(copy(s.tail[s.kept:], m))
}

// look searches text for a whole marker.
func (s *scan) look(text []byte) {
	if i := bytes.Index(text, marker); i >= 0 && i+markerBytes <= len(text) {
		s.number, s.event = numberAt(text[i : i+markerBytes])
	}
}

// end returns what was found in the whole text, and begins the next.
func (s *scan) end() (n int64, isEvent bool) {
	n, isEvent = s.number, s.event
	if !isEvent && s.kept > 0 && bytes.Contains(s.tail[:s.kept], marker) {
		n, isEvent = noNumber, true
	}
	s.kept, s.event = 0, false
	return n, isEvent
}
