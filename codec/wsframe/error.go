package wsframe

import "github.com/gobwas/ws"

// Op is a frame's opcode (RFC 6455, section 5.2).
type Op byte

// The opcodes of RFC 6455, section 5.2. All others are reserved.
const (
	OpContinuation = Op(ws.OpContinuation)
	OpText         = Op(ws.OpText)
	OpBinary       = Op(ws.OpBinary)
	OpClose        = Op(ws.OpClose)
	OpPing         = Op(ws.OpPing)
	OpPong         = Op(ws.OpPong)
)

// IsControl tells a control frame from a data frame (RFC 6455, section 5.5).
func (o Op) IsControl() bool { return ws.OpCode(o).IsControl() }

// Close codes that the relay sends or looks for (RFC 6455, section 7.4.1, and
// IANA's WebSocket Close Code Number Registry).
const (
	CloseNormal         = int(ws.StatusNormalClosure)
	CloseGoingAway      = int(ws.StatusGoingAway)
	CloseProtocolError  = int(ws.StatusProtocolError)
	CloseUnsupported    = int(ws.StatusUnsupportedData)
	CloseInvalidPayload = int(ws.StatusInvalidFramePayloadData)
	ClosePolicy         = int(ws.StatusPolicyViolation)
	CloseTooBig         = int(ws.StatusMessageTooBig)
	CloseInternal       = int(ws.StatusInternalServerError)
	CloseServiceRestart = 1012
	CloseTryAgainLater  = 1013
	CloseBadGateway     = 1014
)

// MaxControlBytes is the largest payload of a control frame (RFC 6455, section
// 5.5), MaxReasonBytes what is left of it for a close reason.
const (
	MaxControlBytes = ws.MaxControlFramePayloadSize
	MaxReasonBytes  = MaxControlBytes - 2
)

// Error is a rule of RFC 6455 that the peer broke. The values are the Err
// variables of this package, so == and errors.Is both work. Immutable.
type Error struct {
	code int
	text string
}

// Error returns the rule in words, short enough for a close reason.
func (e *Error) Error() string { return e.text }

// CloseCode returns the code to close the connection with: 1002, 1007 or 1009.
func (e *Error) CloseCode() int { return e.code }

// What Reader.Feed refuses, one error per rule (R332, R333).
var (
	// Section 5.1: a client masks every frame, a server none.
	ErrUnmasked = &Error{CloseProtocolError, "client frame is not masked"}
	ErrMasked   = &Error{CloseProtocolError, "server frame is masked"}

	// Section 5.2: reserved bits and opcodes, and the form of the length.
	ErrReservedBits     = &Error{CloseProtocolError, "reserved bits without an extension"}
	ErrReservedOpcode   = &Error{CloseProtocolError, "reserved opcode"}
	ErrLengthMSB        = &Error{CloseProtocolError, "length has its most significant bit set"}
	ErrLengthNotMinimal = &Error{CloseProtocolError, "length is not minimally encoded"}
	ErrHeader           = &Error{CloseProtocolError, "malformed frame header"}

	// Section 5.4: fragmentation.
	ErrContinuationFirst = &Error{CloseProtocolError, "continuation without a first fragment"}
	ErrMessageOpen       = &Error{CloseProtocolError, "new message inside a fragmented one"}

	// Of a Reader that takes whole messages only.
	ErrFragmented = &Error{CloseProtocolError, "message is fragmented"}

	// Section 5.5: control frames.
	ErrControlFragmented = &Error{CloseProtocolError, "control frame is fragmented"}
	ErrControlTooLong    = &Error{CloseProtocolError, "control frame is longer than 125 bytes"}

	// Sections 5.5.1 and 7.4: close frames.
	ErrClosePayload    = &Error{CloseProtocolError, "close payload of one byte"}
	ErrCloseCode       = &Error{CloseProtocolError, "close code must not be sent"}
	ErrCloseReasonUTF8 = &Error{CloseInvalidPayload, "close reason is not UTF-8"}

	// Section 8.1: text is UTF-8.
	ErrTextUTF8 = &Error{CloseInvalidPayload, "text is not UTF-8"}

	// Section 10.4 and R332: the limit on one message, fragments summed.
	ErrMessageTooBig = &Error{CloseTooBig, "message is larger than the limit"}
)

// headerErrors maps what ws.CheckHeader and ws.ReadHeaderBuffer return.
var headerErrors = map[error]*Error{
	ws.ErrHeaderLengthMSB:                ErrLengthMSB,
	ws.ErrProtocolOpCodeReserved:         ErrReservedOpcode,
	ws.ErrProtocolControlPayloadOverflow: ErrControlTooLong,
	ws.ErrProtocolControlNotFinal:        ErrControlFragmented,
	ws.ErrProtocolNonZeroRsv:             ErrReservedBits,
	ws.ErrProtocolMaskRequired:           ErrUnmasked,
	ws.ErrProtocolMaskUnexpected:         ErrMasked,
	ws.ErrProtocolContinuationExpected:   ErrMessageOpen,
	ws.ErrProtocolContinuationUnexpected: ErrContinuationFirst,
}

// headerError returns our error for one of the library's, which must be known:
// a header is refused even if a later version of the library has a new reason.
func headerError(err error) *Error {
	if e, ok := headerErrors[err]; ok {
		return e
	}
	return ErrHeader
}

// closeCodeOnWire tells if a close frame may carry code: 1000-1003, 1007-1014,
// 3000-4999. The library knows the codes of RFC 6455; 1012-1014 came later, by
// IANA's registry, and it sets no upper bound.
func closeCodeOnWire(code int) bool {
	switch {
	case code >= CloseServiceRestart && code <= CloseBadGateway:
		return true
	case code < 0 || code > int(ws.StatusRangePrivate.Max):
		return false
	}
	return ws.CheckCloseFrameData(ws.StatusCode(code), "") == nil
}
