package follow

import (
	"slices"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
)

const (
	// maxHeldBytes bounds the live events that wait for the replay of their
	// session.
	maxHeldBytes = 8 << 20
	// clockSlack is by how much an emitter's clock may be behind this one's.
	clockSlack = time.Minute
)

// event is what is looked at in an event's text.
type event struct {
	id        identity
	session   string
	at        point
	sequenced bool // it has a place in a session
}

// parse reads an event. It asks for less than the envelope's rules, so that
// events of a later version pass.
func (f *follower) parse(text []byte) (e event, ok bool) {
	if f.scan.Scan(text) != nil || !f.scan.IsObject() {
		return e, false
	}
	source, _ := f.scan.StringMember("source")
	id, ok := f.scan.StringMember("id")
	if !ok {
		return e, false
	}
	e.id, f.buf = identify(f.buf, source, id)
	e.session, _ = f.scan.StringMember("session")
	seq, ok := f.integer("seq")
	if e.session != "" && ok {
		epoch, _ := f.integer("epoch")
		e.at, e.sequenced = point{epoch, seq}, true
	}
	return e, true
}

// integer returns a member that is an integer of 63 bits (R108, R117).
func (f *follower) integer(name string) (int64, bool) {
	raw, ok := f.scan.RawMember(name)
	if !ok {
		return 0, false
	}
	number, ok := aep.ParseInteger(raw)
	if !ok {
		return 0, false
	}
	n, fits := number.Int64()
	return n, fits && n >= 0
}

// takeLive takes an event of the live connection. One whose session is still
// being caught up with waits.
func (f *follower) takeLive(text []byte) error {
	e, ok := f.parse(text)
	if !ok {
		f.malformed(text)
		return nil
	}
	if !e.sequenced || !f.unsettled(f.tracks.bySession[e.session]) {
		return f.deliver(&e, text)
	}
	if f.heldBytes+len(text) > maxHeldBytes {
		if err := f.releaseLoose(); err != nil {
			return err
		}
		f.loose = true
	}
	if f.loose {
		return f.hand(&e, text)
	}
	f.held = append(f.held, append([]byte(nil), text...))
	f.heldBytes += len(text)
	return nil
}

// unsettled reports whether a session's replay is still due or under way.
func (f *follower) unsettled(t *track) bool {
	if t == nil {
		return f.searching
	}
	return t.waiting > 0 || f.searching && t.born == f.connection
}

// takeReplay takes an event of a replay beside the live connection.
func (f *follower) takeReplay(r *request, text []byte) error {
	e, ok := f.parse(text)
	if !ok {
		f.malformed(text)
		return nil
	}
	if !e.sequenced {
		return nil // not of a buffer (R142, R143)
	}
	switch t := f.tracks.bySession[e.session]; {
	case t != nil && t.waiting == r.index:
		if e.at.compare(t.done) <= 0 {
			t.asked = false
			return nil // of everything, what was seen
		}
	case t != nil && t.born < f.connection, !r.all, !f.searching:
		return nil // another request's
	case !f.owed():
		f.place(&e, e.at) // and from now on it is known
		return nil
	case t == nil && f.late && e.at.seq > 0:
		// It may have begun, and have been trimmed, without a connection; a
		// replay of everything does not say so (R171).
		f.notice(Notice{Kind: Gap, Session: e.session, Epoch: e.at.epoch, Seq: e.at.seq})
	}
	return f.deliver(&e, text)
}

// owed reports whether the event just parsed, of a session without a position,
// is wanted.
func (f *follower) owed() bool {
	if f.o.All || f.restarted || f.blank || f.lostAt.IsZero() {
		return true
	}
	text, _ := f.scan.StringMember("time")
	at, err := time.Parse(time.RFC3339, text)
	return err != nil || !at.Before(f.lostAt.Add(-clockSlack))
}

