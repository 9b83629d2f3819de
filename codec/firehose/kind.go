package firehose

// Kind tells what a frame is. The first four are messages with a number; their
// values are those that the ring stores, whose type this is.
type Kind = uint8

// The kinds of frames.
const (
	KindCommit Kind = iota
	KindSync
	KindIdentity
	KindAccount
	KindInfo
	KindError
	KindUnknown // an op or a t that is not known here
)

// Limits of F14, F15 and F17.
const (
	MaxFrameBytes       = 5_000_000 // default of FIREHOSE_MAX_FRAME_BYTES
	MaxSeq              = 1<<53 - 1
	MaxOpsCount         = 200
	MaxCommitBlockBytes = 2_000_000 // blocks of #commit
	MaxSyncBlockBytes   = 10_000    // blocks of #sync
)

// headers has the header of each known kind, byte for byte (F13).
var headers = [KindUnknown]string{
	KindCommit:   "\xa2\x61t\x67#commit\x62op\x01",
	KindSync:     "\xa2\x61t\x65#sync\x62op\x01",
	KindIdentity: "\xa2\x61t\x69#identity\x62op\x01",
	KindAccount:  "\xa2\x61t\x68#account\x62op\x01",
	KindInfo:     "\xa2\x61t\x65#info\x62op\x01",
	KindError:    "\xa1\x62op\x20",
}

var kindNames = [KindUnknown + 1]string{"commit", "sync", "identity", "account", "info", "error", "unknown"}

// KindName returns the name of t without its #; "error" and "unknown" for the
// kinds that have none.
func KindName(kind Kind) string { return kindNames[min(kind, KindUnknown)] }

// numbered reports whether frames of the kind are messages with a number
// (F15).
func numbered(kind Kind) bool { return kind <= KindAccount }

// kindOfType finds the kind of a header with op 1.
func kindOfType(t []byte) Kind {
	switch string(t) {
	case "#commit":
		return KindCommit
	case "#sync":
		return KindSync
	case "#identity":
		return KindIdentity
	case "#account":
		return KindAccount
	case "#info":
		return KindInfo
	}
	return KindUnknown
}
