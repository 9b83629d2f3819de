package device

import (
	"bytes"
	"context"
	"errors"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// maxPushBytes bounds the envelopes of a push; one that is larger goes
	// alone.
	maxPushBytes = 4 << 20
	// sealRun is how many intents are sealed in a transaction.
	sealRun = 1000
	// maxStuck is how many events a relay can refuse by themselves until a push
	// gives up: the others still get there.
	maxStuck = 4
	// maxCompact is how many streams a request names (MAX_STREAMS_PER_COMPACT).
	maxCompact = 1000
)

// sealAll turns pending intents into envelopes (D30), and returns how many. It
// needs no relay.
func (d *Device) sealAll() (sealed int, err error) {
	id, err := d.identity()
	if err != nil {
		return 0, local(err)
	}
	for {
		n, err := d.store.Seal(id.OwnerID, sealRun, func(row devicestore.Row) ([]byte, error) {
			return d.seal(id, row.Key, row.HLC, row.Deleted, row.Data)
		})
		sealed += n
		if errors.Is(err, devicestore.ErrOwnerChanged) {
			return sealed, nil // another process has just re-keyed: batch seals what it sends
		}
		if err != nil || n < sealRun {
			return sealed, local(err)
		}
	}
}

// pushing is one push on its way.
type pushing struct {
	count, bytes int            // of the next batch
	limit        int            // of events in any batch
	stuck        map[string]int // ids of events that are refused by themselves, with their size
	stuckBytes   int
	refusal      error // of the last of these
}

// newPushing begins a push within the limits that are known of the relay.
func (l *link) newPushing() pushing {
	s := pushing{count: l.d.o.PushEvents, bytes: maxPushBytes, stuck: map[string]int{}}
	if l.d.o.Now().Before(l.learned.until) {
		s.count, s.bytes = min(s.count, l.learned.count), min(s.bytes, l.learned.bytes)
	}
	s.limit = s.count
	return s
}

// push brings the relay everything that it is owed (D31). Events that it
// refuses by themselves are left out, and the error tells of the last one.
func (l *link) push(ctx context.Context) error {
	s := l.newPushing()
	for {
		if sealed, err := l.d.sealAll(); err != nil {
			return err
		} else if sealed > 0 {
			l.sealed()
		}
		rel, r, err := l.open()
		if err != nil {
			return err
		}
		owed, err := l.d.store.Owed(l.relay, s.count+len(s.stuck), int64(s.bytes+s.stuckBytes))
		if err != nil {
			return local(err)
		}
		ids, envelopes, err := l.batch(r, owed, &s)
		if err != nil {
			return local(err)
		}
		if len(ids) == 0 {
			return s.refusal
		}
		if err := r.push(ctx, envelopes); err != nil {
			if !l.smaller(err, &s, ids, envelopes) {
				return err
			}
			continue
		}
		if err := l.d.store.Acknowledge(l.relay, rel.Generation, ids); err != nil {
			return local(err)
		}
		l.report.Pushed += int64(len(ids))
		l.tell("push", l.report.Pushed, l.report.Pushed+rel.Owed-int64(len(ids)))
	}
}

// batch returns the envelopes of the next push. What has none, and what was
// sealed for another owner while a re-key came between, is sealed now.
func (l *link) batch(r *remote, owed []devicestore.Pending, s *pushing) (ids []string, envelopes [][]byte, err error) {
	mine := []byte(`"ownerId":"` + r.id.OwnerID + `"`)
	size := 0
	for _, p := range owed {
		if _, stuck := s.stuck[p.ID]; stuck {
			continue
		}
		e := p.Envelope
		if e == nil || !bytes.Contains(e, mine) {
			e, err = l.d.seal(r.id, p.Key, p.ID, p.Deleted, p.Data)
			if errors.Is(err, synccrypt.ErrTooLarge) && len(s.stuck) < maxStuck {
				// Another program's row, which this one cannot seal again.
				s.skip(p.ID, len(p.Data), local(err))
				continue
			}
			if err != nil {
				return nil, nil, err
			}
		}
		if size += len(e); len(ids) > 0 && (size > s.bytes || len(ids) == s.count) {
			break
		}
		ids, envelopes = append(ids, p.ID), append(envelopes, e)
	}
	return ids, envelopes, nil
}

// skip leaves an event out of what follows, for a reason that push returns.
func (s *pushing) skip(id string, size int, reason error) {
	s.stuck[id] = size
	s.stuckBytes += size
	s.refusal = reason
}

// smaller changes the next batch after a refusal that is about its size or one
// of its events, and tells whether trying at once makes sense.
func (l *link) smaller(err error, s *pushing, ids []string, envelopes [][]byte) bool {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		return false
	}
	size := 0
	for _, e := range envelopes {
		size += len(e)
	}
	switch r.Code {
	case "too_many_events", "body_too_large":
		if len(ids) == 1 {
			return false
		}
		s.count, s.bytes = len(ids)/2, max(size/2, 1)
		s.limit = s.count
		l.learned = limits{s.count, s.bytes, l.d.o.Now().Add(limitsFor)}
		return true
	case "event_too_large", "bad_envelope":
		if len(ids) > 1 {
			s.count = len(ids) / 2
			return true
		}
		s.refusal = err
		if len(s.stuck) == maxStuck {
			return false
		}
		s.skip(ids[0], size, err)
		s.count = s.limit
		return true
	}
	return false
}

// compact brings the relay the streams of purged rows (D36). An owner that it
// does not know has none.
func (l *link) compact(ctx context.Context) error {
	limit := maxCompact
	for {
		_, r, err := l.open()
		if err != nil {
			return err
		}
		streams, err := l.d.store.Purges(l.relay, limit)
		if err != nil || len(streams) == 0 {
			return local(err)
		}
		err = r.compact(ctx, streams)
		if f, ok := errors.AsType[*Refusal](err); ok {
			switch {
			case f.Code == "too_many_streams" && len(streams) > 1:
				limit = len(streams) / 2
				continue
			case f.Code == "unknown_owner":
				err = nil
			}
		}
		if err != nil {
			return err
		}
		if err := l.d.store.Purged(l.relay, streams); err != nil {
			return local(err)
		}
		l.tell("compact", int64(len(streams)), 0)
	}
}
