package firehose

import (
	"encoding/binary"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// CAR reads a content archive of version 1: a header that names roots, and
// blocks. Lengths are unsigned varints. It never holds more than it was given,
// and stops at the first byte that is wrong. One goroutine at a time.
type CAR struct {
	root dagcbor.CID
	rest []byte
}

// Bytes of a length: what it counts is in a frame of limited size, so more are
// an error and not a large archive.
const maxLengthBytes = 5

// OpenCAR reads the header of an archive, which is borrowed. The header has to
// be a map with version 1 and at least one root; what else is in it does not
// count. The errors are ErrCARTruncated, ErrCARVarint, ErrCARHeader,
// ErrCARVersion and ErrCARRoots.
func OpenCAR(archive []byte) (CAR, error) {
	var scanner dagcbor.Scanner
	var fields dagcbor.Fields
	return openCAR(archive, &scanner, &fields)
}

func openCAR(archive []byte, scanner *dagcbor.Scanner, fields *dagcbor.Fields) (CAR, error) {
	header, rest, err := cutSection(archive)
	if err != nil {
		return CAR{}, err
	}
	if end, err := scanner.Map(header, 0, fields); err != nil || end != len(header) {
		return CAR{}, ErrCARHeader
	}
	version, ok := dagcbor.Int(fields.Find("version"))
	if !ok {
		return CAR{}, ErrCARHeader
	}
	if version != 1 {
		return CAR{}, ErrCARVersion
	}
	roots := fields.Find("roots")
	if dagcbor.MajorOf(roots) != dagcbor.Array {
		return CAR{}, ErrCARHeader
	}
	var first dagcbor.CID
	for root := range dagcbor.Elements(roots) {
		cid, ok := dagcbor.Link(root)
		if !ok {
			return CAR{}, ErrCARHeader
		}
		if first == nil {
			first = cid
		}
	}
	if first == nil {
		return CAR{}, ErrCARRoots
	}
	return CAR{root: first, rest: rest}, nil
}

// Root returns the first root.
func (c *CAR) Root() dagcbor.CID { return c.root }

// More reports whether a block is left to read.
func (c *CAR) More() bool { return len(c.rest) > 0 }

// Next returns the next block, borrowed from the archive. Its content is not
// compared with its CID. The errors are ErrCARTruncated, also when no block is
// left, ErrCARVarint and ErrCARBlock; after one the archive stays where it was.
func (c *CAR) Next() (cid dagcbor.CID, content []byte, err error) {
	section, rest, err := cutSection(c.rest)
	if err != nil {
		return nil, nil, err
	}
	cid, content, err = dagcbor.CutCID(section)
	if err != nil {
		return nil, nil, ErrCARBlock
	}
	c.rest = rest
	return cid, content, nil
}

// cutSection takes a length and as many bytes from the start of b.
func cutSection(b []byte) (section, rest []byte, err error) {
	length, n := binary.Uvarint(b[:min(len(b), maxLengthBytes)])
	switch {
	case n <= 0 && len(b) < maxLengthBytes:
		return nil, b, ErrCARTruncated
	case n <= 0, n > 1 && b[n-1] == 0: // a last byte of 0 adds nothing
		return nil, b, ErrCARVarint
	case length > uint64(len(b)-n):
		return nil, b, ErrCARTruncated
	}
	end := n + int(length)
	return b[n:end], b[end:], nil
}
