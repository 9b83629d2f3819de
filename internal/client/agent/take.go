package agent

import (
	"errors"
	"fmt"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// take reads one message and acts on it.
func (f *follower) take(m message) error {
	if f.cut != "" { // it was not the last of its connection, so not cut
		f.malformed(f.cut)
		f.cut = ""
	}
	if m.faulty != "" {
		f.malformed(m.faulty)
		return nil
	}
	e := &f.s.env
	if err := f.s.scanner.Scan(m.text, e); err != nil {
		// The library gives a message out as whole if the connection is cut in
		// it. Which it was is seen when another one comes, or none.
		f.cut = clean(err.Error())
		return nil
	}
	switch {
	case e.Kind == aepws.KindDomain:
		return f.domain(m.text, e)
	case e.Kind == aepws.KindEventDeadLettered:
		return f.hand(&Event{Text: m.text, Envelope: e})
	}
	return f.control(e)
}

// domain takes a domain event.
func (f *follower) domain(text []byte, e *aepws.Envelope) error {
	if len(e.Faults) > 0 {
		f.malformed(e.Faults[0].Text)
		return nil
	}
	d, err := deliveryOf(text, e)
	if err != nil {
		f.malformed(clean(err.Error()))
		return nil
	}
	if d.Dropped > 0 {
		f.stats.Dropped += d.Dropped
		if f.drops++; told(f.drops) {
			f.sink.Notice(Notice{Kind: Dropped, Count: d.Dropped})
		}
	}
	if d.Mode > aepws.BestEffort {
		f.acks = append(f.acks, acknowledgement{EventID: string(e.ID), Cursor: d.Cursor, SubscriptionID: d.SubscriptionID})
	}
	if d.Sequence <= f.last {
		if f.stats.NotRising++; d.Attempt < 2 && told(f.stats.NotRising) {
			f.sink.Notice(Notice{Kind: NotRising, Text: clean(fmt.Sprintf("%s, which came after number %d", d.Cursor, f.last))})
		}
		return nil
	}
	// Before the sink may end it all: the event is with it either way.
	f.last, f.cursor, f.expiries, f.outage.useful = d.Sequence, d.Cursor, 0, true
	return f.hand(&Event{Text: text, Envelope: e, Delivery: d})
}

// hand hands an event on.
func (f *follower) hand(e *Event) error {
	if err := f.sink.Event(e); err != nil {
		return sinkError{err}
	}
	if f.stats.Events++; f.stats.Events == f.o.Count {
		return errDone
	}
	return nil
}

// control takes a control event.
func (f *follower) control(e *aepws.Envelope) error {
	a := answerOf(e)
	if err := ending(e.Kind, &a); err != nil {
		return err
	}
	mine := f.asked != "" && string(e.CausationID) == f.asked
	switch e.Kind {
	case aepws.KindSubscriptionCreated:
		if mine {
			f.asked = ""
			f.created(&a)
		}
	case aepws.KindSubscriptionRejected:
		return refused(&a)
	case aepws.KindEventRejected:
		if mine {
			return refused(&a)
		}
		f.sink.Notice(Notice{Kind: Told, Text: a.Error.words()})
	case aepws.KindSubscriptionExpired:
		return f.expired(&a)
	case aepws.KindSubscriptionCancelled:
		return errors.New("the relay has cancelled the subscription")
	case aepws.KindEventReplayed:
		f.sink.Notice(Notice{Kind: Replayed, Count: a.Replayed})
	case aepws.KindEventRedelivered:
		if f.stats.Redelivered++; told(f.stats.Redelivered) {
			f.sink.Notice(Notice{Kind: Redelivered, Text: clean(fmt.Sprintf("%s, attempt %d", a.Original, a.Attempt))})
		}
	case aepws.KindUnknownControl:
		f.sink.Notice(Notice{Kind: Told, Text: clean(string(e.Type))})
	}
	return nil
}

// refused returns the error of a subscription that is rejected.
func refused(a *answer) error {
	if a.Error.Retryable {
		return errors.New("the relay says " + a.Error.words())
	}
	return &Refusal{Name: clean(joined(a.Error.Code, a.Error.Details.Reason)), Text: clean(a.Error.Message)}
}

// created takes what a cursor has got (B51). A log that does not know the cursor
// may be another one, whose numbers begin anew.
func (f *follower) created(a *answer) {
	if a.Replay.Status != "gap" {
		return
	}
	f.stats.Gaps++
	text := a.Replay.Reason
	if a.Replay.OldestCursor != "" {
		text = joined(text, "the oldest held is "+a.Replay.OldestCursor)
	}
	if text == "" {
		text = "they are not held any more"
	}
	f.sink.Notice(Notice{Kind: Gap, Text: clean(text)})
	switch a.Replay.Reason {
	case aepws.ReasonCursorUnknown, aepws.ReasonCursorInFuture:
		f.last = 0
	}
}

// expired takes the end of a subscription, and subscribes again behind what the
// relay names as the last, if that is further: between the two was nothing that
// matches.
func (f *follower) expired(a *answer) error {
	text := a.Error.words()
	if text == "" {
		text = "it came to its time"
	}
	if f.expiries++; f.expiries > maxExpiries {
		return errors.New("the subscription expires again and again: " + text)
	}
	f.sink.Notice(Notice{Kind: Expired, Text: text})
	if last := a.Error.Details.LastCursor; numberOf(last) > f.last {
		f.cursor, f.last = last, numberOf(last)
	}
	return f.subscribe()
}

func (f *follower) malformed(text string) {
	if f.stats.Malformed++; told(f.stats.Malformed) {
		f.sink.Notice(Notice{Kind: Malformed, Text: text})
	}
}
