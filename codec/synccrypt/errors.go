package synccrypt

import "errors"

// What callers branch on. The errors that are returned wrap these, and say what
// is wrong without the wrong text itself.
var (
	// ErrCredential is wrapped by every *CredentialError (D5).
	ErrCredential = errors.New("credential refused")
	// ErrClock: a clock's text or value is none of D12's, or its time is used up.
	ErrClock = errors.New("invalid clock")
	// ErrJSON: the text has no canonical form (D10).
	ErrJSON = errors.New("invalid JSON")
	// ErrPayload: a payload breaks D14, or does not belong to its envelope (D12,
	// D13).
	ErrPayload = errors.New("invalid payload")
	// ErrUnknown: authentic, but of a form that a later version made (D32).
	ErrUnknown = errors.New("form of a later version")
	// ErrEnvelope: an envelope breaks D10.
	ErrEnvelope = errors.New("invalid envelope")
	// ErrOtherOwner: an envelope of another owner, which was not decrypted (D11).
	ErrOtherOwner = errors.New("envelope of another owner")
	// ErrTag: a ciphertext, its nonce or its header was changed, or another key
	// made it (D11).
	ErrTag = errors.New("authentication failed")
	// ErrHeader: what was to be sealed has a device id or a time that no header
	// can have.
	ErrHeader = errors.New("invalid header")
	// ErrTooLarge: the envelope would exceed MaxEnvelopeBytes.
	ErrTooLarge = errors.New("envelope too large")
	// ErrChunk: a chunk's size, index or blob id is out of bounds (D50).
	ErrChunk = errors.New("invalid chunk")
	// ErrManifest: a manifest breaks D51, or its numbers contradict each other.
	ErrManifest = errors.New("invalid manifest")
)
