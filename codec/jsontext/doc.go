// Package jsontext has what the scanners of JSON text share (RFC 8259): looking for
// the end of plain string content in eight bytes at a time, the ends of strings and
// numbers, decoding escapes, and finding member names that occur twice.
//
// Strings that it is given are known to be valid; numbers it checks. It allocates
// nothing but what a NameSet of many names needs. A NameSet belongs to one goroutine
// at a time; everything else may be called by any.
package jsontext
