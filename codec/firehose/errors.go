package firehose

import (
	"errors"
	"fmt"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// Breaches of framing (F9, F58, F59). A Scanner wraps them in a ScanError.
// Breaches of the CBOR itself are dagcbor's errors.
var (
	ErrFrameTooBig = errors.New("frame is too big")
	ErrNoOp        = errors.New("header has no op")
	ErrOpType      = errors.New("op is not an integer")
	ErrUnknownOp   = errors.New("op is not known")
	ErrNoType      = errors.New("header has no t")
	ErrUnknownType = errors.New("t is not known")
)

// Breaches of F14 and F15 in one field. They are wrapped in a FieldError.
var (
	ErrMissing    = errors.New("required field is missing")
	ErrType       = errors.New("field is of the wrong type")
	ErrSeq        = errors.New("number is not within 1 to 2^53-1")
	ErrDID        = errors.New("not a DID")
	ErrTID        = errors.New("not a TID")
	ErrDatetime   = errors.New("not a datetime")
	ErrHandle     = errors.New("not a handle")
	ErrPath       = errors.New("path is empty or not UTF-8")
	ErrCID        = errors.New("not a CID")
	ErrAction     = errors.New("action is not create, update or delete")
	ErrDeleteCID  = errors.New("delete has a CID")
	ErrCreatePrev = errors.New("create has a previous CID")
	ErrStatus     = errors.New("status is not known")
	ErrStatusWith = errors.New("status on an active account")
	ErrTooManyOps = errors.New("more than 200 operations")
	ErrBlocksSize = errors.New("blocks are too large")
)

// ErrKind is returned for a frame of a kind that the call is not for.
var ErrKind = errors.New("firehose: frame is of another kind")

// Breaches of F66 in the blocks of a #commit or #sync. They are wrapped in a
// FieldError.
var (
	ErrCARTruncated  = errors.New("CAR is cut short")
	ErrCARVarint     = errors.New("CAR has a length that is too long")
	ErrCARHeader     = errors.New("CAR header is malformed")
	ErrCARVersion    = errors.New("CAR is not of version 1")
	ErrCARRoots      = errors.New("CAR has no root")
	ErrCARBlock      = errors.New("CAR block has a malformed CID")
	ErrRootMissing   = errors.New("root is not a block of the CAR")
	ErrRootCID       = errors.New("root is not a SHA-256 CID of DAG-CBOR")
	ErrRootHash      = errors.New("root block does not hash to its CID")
	ErrCommitRoot    = errors.New("commit is not the root of the CAR")
	ErrCommitBlock   = errors.New("commit block is malformed")
	ErrCommitVersion = errors.New("commit block is not of version 3")
	ErrCommitDID     = errors.New("commit block is of another repository")
	ErrCommitRev     = errors.New("commit block is of another revision")
)

// FieldError tells which field of a message breaks a rule, and which.
type FieldError struct {
	Field string // as the wire names it, such as ops[3].cid
	Err   error  // one of the package's errors
}

func (e *FieldError) Error() string { return fmt.Sprintf("firehose: %s: %v", e.Field, e.Err) }

// Unwrap returns the named error.
func (e *FieldError) Unwrap() error { return e.Err }

func bad(field string, err error) error { return &FieldError{Field: field, Err: err} }

// Reaction is what is to be done about a message that is refused.
type Reaction uint8

// The reactions of F58 and F59. Each is counted by the caller.
const (
	Accept Reaction = iota
	SkipFrame
	DropConnection
)

// String names the reaction.
func (r Reaction) String() string {
	return [...]string{"accept", "skip the frame", "drop the connection"}[min(r, DropConnection)]
}

// ScanError is a message that is refused, and the reaction to it.
type ScanError struct {
	Reaction Reaction
	Err      error // a FieldError, a dagcbor.SyntaxError or a named error
}

func (e *ScanError) Error() string { return fmt.Sprintf("%v: %v", e.Reaction, e.Err) }

// Unwrap returns what was wrong.
func (e *ScanError) Unwrap() error { return e.Err }

// ReactionTo returns the reaction that a Scanner's error asks for: Accept for
// nil, SkipFrame for an error that is not of Scan, such as one of Verify.
func ReactionTo(err error) Reaction {
	var scan *ScanError
	switch {
	case err == nil:
		return Accept
	case errors.As(err, &scan):
		return scan.Reaction
	}
	return SkipFrame
}

func drop(err error) error { return &ScanError{DropConnection, err} }

func skip(err error) error { return &ScanError{SkipFrame, err} }

// reasons has the words by which refusals are counted. The first that an error
// wraps is taken.
var reasons = []struct {
	err  error
	word string
}{
	{ErrFrameTooBig, "frame_too_big"},
	{ErrNoOp, "no_op"},
	{ErrOpType, "op_type"},
	{ErrUnknownOp, "unknown_op"},
	{ErrNoType, "no_type"},
	{ErrUnknownType, "unknown_type"},
	{dagcbor.ErrTooManyFields, "too_many_fields"},
	{ErrMissing, "missing_field"},
	{ErrType, "field_type"},
	{ErrSeq, "seq"},
	{ErrDID, "did"},
	{ErrTID, "tid"},
	{ErrDatetime, "datetime"},
	{ErrHandle, "handle"},
	{ErrPath, "path"},
	{ErrCID, "cid"},
	{ErrAction, "action"},
	{ErrDeleteCID, "delete_cid"},
	{ErrCreatePrev, "create_prev"},
	{ErrStatus, "status"},
	{ErrStatusWith, "status_active"},
	{ErrTooManyOps, "too_many_ops"},
	{ErrBlocksSize, "blocks_size"},
	{ErrCARTruncated, "car_truncated"},
	{ErrCARVarint, "car_varint"},
	{ErrCARHeader, "car_header"},
	{ErrCARVersion, "car_version"},
	{ErrCARRoots, "car_roots"},
	{ErrCARBlock, "car_block"},
	{ErrRootMissing, "root_missing"},
	{ErrRootCID, "root_cid"},
	{ErrRootHash, "root_hash"},
	{ErrCommitRoot, "commit_root"},
	{ErrCommitBlock, "commit_block"},
	{ErrCommitVersion, "commit_version"},
	{ErrCommitDID, "commit_did"},
	{ErrCommitRev, "commit_rev"},
}

// Reason returns the word by which a refusal is counted (F59, F66): one of a
// fixed set, "bad_cbor" for all of dagcbor's breaches, "other" for an error
// that is not of this package, "" for nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	var syntax *dagcbor.SyntaxError
	if errors.As(err, &syntax) {
		return "bad_cbor"
	}
	return "other"
}
