// Package jsontext has what the scanners of JSON text share: looking for the end
// of plain string content in eight bytes at a time, and the end of a string that
// is known to be valid (RFC 8259, section 7).
//
// It validates nothing by itself and allocates nothing. Any goroutine.
package jsontext
