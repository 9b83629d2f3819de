package aep

import (
	"strconv"
	"unsafe"
)

// Kind is the JSON kind of an attribute value that a filter may see.
type Kind uint8

// The scalar kinds of R213.
const (
	KindString Kind = iota
	KindInteger
	KindBool
)

// Value is one attribute value: a decoded string, an integer as it is spelled
// in the text, or a boolean. The zero Value is the empty string. Values are
// immutable and share the bytes of the event they came from. Any goroutine.
type Value struct {
	text string
	kind Kind
}

// StringValue returns s as a value. The string is shared.
func StringValue(s string) Value { return Value{text: s, kind: KindString} }

// IntegerValue returns n as a value.
func IntegerValue(n int64) Value {
	return Value{text: strconv.FormatInt(n, 10), kind: KindInteger}
}

// Kind returns the kind of the value.
func (v Value) Kind() Kind { return v.kind }

// AppendString appends the decoded string to dst. Lone surrogates have become
// U+FFFD. A number is appended as spelled, a boolean as true or false.
func (v Value) AppendString(dst []byte) []byte { return append(dst, v.text...) }

// EqualString reports whether the value is a string and equals s after JSON
// escapes are decoded (R118, R221). It does not allocate.
func (v Value) EqualString(s string) bool {
	return v.kind == KindString && v.text == s
}

// Bool returns the value of a boolean, and false for any other kind.
func (v Value) Bool() bool { return v.kind == KindBool && v.text == "true" }

// Integer returns the exact value of an integer, and zero for any other kind.
// The result shares the bytes of the value.
func (v Value) Integer() Integer {
	if v.kind != KindInteger {
		return Integer{}
	}
	raw := unsafe.Slice(unsafe.StringData(v.text), len(v.text))
	n, _ := ParseInteger(raw) // only integers are ever stored as KindInteger
	return n
}
