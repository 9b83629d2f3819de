package dagcbor

import (
	"errors"
	"fmt"
)

// One error for each breach of F10 and F12. A Scanner wraps them in a
// SyntaxError.
var (
	ErrTruncated     = errors.New("value is cut short")
	ErrLongHead      = errors.New("integer or length is not in its shortest form")
	ErrIndefinite    = errors.New("indefinite length")
	ErrReserved      = errors.New("reserved initial byte")
	ErrDuplicateKey  = errors.New("map key occurs twice")
	ErrUnsortedKey   = errors.New("map keys are out of order")
	ErrKeyType       = errors.New("map key is not a text string")
	ErrTag           = errors.New("tag other than 42")
	ErrUndefined     = errors.New("undefined")
	ErrSimple        = errors.New("simple value other than false, true and null")
	ErrFloatSize     = errors.New("float that is not 64 bits wide")
	ErrFloatValue    = errors.New("NaN or infinity")
	ErrUTF8          = errors.New("text is not UTF-8")
	ErrDepth         = errors.New("nested too deep")
	ErrTrailing      = errors.New("bytes after the value")
	ErrNotMap        = errors.New("not a map")
	ErrTooManyFields = errors.New("map has too many fields")
	ErrLink          = errors.New("link is not a byte string that begins with 00")
)

// One error for each breach of the form of a CID. In a link they stand for
// a malformed link.
var (
	ErrCIDTruncated = errors.New("CID is cut short")
	ErrCIDTrailing  = errors.New("bytes after the CID")
	ErrCIDVersion   = errors.New("CID is not of version 1")
	ErrCIDVarint    = errors.New("CID has a varint that is too long")
	ErrCIDDigest    = errors.New("CID has a digest of a wrong length")
	ErrCIDText      = errors.New("CID is not lower-case base32 with the prefix b")
	ErrCIDHash      = errors.New("CID is of a hash function that is not SHA-256")
	ErrCIDMismatch  = errors.New("content does not hash to the CID")
)

// SyntaxError tells where in its input a Scanner met a breach. Err is one of
// the package's errors.
type SyntaxError struct {
	Offset int // bytes before the value or key at which it was met
	Err    error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("dag-cbor: byte %d: %v", e.Offset, e.Err) }

// Unwrap returns the named error.
func (e *SyntaxError) Unwrap() error { return e.Err }

func fail(offset int, err error) error { return &SyntaxError{Offset: offset, Err: err} }
