package fanout_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

// walk is how far the checking of a subscription has come.
type walk struct {
	acked, over bool
	next        int             // of named
	session     string          // of all: under way
	live        []*stream.Entry // expected
	at          int             // next of live
	missing     int             // of live, droppable
	inLive      bool
}

// delivery is one event that a peer has received.
type delivery struct {
	sub   *modelSub
	entry *stream.Entry
	end   int // bytes received up to its last
	start int
}

// verifier checks what one peer received, frame by frame, against the model.
type verifier struct {
	m    *model
	c    *modelConn
	held map[*stream.Entry]bool

	bytes     int
	replies   int
	urgents   int
	shed      int
	closing   bool
	livePos   stream.Pos
	liveOrder int
	events    []delivery
}

// verify checks everything that c's peer has received. whole tells that nothing
// is on its way any more.
func (m *model) verify(c *modelConn, held map[*stream.Entry]bool) error {
	v := &verifier{m: m, c: c, held: held}
	for _, s := range c.subs {
		s.walk = walk{}
		for p := s.from; p < min(s.until, stream.Pos(len(m.entries)+1)); p++ {
			if e := m.entries[p-1]; s.selects(e) {
				s.live = append(s.live, e)
			}
		}
	}
	frames, rest, err := simloop.ParseFrames(c.Socket.Received())
	if err != nil {
		return err
	}
	for i, f := range frames {
		if err := v.frame(f); err != nil {
			return fmt.Errorf("frame %d, %s: %w", i, f.Text(), err)
		}
		v.bytes += f.Bytes
	}
	if c.Closed {
		return nil // it may end anywhere
	}
	if len(rest) > 0 {
		return fmt.Errorf("part of a frame at the end: %q", rest)
	}
	return v.end()
}

func (v *verifier) frame(f simloop.Frame) error {
	if v.closing {
		return errors.New("after the last frame")
	}
	switch f.Fields[0] {
	case "subscribed", "unsubscribed", "reply":
		return v.reply(f.Text())
	case "urgent":
		n, err := strconv.Atoi(f.Fields[1])
		if err != nil || n != v.urgents {
			return fmt.Errorf("urgent frame %d expected", v.urgents)
		}
		v.urgents++
		return nil
	case "shed":
		n, err := strconv.Atoi(f.Fields[1])
		v.shed += n
		return err
	case "closing":
		v.closing = true
		return nil
	case "gap":
		return v.gap(f)
	}
	return v.event(f)
}

// reply checks that answers keep their order, and follow what they have to. One
// that waits for the loop and finds the connection lagging gets in between; the
// answers to changes of subscriptions never do.
func (v *verifier) reply(text string) error {
	if v.replies == len(v.c.replies) {
		return errors.New("nothing was asked")
	}
	r := v.c.replies[v.replies]
	v.replies++
	if r.text != text {
		return fmt.Errorf("%s expected", r.text)
	}
	if r.strict && (r.begins != nil || r.ends != nil || v.c.Socket.Short == 0) {
		for _, s := range v.c.subs[:r.subs] {
			if s.abrupt {
				continue
			}
			if e := s.undroppable(r.before); e != nil {
				return fmt.Errorf("R329: before event %s of %v", name(e), s)
			}
		}
	}
	if r.begins != nil {
		r.begins.acked = true
	}
	if r.ends != nil {
		r.ends.over = true
	}
	return nil
}

// undroppable returns the first event before p that is still to come and may
// not be shed.
func (s *modelSub) undroppable(p stream.Pos) *stream.Entry {
	for _, e := range s.live[s.at:] {
		if e.Pos() < p && !e.Droppable {
			return e
		}
	}
	return nil
}

func name(e *stream.Entry) string { return e.Event.(*simloop.Event).Name }

