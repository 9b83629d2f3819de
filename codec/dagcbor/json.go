package dagcbor

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the JSON form of exactly one value: links as
// {"$link":"b..."}, byte strings as {"$bytes":"..."} in base64 without padding,
// map keys in the order of the input, no white space. It is for people and for
// tools that watch: large integers are written in full and a map that spells
// {"$link"} itself is not told apart. The value is checked first, and keys out
// of order are let pass; after an error dst comes back as it was.
func (s *Scanner) AppendJSON(dst, value []byte) ([]byte, error) {
	end, _, err := s.Value(value, 0)
	if err != nil {
		return dst, err
	}
	if end != len(value) {
		return dst, fail(end, ErrTrailing)
	}
	return appendJSON(dst, value), nil
}

func appendJSON(dst, value []byte) []byte {
	switch MajorOf(value) {
	case Unsigned, Negative:
		return appendJSONInt(dst, value)
	case Bytes:
		b, _ := BytesOf(value)
		dst = append(dst, `{"$bytes":"`...)
		return append(base64.RawStdEncoding.AppendEncode(dst, b), `"}`...)
	case Text:
		text, _ := TextOf(value)
		return appendQuoted(dst, text)
	case Array:
		dst = append(dst, '[')
		first := true
		for element := range Elements(value) {
			dst = appendComma(dst, &first)
			dst = appendJSON(dst, element)
		}
		return append(dst, ']')
	case Map:
		dst = append(dst, '{')
		first := true
		for key, element := range Entries(value) {
			dst = appendComma(dst, &first)
			dst = append(appendQuoted(dst, key), ':')
			dst = appendJSON(dst, element)
		}
		return append(dst, '}')
	case Tag:
		cid, _ := Link(value)
		return append(cid.AppendText(append(dst, `{"$link":"`...)), `"}`...)
	}
	if v, ok := Float(value); ok {
		return appendJSONFloat(dst, v)
	}
	if v, ok := Bool(value); ok {
		return strconv.AppendBool(dst, v)
	}
	return append(dst, "null"...)
}

func appendComma(dst []byte, first *bool) []byte {
	if *first {
		*first = false
		return dst
	}
	return append(dst, ',')
}

func appendJSONInt(dst, value []byte) []byte {
	major, arg, _, _ := readHead(value, 0)
	switch {
	case major == Unsigned:
		return strconv.AppendUint(dst, arg, 10)
	case arg <= math.MaxInt64:
		return strconv.AppendInt(dst, -1-int64(arg), 10)
	}
	n := new(big.Int).SetUint64(arg)
	return n.Not(n).Append(dst, 10) // -1-n
}

// appendJSONFloat writes the float as encoding/json does, which is how
// JavaScript does.
func appendJSONFloat(dst []byte, v float64) []byte {
	text, err := json.Marshal(v)
	if err != nil { // a finite float has a form
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends UTF-8 text as a JSON string, with the escapes that RFC
// 8259, section 7 demands and no others.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ' || c == utf8.RuneSelf-1:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
