package store

import (
	"time"
)

// When FloorAuto raises the counter of a store's first run (S29).
const (
	raiseAfterTime    = 10 * time.Minute
	raiseAfterNumbers = 10_000
)

// Cursors below this keep the plain meaning (S33).
const staleFrom = 1 << 40

// counters is the writer's view of relay_meta and of the open epoch. It is a
// value: a rollback restores an earlier copy.
type counters struct {
	// last is the newest number issued.
	last int64
	// epoch is the start of this run's open epoch; 0: the next number opens one.
	epoch int64
	// floor is what the next epoch starts above.
	floor int64
	// issued counts this run's numbers.
	issued int64
	// raise: FloorAuto has still to raise the counter.
	raise bool
	// total is the sum of owners.stored_bytes; owners is their number.
	total, owners int64
}

// clockFloor is S29's floor.
func clockFloor(t time.Time) int64 { return t.UnixMilli() * 1024 }

// start sets the floor for a run that begins at now.
func (c *counters) start(f Floor, now time.Time) {
	switch {
	case f.Mode == FloorFixed:
		c.floor = f.Number
	case f.Mode == FloorAuto && c.last == 0:
		c.raise = true
	default:
		c.floor = clockFloor(now)
	}
}

// next is the number that the next event gets. It is not issued before take.
func (w *writer) next() (int64, error) {
	c := &w.cur
	if c.raise && (c.issued >= raiseAfterNumbers || w.now().Sub(w.started) >= raiseAfterTime) {
		if err := w.closeEpoch(); err != nil {
			return 0, err
		}
		c.raise = false
		c.floor = clockFloor(w.now())
	}
	if c.epoch == 0 {
		return max(c.last, c.floor) + 1, nil
	}
	return c.last + 1, nil
}

// take issues n, the number that next gave, and opens the epoch if it is the
// first of one (S30).
func (w *writer) take(n int64) error {
	c := &w.cur
	if c.epoch == 0 {
		if err := w.db.Exec("INSERT INTO seq_epochs (start, last, opened_at) VALUES (?, ?, ?)", n, n, w.stamp); err != nil {
			return err
		}
		c.epoch = n
	}
	c.last = n
	c.issued++
	return nil
}

// closeEpoch writes the open epoch's last number and ends it.
func (w *writer) closeEpoch() error {
	if err := w.saveEpoch(); err != nil {
		return err
	}
	w.cur.epoch = 0
	return nil
}

func (w *writer) saveEpoch() error {
	if w.cur.epoch == 0 {
		return nil
	}
	return w.db.Exec("UPDATE seq_epochs SET last = ? WHERE start = ?", w.cur.last, w.cur.epoch)
}
