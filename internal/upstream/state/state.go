package state

import "time"

// Statuses of a host (F53).
const (
	Active    = "active"    // connected, or to be connected
	Idle      = "idle"      // stopped until an operator decides (F62)
	Offline   = "offline"   // no more attempts until a restart or an operator's word (F55)
	Throttled = "throttled" // over its account limit (F68)
	Banned    = "banned"    // never connected (F56)
)

// NoSeq is the LastSeq of a host that has sent no frame, or that resumes live.
const NoSeq = -1

// Host is the row of a host (F53).
type Host struct {
	ID       int64  // 0 until it is stored
	Hostname string // lower case, no scheme, a port only for localhost
	NoSSL    bool   // ws instead of wss
	Status   string // one of the constants

	LastSeq      int64 // the host's own number through which all is done (F63); NoSeq for none
	AccountLimit int64 // 0 is none
	AccountCount int64 // repositories whose HostID is this host

	CreatedAt, UpdatedAt time.Time
}

// Repo is the row of a repository (F64, F67).
type Repo struct {
	DID    string
	HostID int64 // the host that its last commit came from; 0 for none

	Rev    string // a TID; "" if no commit was seen
	Commit []byte // CID of the commit; nil if not known
	Data   []byte // CID of the tree's root; nil if not known

	Status         string // the relay's own: "" or takendown
	UpstreamStatus string // "" is active; Inactive if no reason was given
}

// Inactive is the UpstreamStatus of an account that is not active and whose
// host gave no reason, or one that is too long to be kept.
const Inactive = "inactive"

// HostCursor is the part of a host's row that moves with its frames.
type HostCursor struct {
	ID           int64
	LastSeq      int64
	AccountCount int64
}

// Batch is what is written in one transaction: cursors, and the repositories
// that changed up to them (F63, F64). Each host and each repository is in it
// once.
type Batch struct {
	Repos   []Repo
	Cursors []HostCursor
}