func (v *verifier) event(f simloop.Frame) error {
	id, session, seq, form, ok := f.Event()
	e := v.m.byName[id]
	if !ok || e == nil || e.Session != session || e.Sequence != seq {
		return errors.New("no such event")
	}
	var s *modelSub
	for _, other := range v.c.subs {
		if other.acked && !other.over && other.sub.Form == form {
			s = other
		}
	}
	switch {
	case s == nil:
		return errors.New("no subscription wants it")
	case !s.selects(e):
		return fmt.Errorf("%v does not select it", s)
	case e.Pos() >= s.until && !v.c.finite:
		return fmt.Errorf("%v ended before it", s)
	}
	v.events = append(v.events, delivery{s, e, v.bytes + f.Bytes, v.bytes})
	if e.Pos() < s.from {
		return v.replayed(s, e)
	}
	return v.live(s, e)
}

// live checks an event that came after its subscription: the replay is over,
// events come in ingest order over all subscriptions of the connection, and
// nothing is left out but what may be shed (R192, R193, R420).
func (v *verifier) live(s *modelSub, e *stream.Entry) error {
	if !s.inLive {
		s.inLive = true
		if err := v.replayOver(s); err != nil {
			return fmt.Errorf("live before the end of the replay of %v: %w", s, err)
		}
	}
	if e.Pos() < v.livePos || e.Pos() == v.livePos && s.order <= v.liveOrder {
		return fmt.Errorf("R193: %v: position %d after %d", s, e.Pos(), v.livePos)
	}
	v.livePos, v.liveOrder = e.Pos(), s.order
	for s.at < len(s.live) && s.live[s.at] != e {
		if !s.live[s.at].Droppable {
			return fmt.Errorf("S2: %v: %s is missing before it", s, name(s.live[s.at]))
		}
		s.missing++
		s.at++
	}
	if s.at == len(s.live) {
		return fmt.Errorf("S2: %v: it is repeated or out of order", s)
	}
	s.at++
	return nil
}

// replayed checks an event from before its subscription.
func (v *verifier) replayed(s *modelSub, e *stream.Entry) error {
	if s.inLive {
		return fmt.Errorf("replayed for %v after live events", s)
	}
	o, err := v.turnTo(s, e.Session)
	if err != nil {
		return err
	}
	if e.Sequence.Less(o.cover) {
		return fmt.Errorf("before %v, where the replay went on", o.cover)
	}
	at := slices.Index(o.entries[o.at:], e)
	if at < 0 {
		return fmt.Errorf("S2: %v is not owed it, or not any more", s)
	}
	if err := v.skip(s, o, o.at+at); err != nil {
		return err
	}
	o.at++
	o.begun = true
	return nil
}

// skip passes over entries of o up to place to, which must be excused.
func (v *verifier) skip(s *modelSub, o *owed, to int) error {
	if o.exhausted && !o.marked {
		return fmt.Errorf("R322: no marker for %s of %v", o.session, s)
	}
	for ; o.at < to; o.at++ {
		e := o.entries[o.at]
		gone := s.all != nil && !o.begun && !v.held[e] // before the session's turn
		// Of several events at one position the first may be gone.
		gone = gone || e.Sequence == o.cover && !v.held[e]
		if s.selects(e) && !e.Sequence.Less(o.cover) && !gone {
			return fmt.Errorf("S2: %v: %s is missing, with no marker", s, name(e))
		}
	}
	return nil
}

