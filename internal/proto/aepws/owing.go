package aepws

import (
	"bytes"
	"errors"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// owing is what a subscription was sent and has to acknowledge (B58). It comes
// with the first such event. Owned by the loop.
type owing struct {
	window *window
	late   bool    // something is due: as soon as the socket has room
	again  overdue // is being sent again; number 0: nothing
	letter bool    // the event of a dead letter is being read
}

// room returns how many events that have to be acknowledged the session may be
// sent (B60).
func (s *sub) room() int {
	b := s.k.inflight()
	return b.plan.unacked - b.used
}

// note notes the frames that a subscription was sent.
func (f *feed) note(s *sub, marks []mark) {
	now := f.now()
	for i := range marks {
		m := &marks[i]
		if m.mode == aepws.BestEffort {
			continue
		}
		if s.owing == nil {
			s.owing = &owing{window: newWindow(s.k.inflight())}
		}
		w := s.owing.window
		if err := w.sent(m.e.number, m.e.key, now); err != nil {
			continue // it cannot be: there was room, and numbers ascend
		}
		if w.count == 1 && (s.timer == nil || !s.timer.Scheduled() || !s.expires.IsZero()) {
			f.arm(s)
		}
	}
}

// acknowledge takes event.acknowledged of a subscriber (B58, B59).
func (f *feed) acknowledge(k outlet, ack *aepws.AckRequest) {
	number := int64(0)
	if ack.HasCursor && bytes.Equal(ack.CursorID, ack.EventID) {
		number = ack.CursorSequence
	}
	key, freed := keyOf(ack.EventID), false
	for _, s := range k.subs().list {
		if s.owing != nil && s.takes(ack.SubscriptionID) {
			freed = s.owing.window.ack(key, number) || freed
		}
	}
	f.freed(k, freed)
}

// takes tells whether an acknowledgement that names a subscription is for s;
// nil names all.
func (s *sub) takes(id []byte) bool { return id == nil || string(id) == s.group.key.id }

// freed lets the subscriptions go on that had no room.
func (f *feed) freed(k outlet, freed bool) {
	su := k.subs()
	if !freed || su.behind == 0 {
		return
	}
	for _, s := range su.list {
		s.paused = false
	}
	f.enqueue(k)
}

// reject takes event.rejected of a subscriber, which is final (B58).
func (f *feed) reject(k outlet, rej *aepws.RejectRequest) {
	if rej.EventID == nil {
		return
	}
	key, freed := keyOf(rej.EventID), false
	for _, s := range k.subs().list {
		if s.owing == nil || !s.takes(rej.SubscriptionID) {
			continue
		}
		o, found, made := s.owing.window.reject(key, 0, f.now())
		freed = freed || found
		switch {
		case made:
			why := aepws.Error{Code: aepws.SubscriptionError, Message: "the subscriber has rejected the event"}
			f.deadLetter(s, o, letterCause{why, bytes.Clone(rej.Error)})
		case found:
			f.h.counts.unmade.Add(1)
		}
	}
	f.freed(k, freed)
}

// stepOwing sends the next event again that was not acknowledged, or gives it up,
// and tells whether there may be more.
func (f *feed) stepOwing(s *sub) (more bool) {
	o := s.owing
	if o.again.number == 0 {
		count, unmade := o.window.count, o.window.unmade
		f.due = o.window.due(f.now(), f.due[:0])
		f.h.counts.unmade.Add(int64(o.window.unmade - unmade))
		f.freed(s.k, o.window.count < count)
		if len(f.due) == 0 {
			o.late = false
			f.arm(s)
			return false
		}
		if f.due[0].dead {
			why := aepws.Error{Code: aepws.SubscriptionError, Message: "the event was not acknowledged", Reason: aepws.ReasonMaxAttempts}
			f.deadLetter(s, f.due[0], letterCause{why: why})
			return true
		}
		o.again = f.due[0]
	}
	number := o.again.number
	if number <= f.h.evicted() {
		f.tooSlow(s)
		return false
	}
	if e := f.h.tail.at(number); e != nil {
		f.sendAgain(s, e)
		return true
	}
	if !s.reading {
		f.readAgain(s, number)
	}
	return false
}

// readAgain reads an event from the log that is to be sent again.
func (f *feed) readAgain(s *sub, number int64) {
	s.reading = true
	f.read(read{
		wanted: func() bool { return !s.ended },
		work: func() func() {
			page, err := f.h.page(number-1, 1)
			return func() { f.gotAgain(s, number, page, err) }
		},
	})
}

func (f *feed) gotAgain(s *sub, number int64, page []*entry, err error) {
	if s.ended {
		return
	}
	s.reading = false
	switch {
	case errors.Is(err, eventlog.ErrEvicted):
		f.tooSlow(s)
		return
	case err != nil:
		f.fail(s)
		return
	case !s.peer.Owes() && s.owing.again.number == number:
		f.sendAgain(s, page[0])
	}
	f.enqueue(s.k)
}

// sendAgain sends an event again, unless it was acknowledged meanwhile. The
// socket owes nothing.
func (f *feed) sendAgain(s *sub, e *entry) {
	o, id := s.owing, s.group.key.id
	attempt := o.again.attempt
	o.again = overdue{}
	if o.window.find(e.key, e.number) == 0 {
		return
	}
	if e.expired(f.w.Loop().Now()) { // B61
		f.freed(s.k, o.window.ack(e.key, e.number))
		return
	}
	f.say(s.k, s.k.author().AppendRedelivered(f.text[:0], f.head(s.k), e.id, attempt, id))
	d := aepws.Delivery{
		Mode: aepws.Effective(e.mode, s.group.key.wish), Sequence: e.number, ID: e.id,
		SubscriptionID: id, Attempt: attempt,
	}
	s.peer.Send(aepws.AppendDeliveryFrame(make([]byte, 0, len(e.text)+len(e.id)+len(id)+frameBytes), e.text, &d))
	f.h.counts.redelivered.Add(1)
	f.h.counts.delivered.Add(1)
}

// letterCause is why an event was given up; client is the subscriber's error, as
// sent, if it gave one.
type letterCause struct {
	why    aepws.Error
	client []byte
}

// deadLetter makes a dead letter of an event that a subscription has rejected or
// not acknowledged. One whose event has left the log, or for which the relay has
// no time, is only counted.
func (f *feed) deadLetter(s *sub, o overdue, why letterCause) {
	if e := f.h.tail.at(o.number); e != nil {
		f.writeLetter(s, e, o, why)
		return
	}
	if s.owing.letter {
		f.h.counts.unmade.Add(1)
		return
	}
	s.owing.letter = true
	f.read(read{
		wanted: func() bool { return true },
		work: func() func() {
			page, err := f.h.page(o.number-1, 1)
			return func() {
				s.owing.letter = false
				if err != nil {
					f.h.counts.unmade.Add(1)
					return
				}
				f.writeLetter(s, page[0], o, why)
			}
		},
	})
}

// writeLetter writes a dead letter and stores it.
func (f *feed) writeLetter(s *sub, e *entry, o overdue, why letterCause) {
	author, tenant := s.k.author(), s.k.tenant()
	d := aepws.DeadLetter{
		EventID: e.id, SubscriptionID: s.group.key.id, Target: e.attributes.Target,
		Attempts: o.attempt, LastAttemptAt: f.h.began.Add(o.sentAt),
		LastError: why.why, ClientError: why.client,
		Original: aepws.AppendOriginal(nil, e.text, e.mode),
	}
	text := author.AppendDeadLettered(nil, aepws.Head{Now: f.w.Loop().Now(), TenantID: tenant}, &d)
	f.h.keepLetter(eventlog.DeadLetter{
		Tenant: tenant, ID: letterID(text), Original: e.id, OriginalSeq: e.number,
		Subscription: d.SubscriptionID, Text: text,
	})
}

// letterID returns the id of an event that an author wrote.
func letterID(text []byte) string {
	_, rest, _ := bytes.Cut(text, []byte(`"id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}

// maxUnheard bounds what a socket may owe and still be sent a dead letter: they
// are in no log, so that nobody could read them later.
const maxUnheard = 256 << 10

// hearLetter sends a dead letter to those of a tenant that name such (B58).
func (f *feed) hearLetter(tenant string, frame []byte) {
	for _, s := range f.named[tenant] {
		if s.replay != nil || s.peer.QueuedBytes() > maxUnheard {
			f.h.counts.unheard.Add(1)
			continue
		}
		s.peer.Send(frame)
	}
}
