package firehose

import "github.com/sluice-relay/sluice/codec/dagcbor"

// Sync is the body of a #sync (F14).
type Sync struct {
	DID    string
	Rev    string // a TID
	Time   string // a datetime
	Blocks []byte // a CAR with the commit alone; borrowed
}

// Kind is KindSync.
func (*Sync) Kind() Kind { return KindSync }

// Check is as Commit.Check.
func (s *Sync) Check() error {
	if err := checkAbout(s.DID, s.Time); err != nil {
		return err
	}
	switch {
	case !ValidTID([]byte(s.Rev)):
		return bad("rev", ErrTID)
	case len(s.Blocks) > MaxSyncBlockBytes:
		return bad("blocks", ErrBlocksSize)
	}
	return nil
}

// bodyOverhead is at least the bytes beside the content of all bodies but a
// commit: header, keys, heads, a number and a bool.
const bodyOverhead = 96

// SizeBytes is at least the length of what Append appends.
func (s *Sync) SizeBytes() int {
	return bodyOverhead + len(s.DID) + len(s.Rev) + len(s.Time) + len(s.Blocks)
}

// Append is as Commit.Append.
func (s *Sync) Append(dst []byte, seq int64) ([]byte, error) {
	if err := checkSeq(seq); err != nil {
		return dst, err
	}
	dst = append(dst, headers[KindSync]...)
	dst = dagcbor.AppendMap(dst, 5)
	dst = dagcbor.AppendText(appendKey(dst, "did"), s.DID)
	dst = dagcbor.AppendText(appendKey(dst, "rev"), s.Rev)
	dst = dagcbor.AppendInt(appendKey(dst, "seq"), seq)
	dst = dagcbor.AppendText(appendKey(dst, "time"), s.Time)
	return dagcbor.AppendBytes(appendKey(dst, "blocks"), s.Blocks), nil
}

// Identity is the body of an #identity (F14).
type Identity struct {
	DID    string
	Time   string // a datetime
	Handle string // "" is left out
}

// Kind is KindIdentity.
func (*Identity) Kind() Kind { return KindIdentity }

// Check is as Commit.Check.
func (i *Identity) Check() error {
	if i.Handle != "" && !ValidHandle(i.Handle) {
		return bad("handle", ErrHandle)
	}
	return checkAbout(i.DID, i.Time)
}

// SizeBytes is at least the length of what Append appends.
func (i *Identity) SizeBytes() int { return bodyOverhead + len(i.DID) + len(i.Time) + len(i.Handle) }

// Append is as Commit.Append.
func (i *Identity) Append(dst []byte, seq int64) ([]byte, error) {
	if err := checkSeq(seq); err != nil {
		return dst, err
	}
	dst = append(dst, headers[KindIdentity]...)
	dst = dagcbor.AppendMap(dst, 3+count(i.Handle))
	dst = appendAbout(dst, i.DID, seq, i.Time)
	return appendOptional(dst, "handle", i.Handle), nil
}

// Statuses of an account that is not active (F14).
const (
	StatusTakendown      = "takendown"
	StatusSuspended      = "suspended"
	StatusDeleted        = "deleted"
	StatusDeactivated    = "deactivated"
	StatusDesynchronized = "desynchronized"
	StatusThrottled      = "throttled"
)

// Account is the body of an #account (F14).
type Account struct {
	DID    string
	Time   string // a datetime
	Active bool
	Status string // one of the statuses if not active; "" is left out
}

// Kind is KindAccount.
func (*Account) Kind() Kind { return KindAccount }

// Check is as Commit.Check.
func (a *Account) Check() error {
	if err := checkStatus(a.Active, a.Status); err != nil {
		return err
	}
	return checkAbout(a.DID, a.Time)
}

// SizeBytes is at least the length of what Append appends.
func (a *Account) SizeBytes() int { return bodyOverhead + len(a.DID) + len(a.Time) + len(a.Status) }

// Append is as Commit.Append.
func (a *Account) Append(dst []byte, seq int64) ([]byte, error) {
	if err := checkSeq(seq); err != nil {
		return dst, err
	}
	dst = append(dst, headers[KindAccount]...)
	dst = dagcbor.AppendMap(dst, 4+count(a.Status))
	dst = appendAbout(dst, a.DID, seq, a.Time)
	dst = dagcbor.AppendBool(appendKey(dst, "active"), a.Active)
	return appendOptional(dst, "status", a.Status), nil
}

// OutdatedCursor is the one name of an #info (F20, F22).
const OutdatedCursor = "OutdatedCursor"

// Info is an #info frame. It has no number.
type Info struct {
	Name    string // UTF-8
	Message string // UTF-8; "" is left out
}

// Append appends the frame.
func (i *Info) Append(dst []byte) []byte {
	dst = append(dst, headers[KindInfo]...)
	dst = dagcbor.AppendMap(dst, 1+count(i.Message))
	dst = dagcbor.AppendText(appendKey(dst, "name"), i.Name)
	return appendOptional(dst, "message", i.Message)
}

// Names of error frames (F23, F32). They are the reason of the close too (F49).
const (
	FutureCursor    = "FutureCursor"
	ConsumerTooSlow = "ConsumerTooSlow"
)

// Error is an error frame, after which the stream ends. It has no number.
type Error struct {
	Name    string // the field error, without a #; UTF-8
	Message string // UTF-8; "" is left out
}

// Append appends the frame.
func (e *Error) Append(dst []byte) []byte {
	dst = append(dst, headers[KindError]...)
	dst = dagcbor.AppendMap(dst, 1+count(e.Message))
	dst = dagcbor.AppendText(appendKey(dst, "error"), e.Name)
	return appendOptional(dst, "message", e.Message)
}

// checkAbout looks at the fields that all bodies but a commit's have.
func checkAbout(did, time string) error {
	switch {
	case !ValidDID([]byte(did)):
		return bad("did", ErrDID)
	case !ValidDatetime(time):
		return bad("time", ErrDatetime)
	}
	return nil
}

func checkStatus(active bool, status string) error {
	switch status {
	case "":
	case StatusTakendown, StatusSuspended, StatusDeleted, StatusDeactivated, StatusDesynchronized, StatusThrottled:
		if active {
			return bad("status", ErrStatusWith)
		}
	default:
		return bad("status", ErrStatus)
	}
	return nil
}

func appendAbout(dst []byte, did string, seq int64, time string) []byte {
	dst = dagcbor.AppendText(appendKey(dst, "did"), did)
	dst = dagcbor.AppendInt(appendKey(dst, "seq"), seq)
	return dagcbor.AppendText(appendKey(dst, "time"), time)
}

func appendOptional(dst []byte, key, text string) []byte {
	if text == "" {
		return dst
	}
	return dagcbor.AppendText(appendKey(dst, key), text)
}

func count(optional string) int {
	if optional == "" {
		return 0
	}
	return 1
}
