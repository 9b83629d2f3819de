package devicestore

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
)

// Defer tells why an event is not applied yet.
type Defer uint8

// What becomes of an event.
const (
	// Apply: it is known and not from the future.
	Apply Defer = iota
	// Future: it is more than MaxAhead ahead of wall time (D20).
	Future
	// Unknown: this version does not know its form or its schema.
	Unknown
)

// Event is one that was opened and is authentic. Its slices are borrowed until
// the method returns. Key, Deleted and Data are of an event to be applied;
// Plain is kept of one that is deferred, and Schema is the version that it
// needs.
type Event struct {
	ID string // its HLC (D12)
	Key
	Deleted bool
	Data    []byte
	Defer   Defer
	Schema  int
	Plain   []byte
}

// Page is an answer to a pull from After.
type Page struct {
	After, Next string
	Generation  int64
	Events      []Event
	Refused     []Refusal
}

// Applied is what a page came to.
type Applied struct {
	New      int  // events that were not in the seen set
	Rows     int  // of these, those that changed a row
	Deferred int  // of these, those that were deferred
	Seen     int  // events that were in the seen set
	Stale    bool // cursor or generation are not those of the page any more: nothing was changed
}

func (e *Event) examine(now time.Time) (ahead bool, err error) {
	h, err := synccrypt.ParseHLC(e.ID)
	if err != nil {
		return false, fmt.Errorf("%w: event id: %w", ErrInvalid, err)
	}
	ahead = h.Millis-now.UnixMilli() > MaxAhead.Milliseconds()
	switch {
	case e.Defer > Unknown:
		return false, fmt.Errorf("%w: event %s is deferred for reason %d", ErrInvalid, e.ID, e.Defer)
	case e.Defer != Apply && (len(e.Plain) == 0 || e.Schema < 0):
		return false, fmt.Errorf("%w: deferred event %s of %d bytes, schema %d", ErrInvalid, e.ID, len(e.Plain), e.Schema)
	case e.Defer != Apply:
		return ahead, nil
	case ahead: // or a local write of the row would be older than it
		return false, fmt.Errorf("%w: event %s is of the future", ErrInvalid, e.ID)
	case e.Deleted != (e.Data == nil):
		return false, fmt.Errorf("%w: event %s has a row and deletes it, or none", ErrInvalid, e.ID)
	}
	return false, e.Key.check()
}

var errStale = errors.New("stale")

// ApplyPage applies a page and stores its cursor, in one transaction (D32), if
// the relay's cursor and generation still are the page's. Events in the seen
// set are skipped; of the others those are applied that are newer than their
// row (V6), and the clock absorbs those that are not ahead (D20). What the
// relay gave it needs not get. Errors: ErrDeferredFull, ErrInvalid, ErrNoRelay.
func (s *Store) ApplyPage(id int64, p Page, now time.Time) (Applied, error) {
	if len(p.Events) > MaxPageEvents || len(p.Refused) > MaxPageEvents || len(p.Next) > MaxCursorBytes {
		return Applied{}, fmt.Errorf("%w: page of %d events and %d refusals, cursor of %d bytes",
			ErrInvalid, len(p.Events), len(p.Refused), len(p.Next))
	}
	var a Applied
	err := s.write(func(t *tx) error {
		l, err := t.lane(id)
		if err != nil {
			return err
		}
		if l.cursor != p.After || l.generation != p.Generation {
			return errStale
		}
		in := intake{tx: t, opt: &s.opt, lane: l, now: now, sum: &a}
		if err := errors.Join(in.floor(), in.lookAhead(p.Events)); err != nil {
			return err
		}
		for i := range p.Events {
			if err := in.take(&p.Events[i]); err != nil {
				return err
			}
		}
		if err := in.remember(); err != nil {
			return err
		}
		l.cursor = p.Next
		return t.refuse(id, now, p.Refused)
	})
	if errors.Is(err, errStale) {
		return Applied{Stale: true}, nil
	}
	if err != nil {
		return Applied{}, err
	}
	return a, nil
}

// intake is a page on its way in.
type intake struct {
	*tx
	opt    *Options
	lane   *lane
	now    time.Time
	sum    *Applied
	late   bool             // the relay is to get what is deferred, unless it gives it
	lowest string           // of a full seen set: what is lower would not stay in it
	had    map[string]bool  // ids of the page that are in the seen set, or will be
	fresh  []string         // of these, those that will be
	owed   map[string]entry // what the relay gives back of what it was owed
}

// floor reads what all events of the page are held to.
func (in *intake) floor() error {
	n, err := in.Int("SELECT EXISTS (SELECT 1 FROM owed_later WHERE relay = ?)", in.lane.id)
	if err != nil {
		return err
	}
	in.late = n > 0
	if in.seen < int64(in.opt.SeenMax) {
		return nil
	}
	return in.Row("SELECT coalesce(min(hlc), '') FROM seen", nil, &in.lowest)
}

func (in *intake) take(e *Event) error {
	ahead, err := e.examine(in.now)
	if err != nil {
		return err
	}
	if owed, found := in.owed[e.ID]; found {
		if err := in.settle(owed); err != nil { // the relay has it (V5)
			return err
		}
	}
	if in.late { // the relay has it, and needs not get it when it is due
		if err := in.Exec("DELETE FROM owed_later WHERE relay = ? AND hlc = ?", in.lane.id, e.ID); err != nil {
			return err
		}
	}
	if in.had[e.ID] {
		in.sum.Seen++
		return nil
	}
	if e.ID >= in.lowest {
		in.had[e.ID] = true
		in.fresh = append(in.fresh, e.ID)
	}
	in.sum.New++
	if !ahead {
		in.absorb(e.ID)
	}
	if e.Defer != Apply {
		return in.postpone(e)
	}
	applied, err := in.apply(e, in.lane.id)
	if applied {
		in.sum.Rows++
	}
	return err
}

// apply makes the event the row unless that is newer, or it (V6). from is the
// relay that gave it, 0 for one not known.
func (t *tx) apply(e *Event, from int64) (bool, error) {
	old, err := t.current(e.Key)
	if err != nil || old.HLC >= e.ID {
		return false, err
	}
	r := Row{Key: e.Key, HLC: e.ID, Deleted: e.Deleted, Data: e.Data}
	if err := t.put(old, &r); err != nil {
		return false, err
	}
	return true, t.supersede(old.Change, &r, from)
}