// deliver hands an event on, unless it was before, and takes note of its place.
func (f *follower) deliver(e *event, text []byte) error {
	if t := f.tracks.bySession[e.session]; e.sequenced && t != nil && t.asked {
		if t.asked = false; f.passedOver(t, e) {
			f.notice(Notice{Kind: Gap, Session: e.session, Epoch: e.at.epoch, Seq: e.at.seq})
			if t.read == nil { // or what is missing may just come later
				f.tracks.skip(t, e.at)
			}
		}
	}
	if err := f.hand(e, text); err != nil {
		return err
	}
	if !e.sequenced {
		return nil
	}
	begin := e.at
	if f.complete && !f.saidForgotten { // or it may be a session that was forgotten
		begin.seq = -1
	}
	f.place(e, begin)
	return nil
}

// passedOver reports whether e, the first event since its session was asked
// for, tells that others are gone where the relay does not: of a position
// before an epoch's first event (R168), and of everything (R171).
func (f *follower) passedOver(t *track, e *event) bool {
	switch {
	case t.read != nil: // a relay with other events, of which the filter may hide some
		return !f.hides && e.at.seq > 0 && !e.at.follows(*t.read) && !f.memory.has(e.id)
	case t.done.seq < 0: // so are those that were seen
		return len(t.above) > 0 && t.above[0].at.compare(e.at) < 0
	}
	return f.fromLimit == 0 && !e.at.follows(t.done)
}

// hand hands an event on, unless it was before.
func (f *follower) hand(e *event, text []byte) error {
	if f.memory.has(e.id) {
		return nil
	}
	if t := f.tracks.bySession[e.session]; t != nil && t.has(e.id) {
		return nil
	}
	if err := f.sink.Event(text); err != nil {
		return err
	}
	f.unflushed, f.dirty, f.progress = true, true, true
	f.memory.add(e.id)
	return nil
}

// place takes note of an event's place in its session, whose position begins at
// begin if it has none yet.
func (f *follower) place(e *event, begin point) {
	f.dirty = true
	if t := f.tracks.bySession[e.session]; t != nil {
		t.read = nil
		f.tracks.advance(t, e.at, e.id)
		return
	}
	t, forgotten := f.tracks.start(e.session, begin, f.connection)
	if t != nil {
		f.tracks.advance(t, e.at, e.id)
	}
	if forgotten && !f.saidForgotten {
		f.saidForgotten = true
		f.notice(Notice{Kind: Forgotten})
	}
}

// settle ends the catching up: what waited is handed on in its order.
func (f *follower) settle() error {
	for _, t := range f.tracks.bySession {
		t.waiting = 0
	}
	f.searching, f.restarted, f.lostAt, f.loose = false, false, time.Time{}, false
	held := f.held
	f.held, f.heldBytes = nil, 0
	for _, text := range held {
		if err := f.takeLive(text); err != nil {
			return err
		}
	}
	return nil
}

// releaseLoose hands on what waits, without taking note of places: what is
// before it has not come yet (F3).
func (f *follower) releaseLoose() error {
	held := f.held
	f.held, f.heldBytes = nil, 0
	for _, text := range held {
		e, ok := f.parse(text)
		if !ok {
			continue
		}
		if err := f.hand(&e, text); err != nil {
			return err
		}
	}
	return nil
}

// leave drops what waits and comes again to the next reader, from the positions
// of the state file: it may be more than the file has identities of.
func (f *follower) leave() {
	f.held = slices.DeleteFunc(f.held, func(text []byte) bool {
		e, ok := f.parse(text)
		return ok && f.tracks.bySession[e.session] != nil
	})
}

// gap tells what is gone, and moves the position past it.
func (f *follower) gap(it *item) {
	t := f.tracks.bySession[it.session]
	if t == nil || t.read == nil || t.read.compare(point{it.at.epoch, it.at.seq - 1}) < 0 {
		f.notice(Notice{Kind: Gap, Session: it.session, Epoch: it.at.epoch, Seq: it.at.seq})
	}
	if t != nil {
		t.read = nil
		f.tracks.skip(t, it.at)
		f.dirty = true
	}
}

func (f *follower) malformed(text []byte) {
	f.notice(Notice{Kind: Malformed, Text: clean(string(text[:min(len(text), maxClean)]))})
}
