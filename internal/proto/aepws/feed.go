package aepws

import (
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
)

// outlet is a session's connection, as its subscriptions see it. Loop only.
type outlet interface {
	peer() *serve.Peer
	session() string
	tenant() string
	author() *aepws.Author // the loop's
	subs() *subscriptions  // kept for the feed: the zero value to begin with
	inflight() *budget     // of the session's windows
}

// cause is the event that an answer answers: its id and its correlation_id, nil
// where it has none. Borrowed until return.
type cause struct{ id, correlation []byte }

// subscriptions are what the feed keeps for one connection. The zero value has
// none. Owned by the loop.
type subscriptions struct {
	list   []*sub     // in the order in which they were made
	asking []*request // wait for the log, the first of them at work; in order
	asked  int        // bytes of these
	made   int        // so far: their ids count
	behind int        // of list, that are not live
	turn   int        // place in list of the one that is served next
	ready  bool       // in feed.ready
	closed bool
}

// sub is one subscription. Owned by the loop.
type sub struct {
	// Immutable after construction.
	k       outlet
	peer    *serve.Peer
	group   *group
	expires time.Time // zero: with the connection (B54)

	// at is the place in group.members while the subscription is live, otherwise
	// in feed.behind.
	at    int
	live  bool
	named bool // in feed.named
	ended bool

	// next is the number of the next event to look at, of one that is behind;
	// exact tells that it is an event for the subscription. base and firm are how
	// many of the group's events, and of those that may not be dropped, come
	// before next: the rest is owed. In a replay they are those of its end.
	next    int64
	exact   bool
	reading bool // waits for a page
	paused  bool // until something is acknowledged
	base    int64
	firm    int64
	replay  *replay
	dropped int64 // events skipped, which the next delivery tells (B60)

	lastID     string // of the last event sent, or of the cursor it began with
	lastNumber int64

	owing *owing      // of one that was sent what has to be acknowledged
	timer *loop.Timer // for expires and owing
}

// replay is what a subscription with a cursor gets first (B52).
type replay struct {
	cursor string // as given
	until  int64  // newest number when the subscription was made
	events int64  // sent so far
	to     string // cursor of the last of them
}

const (
	// maxReads bounds how many reads of the log a loop has under way: the log
	// itself reads a few at once.
	maxReads = 4
	// sweepInterval is how often it is looked for subscriptions that are behind
	// and whose next event has left the log (B60).
	sweepInterval = 250 * time.Millisecond
	// readRetry is how long a read waits that the job pool had no room for.
	readRetry = loop.WheelTick
)

// feedBounds are what a feed does at once.
type feedBounds struct {
	frames int   // of a batch
	tries  int   // groups touched between two looks at the clock
	writes int   // of a pass between two looks at the clock
	step   int64 // events that one step of a subscription looks at
}

// feed is the delivery side of one loop. Live subscriptions are in groups of
// those that get the same bytes; one that replays, is behind or may not be sent
// more reads by itself when its socket has taken everything. It implements
// loop.Drainer. Owned by the loop.
type feed struct {
	h *hub
	w *serve.Worker

	// bounds are constants but in tests.
	bounds feedBounds

	groups map[groupKey]*group
	index  index
	// next is the number up to which the loop has passed: what follows it has not
	// been matched.
	next   int64
	pass   pass
	behind []*sub
	named  map[string][]*sub // that name event.dead_lettered, by tenant (B58)

	// ready are the sockets with something to do; spare is memory for it.
	ready, spare []outlet

	waiting []read // first in, first out
	reads   int    // under way
	retry   loop.Timer
	sweep   loop.Timer

	own   portion   // of the subscription that is being served by itself
	round []*sub    // scratch
	due   []overdue // scratch
	text  []byte    // scratch
}

// addFeed makes the feed of a worker's loop. Called before anything is served.
func (h *hub) addFeed(w *serve.Worker) *feed {
	f := &feed{
		h: h, w: w, groups: map[groupKey]*group{}, named: map[string][]*sub{},
		next: h.tail.next(), due: make([]overdue, 0, 1),
		bounds: feedBounds{frames: batchFrames, tries: lookTries, writes: lookWrites, step: stepEvents},
	}
	if h.began.IsZero() {
		h.began = w.Loop().Now()
	}
	f.retry.Fire = f.tryAgain
	f.sweep.Fire = func() { f.tick(f.w.Loop().Now()) }
	h.feeds = append(h.feeds, f)
	w.Loop().AddDrainer(f)
	return f
}

