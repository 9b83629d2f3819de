package aepws

import (
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
)

const (
	// lookAnswers is how many answers of the log are worked off between two looks
	// at the clock.
	lookAnswers = 32
	// busyRetry is how often a loop offers the log what it had no room for.
	busyRetry = 20 * time.Millisecond
	// failureLog is how often a loop logs that events are not stored.
	failureLog = time.Second
)

// delivery is the side of a loop that subscriptions are served by.
type delivery interface {
	// subscribe answers with subscription.created or .rejected.
	subscribe(k outlet, req *aepws.FilterRequest, why cause)
	// cancel answers with subscription.cancelled or event.rejected.
	cancel(k outlet, id string, why cause)
	acknowledge(k outlet, ack *aepws.AckRequest)
	reject(k outlet, rej *aepws.RejectRequest)
	// closed ends all subscriptions without a word (B41, B45).
	closed(k outlet)
	// drained tells that the socket has taken everything.
	drained(k outlet)
}

// lane is what the sockets of one loop share. It implements loop.Drainer. Owned
// by its loop, but for answers.
type lane struct {
	// Immutable after construction.
	s    *Surface
	w    *serve.Worker
	feed delivery

	// Owned by the loop.
	scanner  aepws.Scanner
	envelope aepws.Envelope // of the message in hand
	inHand   bool           // answers name the message in hand as their cause
	ids      *aepws.IDs
	author   *aepws.Author
	actions  []action // scratch of step
	buf      []byte   // scratch of an event's text
	said     []byte   // last frames of connections that close by themselves

	answered []*publication // being worked off, from answeredAt on
	answerAt int
	touched  []*socket // have answers to be sent
	waking   []*socket // may go on with their input
	busy     []*publication
	retry    loop.Timer

	failedAt time.Time // when it was last logged that an event was not stored

	answers answers // any goroutine
}

func newLane(s *Surface, w *serve.Worker) *lane {
	l := &lane{s: s, w: w, ids: aepws.NewIDs()}
	l.author = aepws.NewAuthor(s.parts.Name, l.ids)
	l.scanner.Types = s.types
	l.retry.Fire = l.offerBusy
	l.feed = s.hub.addFeed(w)
	w.Loop().AddDrainer(l)
	return l
}

// now is the loop's time, as sessions count it.
func (l *lane) now() time.Duration { return l.w.Loop().Now().Sub(l.s.began) }

// Drain implements loop.Drainer: it hands out the answers of the log, and lets
// sockets go on whose input was held.
func (l *lane) Drain(deadline time.Time) (more bool) {
	if l.answerAt == len(l.answered) {
		clear(l.answered)
		l.answered, l.answerAt = l.answers.take(l.answered[:0]), 0
	}
	for n := 1; l.answerAt < len(l.answered); n++ {
		if n%lookAnswers == 0 && !l.w.Loop().Now().Before(deadline) {
			break
		}
		p := l.answered[l.answerAt]
		l.answerAt++
		l.settle(p)
	}
	for _, k := range l.touched {
		l.w.Loop().Contain(k.sendAnswers)
	}
	clear(l.touched)
	l.touched = l.touched[:0]
	more = l.wake(deadline)
	return more || l.answerAt < len(l.answered)
}

// wake lets sockets go on with their input until deadline, and tells whether
// some are left. It is the only place where input is released, because that must
// not happen inside a message.
func (l *lane) wake(deadline time.Time) (more bool) {
	for i := 0; i < len(l.waking); i++ {
		if i > 0 && !l.w.Loop().Now().Before(deadline) {
			l.waking = append(l.waking[:0], l.waking[i:]...)
			return true
		}
		k := l.waking[i]
		k.waking = false
		if k.holding && !k.overfull() {
			k.holding = false
			l.w.Loop().Contain(k.conn.Release)
		}
	}
	clear(l.waking)
	l.waking = l.waking[:0]
	return false
}
