package dagcbor

import "encoding/binary"

// Major is the major type of a value (RFC 8949, section 3.1).
type Major uint8

// The major types. Simple holds false, true, null and floats.
const (
	Unsigned Major = iota
	Negative
	Bytes
	Text
	Array
	Map
	Tag
	Simple
)

// Initial bytes that are written or compared whole (F10).
const (
	falseByte   = 0xf4
	trueByte    = 0xf5
	nullByte    = 0xf6
	undefined   = 0xf7
	halfFloat   = 0xf9
	singleFloat = 0xfa
	doubleFloat = 0xfb
	breakByte   = 0xff
)

// Additional information of an initial byte (RFC 8949, section 3).
const (
	oneByte    = 24
	twoBytes   = 25
	fourBytes  = 26
	eightBytes = 27
	indefinite = 31
)

// readHead reads the head at b[at:]: major type, argument, and where it ends.
// It is for all major types but Simple, whose argument is no length. The error
// is one of the package's, unwrapped.
func readHead(b []byte, at int) (Major, uint64, int, error) {
	if at >= len(b) {
		return 0, 0, at, ErrTruncated
	}
	major, info := Major(b[at]>>5), b[at]&31
	if info < oneByte {
		return major, uint64(info), at + 1, nil
	}
	arg, next, err := readArgument(b, at, info)
	return major, arg, next, err
}

// readArgument reads an argument that does not fit its initial byte.
func readArgument(b []byte, at int, info byte) (uint64, int, error) {
	var arg, least uint64
	size := 1 << (info - oneByte)
	switch {
	case info == indefinite:
		if major := Major(b[at] >> 5); major >= Bytes && major <= Map || major == Simple {
			return 0, at, ErrIndefinite
		}
		return 0, at, ErrReserved
	case info > eightBytes:
		return 0, at, ErrReserved
	case len(b)-at-1 < size:
		return 0, at, ErrTruncated
	}
	switch rest := b[at+1:]; info {
	case oneByte:
		arg, least = uint64(rest[0]), oneByte
	case twoBytes:
		arg, least = uint64(binary.BigEndian.Uint16(rest)), 1<<8
	case fourBytes:
		arg, least = uint64(binary.BigEndian.Uint32(rest)), 1<<16
	default:
		arg, least = binary.BigEndian.Uint64(rest), 1<<32
	}
	if arg < least {
		return 0, at, ErrLongHead
	}
	return arg, at + 1 + size, nil
}

// AppendHead appends the shortest head of a major type with an argument.
func AppendHead(dst []byte, major Major, arg uint64) []byte {
	initial := byte(major) << 5
	switch {
	case arg < oneByte:
		return append(dst, initial|byte(arg))
	case arg < 1<<8:
		return append(dst, initial|oneByte, byte(arg))
	case arg < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, initial|twoBytes), uint16(arg))
	case arg < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, initial|fourBytes), uint32(arg))
	}
	return binary.BigEndian.AppendUint64(append(dst, initial|eightBytes), arg)
}

// HeadLen returns how many bytes AppendHead appends for an argument.
func HeadLen(arg uint64) int {
	switch {
	case arg < oneByte:
		return 1
	case arg < 1<<8:
		return 2
	case arg < 1<<16:
		return 3
	case arg < 1<<32:
		return 5
	}
	return 9
}
