package aepws

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// store is the log, as deliveries need it: an *eventlog.Log. Any goroutine;
// Page blocks.
type store interface {
	State() eventlog.State
	Page(after int64, maxEvents int, maxBytes int64, dst []eventlog.Stored) ([]eventlog.Stored, error)
	DeadLetter(d eventlog.DeadLetter, done func(error))
}

// jobs runs work off the loops: a *loop.Jobs.
type jobs interface {
	Submit(l *loop.Loop, work func() (completion func())) error
}

// hubSettings are what deliveries are bounded by.
type hubSettings struct {
	maxSubscriptions int   // of a session
	sendQueue        int   // events that a live best_effort subscription may owe (B60)
	tailEntries      int   // of the tail
	tailBytes        int64 // of the tail
}

// hub is the delivery side of the binding: the newest events, and one feed a
// loop. The methods may be called by any goroutine but where they say otherwise.
type hub struct {
	// Immutable after the last addFeed.
	cfg   hubSettings
	store store
	jobs  jobs
	tail  *tail
	feeds []*feed
	began time.Time // windows count from here

	counts hubCounts
}

// hubCounts are what was delivered since the start. Atomic.
type hubCounts struct {
	subscriptions atomic.Int64 // now
	created       atomic.Int64 // that ever were
	rejected      atomic.Int64 // requests for one
	delivered     atomic.Int64 // events, each for each subscription, again included
	replayed      atomic.Int64 // of these, in replays
	redelivered   atomic.Int64 // of these, again (B58)
	dropped       atomic.Int64 // skipped by best_effort subscriptions (B60)
	tooSlow       atomic.Int64 // subscriptions whose next event had left the log
	failed        atomic.Int64 // subscriptions ended because the log failed
	pages         atomic.Int64 // read from the log
	letters       atomic.Int64 // dead letters stored
	unmade        atomic.Int64 // that were only counted (B58)
	unheard       atomic.Int64 // dead letters that a subscription had no room for
}

// newHub returns a hub over a log. Feeds are added before anything is served.
func newHub(cfg hubSettings, s store, j jobs) *hub {
	return &hub{cfg: cfg, store: s, jobs: j, tail: newTail(s.State().Newest, cfg.tailEntries, cfg.tailBytes)}
}

// committed takes the events of a commit, in order of their numbers: what
// eventlog.Config.Committed calls, on the log's goroutine.
func (h *hub) committed(batch []eventlog.Stored) {
	h.tail.append(batch)
	for _, f := range h.feeds {
		f.w.Loop().Ring()
	}
}

// evicted returns the highest number that has left the log and has passed
// through the tail: B51's E. The oldest number kept is the next (eventlog E2).
func (h *hub) evicted() int64 { return min(h.store.State().Evicted, h.tail.next()-1) }

const (
	// pageEvents and pageBytes bound what is read from the log at once.
	pageEvents = 256
	pageBytes  = 512 << 10
	// oldestTries is how often the oldest event is looked for while retention
	// takes one after the other.
	oldestTries = 8
)

var errNoEvents = errors.New("the log has no events where some must be")

// page reads the events that follow a number. It blocks. Without an error there
// is at least one.
func (h *hub) page(after int64, events int) ([]*entry, error) {
	h.counts.pages.Add(1)
	rows, err := h.store.Page(after, events, pageBytes, nil)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errNoEvents
	}
	var s aepws.Scanner
	list := make([]*entry, len(rows))
	for i := range rows {
		list[i] = newEntry(&s, &rows[i])
	}
	return list, nil
}

// keepLetter stores a dead letter; once that is done all loops hand it to those
// who name it (B58).
func (h *hub) keepLetter(d eventlog.DeadLetter) {
	frame := textFrame(d.Text)
	h.store.DeadLetter(d, func(err error) {
		if err != nil {
			h.counts.unmade.Add(1)
			return
		}
		h.counts.letters.Add(1)
		for _, f := range h.feeds {
			if f.w.Loop().Post(func() { f.hearLetter(d.Tenant, frame) }) != nil {
				h.counts.unheard.Add(1)
			}
		}
	})
}
