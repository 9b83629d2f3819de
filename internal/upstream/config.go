package upstream

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// Store keeps the rows durably. Each method has synced when it returns nil, and
// has changed all or nothing. They may block. Calls that write do not overlap;
// Repo may be called beside them.
type Store interface {
	// Hosts returns all hosts.
	Hosts() ([]state.Host, error)
	// SaveHost stores a host, new if its ID is 0, and returns its ID.
	SaveHost(host state.Host) (id int64, err error)
	// Repo returns the row of a repository, and false if there is none.
	Repo(did string) (state.Repo, bool, error)
	// Apply stores a batch in one transaction. The batch is borrowed until
	// return, what its rows point to is shared and immutable.
	Apply(batch state.Batch) error
}

// Ways to look at frames (FIREHOSE_VERIFY, F66).
const (
	VerifyOff       = "off"
	VerifyStructure = "structure"
)

const (
	defaultPersist    = 4 * time.Second // F63
	defaultRepoCount  = 100_000         // about 40 MB
	defaultDirtyCount = 65_536

	maxHostCount   = 1_000
	maxFailures    = 15          // F55
	firstPause     = time.Second // F55
	longestPause   = time.Minute // F55
	firstRetry     = 100 * time.Millisecond
	longestRetry   = 5 * time.Second
	dialTimeout    = 30 * time.Second
	pingInterval   = 30 * time.Second
	answerTimeout  = 30 * time.Second // of a ping
	maxUnanswered  = 2
	futureRevs     = 5 * time.Minute // F64
	maxStatusBytes = 64              // of an upstream's status that is kept
)

// Config says what a Manager works with. The zero value of what is not Publish
// or Store is the default.
type Config struct {
	Upstreams     []string      // FIREHOSE_UPSTREAMS, as ParseUpstream reads them
	Verify        string        // FIREHOSE_VERIFY, "structure" if empty
	Persist       time.Duration // FIREHOSE_CURSOR_PERSIST_MS
	MaxFrameBytes int           // FIREHOSE_MAX_FRAME_BYTES, the same as the producer's

	// Publish gives a frame our number and publishes it. The frame is borrowed
	// until return. It may block, and an error means that nothing was
	// published (F28, F46).
	Publish func(*firehose.Frame) (seq int64, err error)
	Store   Store
	Log     *slog.Logger // nothing is logged if nil

	// Grace is how long after the start no cursor is stored, unless the bound of U4
	// is near: consumers that lost us have to come back before a stored cursor may
	// pass over what they have not been sent.
	Grace time.Duration

	RepoCount  int // repositories held in memory
	DirtyCount int // of them, at most, not stored yet (U4)

	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Rand  func() float64 // 0 to 1, for pauses
}

// fill checks the settings and puts in what is left out.
func (c *Config) fill() error {
	if c.Verify == "" {
		c.Verify = VerifyStructure
	}
	if c.Persist == 0 {
		c.Persist = defaultPersist
	}
	if c.MaxFrameBytes == 0 {
		c.MaxFrameBytes = firehose.MaxFrameBytes
	}
	if c.RepoCount == 0 {
		c.RepoCount = defaultRepoCount
	}
	if c.DirtyCount == 0 {
		c.DirtyCount = min(defaultDirtyCount, c.RepoCount)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	switch {
	case c.Verify != VerifyOff && c.Verify != VerifyStructure:
		return fmt.Errorf("%w: verify is %q, not off or structure", ErrConfig, c.Verify)
	case c.Persist < time.Millisecond:
		return fmt.Errorf("%w: persist is %v", ErrConfig, c.Persist)
	case c.Grace < 0:
		return fmt.Errorf("%w: grace is %v", ErrConfig, c.Grace)
	case c.MaxFrameBytes < 1:
		return fmt.Errorf("%w: frames of %d bytes", ErrConfig, c.MaxFrameBytes)
	case c.DirtyCount < 1 || c.RepoCount < c.DirtyCount:
		return fmt.Errorf("%w: %d repositories in memory, %d of them not stored", ErrConfig, c.RepoCount, c.DirtyCount)
	case c.Publish == nil || c.Store == nil:
		return fmt.Errorf("%w: no Publish or no Store", ErrConfig)
	}
	return nil
}
