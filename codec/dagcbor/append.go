package dagcbor

import (
	"encoding/binary"
	"errors"
	"math"
)

// The Append functions append one canonical value, or the head of a container
// whose values the caller appends next, and return the extended slice. What
// they are given is copied. The order and number of what follows a head is
// the caller's care.

// AppendInt appends an integer (F11).
func AppendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return AppendHead(dst, Negative, uint64(-1-n))
	}
	return AppendHead(dst, Unsigned, uint64(n))
}

// AppendText appends a text string, which must be UTF-8.
func AppendText[S string | []byte](dst []byte, text S) []byte {
	return append(AppendHead(dst, Text, uint64(len(text))), text...)
}

// AppendBytes appends a byte string.
func AppendBytes(dst, content []byte) []byte {
	return append(AppendHead(dst, Bytes, uint64(len(content))), content...)
}

// AppendArray appends the head of an array of count values.
func AppendArray(dst []byte, count int) []byte { return AppendHead(dst, Array, uint64(count)) }

// AppendMap appends the head of a map of count keys and values. Keys come in
// the order of CompareKeys, each once.
func AppendMap(dst []byte, count int) []byte { return AppendHead(dst, Map, uint64(count)) }

// AppendBool appends false or true.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, trueByte)
	}
	return append(dst, falseByte)
}

// AppendNull appends null.
func AppendNull(dst []byte) []byte { return append(dst, nullByte) }

// AppendLink appends a link to a CID (F12).
func AppendLink(dst []byte, cid CID) []byte {
	dst = append(dst, linkTag0, linkTag1)
	dst = AppendHead(dst, Bytes, uint64(len(cid))+1)
	return append(append(dst, 0), cid...)
}

var errFloat = errors.New("dag-cbor: append NaN or infinity")

// AppendFloat appends a float in 64 bits. NaN and the infinities have no form:
// dst comes back as it was, with an error.
func AppendFloat(dst []byte, v float64) ([]byte, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return dst, errFloat
	}
	return binary.BigEndian.AppendUint64(append(dst, doubleFloat), math.Float64bits(v)), nil
}