// tryAgain starts reads that the job pool had no room for, and one for a pass
// that has failed.
func (f *feed) tryAgain() {
	if f.pass.failed {
		f.pass.asked, f.pass.failed = false, false
		f.w.Loop().Ring()
	}
	f.pump()
}

// now is the loop's time, as windows count it.
func (f *feed) now() time.Duration { return f.w.Loop().Now().Sub(f.h.began) }

// Drain implements loop.Drainer.
func (f *feed) Drain(deadline time.Time) (more bool) {
	more = f.runPasses(deadline)
	return f.serveReady(deadline) || more
}

// enqueue lets the subscriptions of a socket go on in the loop's turn.
func (f *feed) enqueue(k outlet) {
	if su := k.subs(); !su.ready && !su.closed {
		su.ready = true
		f.ready = append(f.ready, k)
		f.w.Loop().Ring()
	}
}

// drained tells that a socket has taken everything.
func (f *feed) drained(k outlet) {
	for _, s := range k.subs().list {
		if !s.live || s.owing != nil && s.owing.late {
			f.enqueue(k)
			return
		}
	}
}

// closed ends all subscriptions of a connection without a word (B41, B45).
func (f *feed) closed(k outlet) {
	su := k.subs()
	su.closed = true
	for len(su.list) > 0 {
		f.end(su.list[len(su.list)-1])
	}
	su.asking, su.asked = nil, 0
}

// tick ends those that are behind and whose next event has left the log, though
// their sockets do not drain or nothing is acknowledged (B60).
func (f *feed) tick(now time.Time) {
	evicted := f.h.evicted()
	for i := len(f.behind) - 1; i >= 0; i-- {
		if i >= len(f.behind) {
			continue
		}
		if s := f.behind[i]; s.exact && s.next <= evicted && s.replay == nil && !s.droppable() {
			f.tooSlow(s)
		}
	}
	if len(f.behind) > 0 {
		f.w.Loop().Schedule(&f.sweep, now.Add(sweepInterval))
	}
}

// serveReady lets each socket that is ready go on once, and tells whether some
// have more to do.
func (f *feed) serveReady(deadline time.Time) (more bool) {
	list := f.ready
	f.ready = f.spare[:0]
	for i, k := range list {
		if i > 0 && !f.w.Loop().Now().Before(deadline) {
			f.ready = append(f.ready, list[i:]...)
			break
		}
		k.subs().ready = false
		f.w.Loop().Contain(func() { f.serve(k) })
	}
	f.own.reset()
	clear(list)
	f.spare = list[:0]
	return len(f.ready) > 0
}

// serve lets the subscriptions of one socket go on in turn, until it has taken as
// much as it does at once.
func (f *feed) serve(k outlet) {
	su := k.subs()
	turn := min(su.turn, len(su.list)) // from here on, and then from the start
	f.round = append(append(f.round[:0], su.list[turn:]...), su.list[:turn]...)
	defer clear(f.round)
	more := false
	for _, s := range f.round {
		if su.closed || k.peer().Owes() {
			break
		}
		if su.turn++; su.turn >= len(su.list) {
			su.turn = 0
		}
		more = f.step(s) || more
	}
	switch {
	case su.closed:
	case k.peer().Owes():
		k.peer().NotifyDrained()
	case more:
		f.enqueue(k)
	}
}

// head is the head of an event for a session that nothing caused.
func (f *feed) head(k outlet) aepws.Head {
	return aepws.Head{Now: f.w.Loop().Now(), SessionID: k.session()}
}

// because is the head of an answer.
func (f *feed) because(k outlet, why cause) aepws.Head {
	h := f.head(k)
	h.CausationID, h.CorrelationID = why.id, why.correlation
	return h
}

// maxScratch bounds the scratch that is kept for texts.
const maxScratch = 64 << 10

// say sends a text that was appended to the scratch.
func (f *feed) say(k outlet, text []byte) {
	if f.text = text[:0]; cap(text) > maxScratch {
		f.text = nil
	}
	k.peer().Send(textFrame(text))
}

// textFrame returns a text as one message (B10), in memory of its own.
func textFrame(text []byte) []byte {
	return wsframe.AppendText(make([]byte, 0, wsframe.HeaderLen(len(text))+len(text)), text)
}
