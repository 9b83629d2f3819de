package store

import (
	"errors"
	"iter"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Errors that callers answer with a code of the contract (S4). Each may be
// wrapped; use errors.Is.
var (
	// ErrUnknownOwner is 404 unknown_owner.
	ErrUnknownOwner = errors.New("store: unknown owner")
	// ErrUnauthorized is 401 unauthorized: the owner has another hash (S15).
	ErrUnauthorized = errors.New("store: hash of another token")
	// ErrOwnerClosed is 410 owner_closed.
	ErrOwnerClosed = errors.New("store: owner is closed")
	// ErrOwnerLimit is 403 owner_limit: a new owner beyond Config.Owners.
	ErrOwnerLimit = errors.New("store: owner limit reached")
	// ErrQuota is 413 quota_exceeded, after the owner was compacted (S23a).
	ErrQuota = errors.New("store: owner quota exceeded")
	// ErrRelayFull is 413 relay_full: the sum of all owners is at its limit.
	ErrRelayFull = errors.New("store: relay is full")
	// ErrUnknownBlob is 404 unknown_blob.
	ErrUnknownBlob = errors.New("store: unknown blob")
	// ErrStaleCursor is 404 stale_cursor (S33).
	ErrStaleCursor = errors.New("store: cursor of no epoch")
	// ErrBusy is 503 busy: too many writes wait, or another process holds the
	// database's lock for longer than the busy timeout.
	ErrBusy = sqldb.ErrBusy
	// ErrDiskFull is 503 busy (hard case 43): nothing was stored, reads go on.
	ErrDiskFull = sqldb.ErrDiskFull
	// ErrTakenAway is 500 internal: the database or its log was removed, replaced
	// or cannot be reached at its path. Nothing is stored; reads go on.
	ErrTakenAway = sqldb.ErrTakenAway
	// ErrStopped is 503 busy: the store is closing.
	ErrStopped = errors.New("store: stopped")
	// ErrNewerSchema stops a start (S50).
	ErrNewerSchema = sqldb.ErrNewerSchema
	// ErrInvariant is what Check reports.
	ErrInvariant = errors.New("store: invariant broken")
)

// Defaults of Config.
const (
	DefaultOwnerBytes         = 1 << 30
	DefaultTotalBytes         = 10 << 30
	DefaultOwners             = 10_000
	DefaultPullBytes          = 8 << 20
	DefaultCompactionInterval = 6 * time.Hour
	DefaultBusyTimeout        = 5 * time.Second
)

// Unlimited, as a Config limit, is none. Zero takes the default, so that the
// contract's 0 for "none" has to be turned into Unlimited by who parses it.
const Unlimited = -1

// Config is what a Store needs. A zero field takes its default.
type Config struct {
	// Path is the database file. Its directory must exist.
	Path string
	// OwnerBytes bounds the stored bytes of one owner.
	OwnerBytes int64
	// TotalBytes bounds the sum over all owners; Unlimited is none.
	TotalBytes int64
	// Owners bounds the number of owners, closed ones too; Unlimited is none.
	Owners int64
	// PullBytes: a page ends past this sum of stored bytes (S36).
	PullBytes int64
	// CompactionInterval is counted from the last run, which is stored (S37).
	// Negative turns it off.
	CompactionInterval time.Duration
	// Floor says where sequence numbers start (S29).
	Floor Floor
	// Synchronous is FULL (default), NORMAL, EXTRA or OFF: SQLite's pragma.
	Synchronous string
	// BusyTimeout is how long a lock of another process is waited for.
	BusyTimeout time.Duration
	// Readers is the number of reading connections, default 4.
	Readers int
	// QueueCount and QueueBytes bound the writes that wait (then ErrBusy);
	// defaults 4,096 requests and 320 MiB: a queued body already lies in memory
	// or in the spool, which its owner bounds.
	QueueCount int
	QueueBytes int64
	// GroupCount bounds the requests of one transaction, default 256. There is
	// nothing to gain from less, except to see what groups gain.
	GroupCount int
	// Notify, if set, is told of a commit that added events to an owner or
	// closed it, after the commit and before the answer, on the writer's
	// goroutine. It must not block nor call the store. A waiter (S52) must
	// register before it pulls: then no event falls between the two.
	Notify func(Notice)
	// Now is the clock, default time.Now.
	Now func() time.Time
}

// Floor is the SEQ_FLOOR setting. The zero value is auto.
type Floor struct {
	Mode FloorMode
	// Number is the floor of FloorFixed; 0 goes on from the stored counter.
	Number int64
}

// FloorMode says how the floor of sequence numbers is found (S29).
type FloorMode uint8

// The modes of S29.
const (
	FloorAuto FloorMode = iota
	FloorClock
	FloorFixed
)

// Notice tells of one owner after a commit.
type Notice struct {
	// Owner got new events, or was closed.
	Owner string
	// Head is the newest sequence number stored for it; 0 when closed.
	Head int64
	// Closed: every wait of this owner ends with ErrOwnerClosed's answer.
	Closed bool
}

// Auth names an owner and the hash of the token that came with the request, in
// the stored form of S12. Both were checked for their shape.
type Auth struct {
	Owner string
	Hash  string
}

// Event is one envelope of a push, checked by S18. The slice and strings are
// borrowed until the next step of the sequence.
type Event struct {
	ID string
	// Stream is empty when the envelope has none.
	Stream string
	// Envelope is the stored form (S19); its length is what is charged.
	Envelope []byte
}

// Push is one push request.
type Push struct {
	Auth
	// Events yields the request's events in order. It is run on the writer's
	// goroutine, inside a transaction, and may be run more than once, each time
	// from the start: it reads memory or a complete spool file, never a socket.
	// An error it yields fails the push and is returned wrapped. Nil: none.
	Events iter.Seq2[Event, error]
	// Count and Bytes are the sums over Events; they bound groups and queue.
	Count int
	Bytes int64
}

// PushResult is the answer of S22.
type PushResult struct {
	Accepted  int
	Duplicate int
}

// Pull asks for one page (S32).
type Pull struct {
	Auth
	// After is the cursor; a digit string beyond 2^63-1 is math.MaxInt64.
	After int64
	// Limit is the clamped number of events, at least 1.
	Limit int
}

// Page tells what a pull gave.
type Page struct {
	// Next is the next cursor: the last event's number, or After.
	Next int64
	// Events and Bytes count what was handed out.
	Events int
	Bytes  int64
}

// Reclaimed is the answer of both compactions (S40, S47).
type Reclaimed struct {
	DeletedEvents  int64
	ReclaimedBytes int64
}

// Closed is the answer of a close (S42); zero counts when closed already (S43).
type Closed struct {
	DeletedEvents int64
	DeletedBlobs  int64
}

// Status is what status and usage answer, from counters and an index.
type Status struct {
	UsedBytes  int64
	QuotaBytes int64
	// HeadSeq is the greatest stored number of the owner, 0 if none.
	HeadSeq int64
	Streams int64
	Events  int64
	Blobs   int64
	// CreatedAt is ISO 8601 UTC with milliseconds (S9).
	CreatedAt string
}

// Stats are counters since the start, and gauges, for metrics.
type Stats struct {
	Pushes, Duplicates, Events, EventBytes uint64
	Blobs, BlobBytes                       uint64
	// Groups were committed with Requests in them, in CommitTime together;
	// MaxGroup is the largest and MaxCommit the longest commit.
	Groups, Requests uint64
	MaxGroup         int
	CommitTime       time.Duration
	MaxCommit        time.Duration
	// Busy, Full and Failed count refused and failed requests.
	Busy, Full, Failed uint64
	// Compacted events and bytes by S37; Slices are transactions of background
	// work; Checkpoints ran.
	CompactedEvents, CompactedBytes uint64
	Slices, Checkpoints             uint64
	// Gauges: waiting writes, size of the write-ahead log's file, sum of owners,
	// number of owners, the newest sequence number issued.
	QueueCount int
	QueueBytes int64
	WALBytes   int64
	TotalBytes int64
	Owners     int64
	LastSeq    int64
}

// The methods of Store, by file: Open, Close, Ping, StoreID (store.go); Admit,
// Authorize, AdmitBlob, Pull, Status, Blob, BlobSize (read.go); Push, PushAsync,
// PutBlob, PutBlobAsync, CompactStreams, CompactStreamsAsync, CloseOwner,
// CloseOwnerAsync, CompactAll (write.go); Backup, Check (check.go, backup.go);
// Stats (stats.go).
var _ interface {
	// Close answers waiting writes with ErrStopped, ends the writer after its
	// transaction and closes the connections.
	Close() error
	// Ping reads one row: nil when the store can be reached (health).
	Ping() error
	// StoreID is the random identity of the database, for logs.
	StoreID() string

	// Admit is the early check of a push or blob upload (S16): nil for a known
	// owner with this hash and for an unknown one that may be registered, else
	// ErrUnauthorized, ErrOwnerClosed or ErrOwnerLimit. The push decides again.
	Admit(Auth) error
	// Authorize is the check of all other requests: ErrUnknownOwner,
	// ErrUnauthorized, ErrOwnerClosed or nil.
	Authorize(Auth) error
	// AuthorizeClose is Authorize for a close, which S43 allows on a closed
	// owner: ErrUnknownOwner, ErrUnauthorized or nil.
	AuthorizeClose(Auth) error
	// AdmitBlob is Admit, and tells whether the owner holds the hash already.
	AdmitBlob(auth Auth, hash string) (duplicate bool, err error)

	// Push stores a request's new events, all or none (S21 to S25), and
	// registers an unknown owner (S13, S14). It returns after the commit.
	Push(Push) (PushResult, error)
	// PushAsync is Push with the answer through done, called exactly once on
	// another goroutine (the writer's; or, for ErrBusy and ErrStopped, the
	// caller's before the return). done must not block.
	PushAsync(p Push, done func(PushResult, error))
	// PutBlob stores a chunk whose SHA-256 is hash (the caller made sure). The
	// body is borrowed until the answer. False: it was there already.
	PutBlob(auth Auth, hash string, body []byte) (stored bool, err error)
	// PutBlobAsync is PutBlob as PushAsync is Push.
	PutBlobAsync(auth Auth, hash string, body []byte, done func(bool, error))
	// CompactStreams deletes all events of the streams (S40), in slices.
	CompactStreams(auth Auth, streams []string) (Reclaimed, error)
	// CompactStreamsAsync is CompactStreams as PushAsync is Push.
	CompactStreamsAsync(auth Auth, streams []string, done func(Reclaimed, error))
	// CloseOwner closes the owner (S42, S43); its rows go in slices afterwards.
	CloseOwner(Auth) (Closed, error)
	// CloseOwnerAsync is CloseOwner as PushAsync is Push.
	CloseOwnerAsync(auth Auth, done func(Closed, error))
	// CompactAll runs S37 now and waits for its end; runs do not overlap: a
	// call during a run waits for that run and gets its sums.
	CompactAll() (Reclaimed, error)
	// CompactAllAsync is CompactAll as PushAsync is Push.
	CompactAllAsync(done func(Reclaimed, error))

	// Pull hands the page's envelopes to add in ascending order, each borrowed
	// until add returns, and holds a read snapshot only meanwhile: add appends
	// to a buffer and never waits for a peer. Errors: those of Authorize, and
	// ErrStaleCursor.
	Pull(q Pull, add func(envelope []byte)) (Page, error)
	// Status answers from counters and the head of an index.
	Status(Auth) (Status, error)
	// Blob returns the body (owned by the caller) or ErrUnknownBlob.
	Blob(auth Auth, hash string) ([]byte, error)
	// BlobSize is Blob for HEAD: the length of the body.
	BlobSize(auth Auth, hash string) (int64, error)

	// Check tests the invariants D1 to D3 on a snapshot; every broken one is in
	// the error, which wraps ErrInvariant. It reads all rows' sizes.
	Check() error
	// Backup writes a consistent copy to path, which must not exist.
	Backup(path string) error
	// Stats is a snapshot of counters and gauges.
	Stats() Stats
} = (*Store)(nil)
