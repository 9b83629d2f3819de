package store

import (
	"fmt"
	"strings"
	"unsafe"
)

// pushRequest is S18 to S25 from the store's side.
type pushRequest struct {
	Push
	done   func(PushResult, error)
	result PushResult
	added  int64
	head   int64 // the newest number it took
	compactOnce
}

// compactable is a request that ErrQuota refuses only after a compaction of
// its owner (S23a).
type compactable interface {
	owner() string
	// mayCompact is true once.
	mayCompact() bool
}

// compactOnce is the mayCompact of a compactable.
type compactOnce struct{ compacted bool }

func (c *compactOnce) mayCompact() bool {
	first := !c.compacted
	c.compacted = true
	return first
}

func (p *pushRequest) owner() string { return p.Owner }

func (p *pushRequest) bytes() int64 { return p.Bytes }

func (p *pushRequest) apply(w *writer) (bool, error) {
	p.result, p.added = PushResult{}, 0
	a, err := w.admit(p.Auth)
	if err != nil || p.Events == nil {
		return false, err
	}
	var streams int64
	seen := make(map[string]struct{})
	for e, err := range p.Events {
		if err != nil {
			return false, fmt.Errorf("store: reading a push: %w", err)
		}
		stored, err := p.insert(w, &e)
		if err != nil {
			return false, err
		}
		if !stored {
			p.result.Duplicate++
			continue
		}
		p.result.Accepted++
		p.added += int64(len(e.Envelope))
		if err := w.room(&a, p.added); err != nil {
			return false, err
		}
		isNew, err := w.newStream(p.Owner, &e, seen)
		if err != nil {
			return false, err
		}
		if isNew {
			streams++
		}
	}
	if p.result.Accepted == 0 {
		return false, nil
	}
	w.cur.total += p.added
	w.pages += 4 + 2*int64(p.result.Accepted) + p.added/4096
	return false, w.db.Exec(`UPDATE owners SET stored_bytes = stored_bytes + ?,
		event_count = event_count + ?, stream_count = stream_count + ? WHERE owner_id = ?`,
		p.added, p.result.Accepted, streams, p.Owner)
}

// insert stores one event under the next number, or finds it stored (S22): the
// unique index decides, within the request too.
func (p *pushRequest) insert(w *writer, e *Event) (stored bool, err error) {
	n, err := w.next()
	if err != nil {
		return false, err
	}
	var stream any
	if e.Stream != "" {
		stream = e.Stream
	}
	changed, err := w.db.Change(`INSERT INTO events
		(seq, owner_id, event_id, stream_id, bytes, envelope, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner_id, event_id) DO NOTHING`,
		n, p.Owner, e.ID, stream, len(e.Envelope), lent(e.Envelope), w.stamp)
	if err != nil || changed == 0 {
		return false, err
	}
	p.head = n
	return true, w.take(n)
}

// newStream tells whether the event just stored is the only one of its stream.
func (w *writer) newStream(owner string, e *Event, seen map[string]struct{}) (bool, error) {
	if e.Stream == "" {
		return false, nil
	}
	if _, ok := seen[e.Stream]; ok {
		return false, nil
	}
	seen[strings.Clone(e.Stream)] = struct{}{}
	others, err := w.db.Int(`SELECT EXISTS (SELECT 1 FROM events INDEXED BY events_stream
		WHERE owner_id = ? AND stream_id = ? AND event_id <> ?)`, owner, e.Stream, e.ID)
	return others == 0, err
}

// lent is b as text without a copy; SQLite copies it while binding.
func lent(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (p *pushRequest) committed(w *writer) {
	w.s.stats.pushed(p.result, p.added)
	if p.result.Accepted > 0 {
		delete(w.dense, p.Owner)
		w.notify(Notice{Owner: p.Owner, Head: p.head})
	}
}

func (p *pushRequest) answer(_ *writer, err error) {
	if err != nil {
		p.result = PushResult{}
	}
	p.done(p.result, err)
}

func (w *writer) notify(n Notice) {
	if w.s.cfg.Notify != nil {
		w.s.cfg.Notify(n)
	}
}