// turnTo makes session the one under way and returns it: those before it are
// over.
func (v *verifier) turnTo(s *modelSub, session string) (*owed, error) {
	if s.all != nil {
		o := s.all[session]
		if o == nil || o.finished {
			return nil, fmt.Errorf("%v is not owed %s, or not any more", s, session)
		}
		if s.session != "" && s.session != session {
			before := s.all[s.session]
			before.finished = true
			if err := v.skip(s, before, len(before.entries)); err != nil {
				return nil, err
			}
		}
		s.session = session
		return o, nil
	}
	for ; s.next < len(s.named); s.next++ {
		o := s.named[s.next]
		if o.session == session {
			return o, nil
		}
		if err := v.skip(s, o, len(o.entries)); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%v did not ask for %s, or not here", s, session)
}

// replayOver checks that nothing of a replay is missing.
func (v *verifier) replayOver(s *modelSub) error {
	for ; s.next < len(s.named); s.next++ {
		o := s.named[s.next]
		if err := v.skip(s, o, len(o.entries)); err != nil {
			return err
		}
	}
	for _, o := range s.all {
		if err := v.skip(s, o, len(o.entries)); err != nil {
			return err
		}
	}
	return nil
}

// gap checks a marker: something is really gone, and it is said once.
func (v *verifier) gap(f simloop.Frame) error {
	at, err := simloop.ParseSequence(f.Fields[3])
	if err != nil {
		return err
	}
	var s *modelSub
	for _, other := range v.c.subs {
		if other.acked && !other.over && other.sub.ID == f.Fields[1] {
			s = other
		}
	}
	if s == nil || s.inLive {
		return errors.New("no subscription is replaying")
	}
	o, err := v.turnTo(s, f.Fields[2])
	if err != nil {
		return err
	}
	really := o.exhausted && !o.marked && at == o.earliest
	for _, e := range o.entries[o.at:] {
		really = really || !v.held[e] && e.Sequence.Compare(at) <= 0
	}
	if !really {
		return errors.New("R423: nothing is gone")
	}
	o.marked, o.cover = true, at
	return nil
}

// end checks what is true when everything has been delivered.
func (v *verifier) end() error {
	c := v.c
	if c.Reason != 0 {
		return v.endOfCut()
	}
	var atStop []delivery
	for _, d := range v.events {
		if d.start < c.stoppedAt {
			atStop = append(atStop, d)
		}
	}
	switch {
	case c.Member.QueuedBytes() != 0:
		return fmt.Errorf("%d bytes are still owed", c.Member.QueuedBytes())
	case v.replies != len(c.replies):
		return fmt.Errorf("%s was not answered", c.replies[v.replies].text)
	case v.urgents != c.urgents:
		return fmt.Errorf("%d urgent frames of %d", v.urgents, c.urgents)
	case c.stopped:
		if err := compareTexts("R430: delivered when stopped", positionTexts(c.atStop), c.told(atStop)); err != nil {
			return err
		}
	default:
		if err := v.endOfLive(); err != nil {
			return err
		}
		c.Member.StopLive()
	}
	return compareTexts("R430: delivered", positionTexts(c.Member.Delivered()), c.told(v.events))
}

// endOfLive checks that a connection which still lives has got everything.
func (v *verifier) endOfLive() error {
	missing, abrupt := 0, false
	for _, s := range v.c.subs {
		if s.abrupt {
			abrupt = true
			continue
		}
		if err := v.replayOver(s); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
		if e := s.undroppable(never); e != nil {
			return fmt.Errorf("S2: at the end: %v: %s is missing", s, name(e))
		}
		missing += s.missing + len(s.live) - s.at
	}
	if v.c.finite && len(v.c.subs) > 0 && !v.c.Complete {
		return errors.New("R275: the end of the replay was not told")
	}
	if missing > v.shed || missing < v.shed && !abrupt {
		return fmt.Errorf("R424a: %d events are missing, %d told as shed", missing, v.shed)
	}
	return nil
}

// endOfCut checks that a cut had its reason, and that what the peer is told is
// what it has received.
func (v *verifier) endOfCut() error {
	c := v.c
	switch {
	case !v.closing:
		return errors.New("R428: it was cut without a last frame")
	case c.Reason == fanout.CutHard && c.QueuedBytes <= v.m.hard:
		return fmt.Errorf("R422: cut with %d bytes owed", c.QueuedBytes)
	case c.Reason == fanout.CutOverrun && c.oldest <= 1:
		return errors.New("R423: cut while the log held everything")
	case c.Reason == fanout.CutPanic && !v.fragile():
		return errors.New("cut for a panic of others")
	}
	return compareTexts("R430: delivered when cut", positionTexts(c.Delivered), c.told(v.events))
}

// fragile tells whether one of the subscriptions can panic.
func (v *verifier) fragile() bool {
	return slices.ContainsFunc(v.c.subs, func(s *modelSub) bool {
		return strings.Contains(s.sub.Selector.Canonical(), "panic")
	})
}
