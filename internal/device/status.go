package device

import (
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// States of a relay, as people are told them.
const (
	StateSynced     = "synced"      // it has everything, as far as we know
	StatePending    = "pending"     // it is owed something, has not given it back yet, or was never asked
	StateBackingOff = "backing off" // pushes or pulls wait, see the lanes
	StateReseeding  = "reseeding"   // it lost the owner and gets every row anew (D35)
	StateClosed     = "closed"      // it has closed the owner: re-key (D34)
)

// RelayStatus is how it stands with one relay.
type RelayStatus struct {
	URL, State string
	// Owed is how many events are to be pushed, Unseen how many of those it
	// took have not come back in a pull, Blobs how many blobs it is owed.
	Owed, Unseen, Blobs int64
	// Push and Pull are the back-offs of both lanes; one that is over has a
	// time that is past.
	Push, Pull devicestore.Lane
	// BlobPause is the back-off of the blobs alone, of a relay that has no room
	// for them.
	BlobPause devicestore.Lane
	// SyncedAt is when both sides were equal last, zero for never. Reseeds
	// counts how often it was owed every row anew.
	SyncedAt time.Time
	Reseeds  int
	// UsedBytes and QuotaBytes are what it told last, 0 for nothing.
	UsedBytes, QuotaBytes int64
	// Refusals are what of it was not believed, by reason.
	Refusals []devicestore.Count
}

// Status is how it stands with a device. It holds no secret.
type Status struct {
	Owner, Device    string
	Rows, Tombstones int64
	// Pending is how many events some relay has not given back yet.
	Pending int64
	// Deferred is how many events wait for their time or for a newer program;
	// NextDue is when the first may be applied, zero when none waits for a time.
	Deferred int64
	NextDue  time.Time
	Relays   []RelayStatus
}

// Status reads how it stands from the database alone; no relay is asked. Any
// goroutine and any process may do so.
func (d *Device) Status() (Status, error) {
	owner, err := d.store.Owner()
	if err != nil {
		return Status{}, err
	}
	stats, err := d.store.Stats()
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Owner: owner, Device: d.store.Device(), Rows: stats.Rows, Tombstones: stats.Tombstones,
		Pending: stats.Outbox, Deferred: stats.Deferred,
	}
	if due, some, err := d.store.NextDue(); err != nil {
		return Status{}, err
	} else if some {
		s.NextDue = due
	}
	relays, err := d.store.Relays()
	if err != nil {
		return Status{}, err
	}
	refusals, err := d.store.Refusals()
	if err != nil {
		return Status{}, err
	}
	for _, rel := range relays {
		r := RelayStatus{
			URL: rel.URL, State: d.state(rel), Owed: rel.Owed, Unseen: rel.Unseen, Blobs: rel.Blobs,
			Push: rel.Push, Pull: rel.Pull, BlobPause: d.blobLane(rel.ID), SyncedAt: rel.SyncedAt, Reseeds: rel.Reseeds,
			UsedBytes: rel.UsedBytes, QuotaBytes: rel.QuotaBytes,
		}
		for _, c := range refusals {
			if c.Relay == rel.ID {
				r.Refusals = append(r.Refusals, c)
			}
		}
		s.Relays = append(s.Relays, r)
	}
	return s, nil
}

// state puts what matters most first.
func (d *Device) state(rel devicestore.Relay) string {
	switch {
	case rel.Closed:
		return StateClosed
	case d.remaining(rel.Push.Until) > 0, d.remaining(rel.Pull.Until) > 0:
		return StateBackingOff
	case rel.Reseeding:
		return StateReseeding
	case rel.Owed > 0, rel.Unseen > 0, rel.Blobs > 0, rel.SyncedAt.IsZero():
		return StatePending
	}
	return StateSynced
}
