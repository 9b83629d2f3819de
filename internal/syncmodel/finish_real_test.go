package syncmodel

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testdevice"
)

// maxRealRounds bounds the rounds after which all devices hold the same: told
// of a loss and re-seeded; pulled what others re-seeded; what a restored relay
// had acknowledged and lost pushed again and pulled; one to spare (R1).
const maxRealRounds = 6

// finish ends all faults and wants convergence without excuses. It returns how
// many rounds that took.
func (r *realRun) finish() (rounds int) {
	for _, relay := range r.relays {
		if !relay.running {
			relay.start()
		} else if relay.refuse {
			r.net.transport.CloseIdleConnections()
			relay.restart()
		}
		relay.running, relay.refuse = true, false
	}
	// Above every clock that was ever believed in, so that nothing is deferred.
	r.now = r.now.Add(3 * time.Hour)
	for _, d := range r.fleet {
		d.Skew = 0
		d.Set(r.now)
	}
	for rounds = 1; ; rounds++ {
		for _, d := range r.fleet {
			r.sync(d)
		}
		left := r.left()
		if left == "" {
			break
		}
		if r.t.Failed() || rounds == maxRealRounds {
			r.t.Fatalf("R1: after %d rounds:\n%s", rounds, left)
		}
	}
	for _, relay := range r.relays {
		r.holdsWinners(relay)
	}
	r.reseedsBounded()
	return rounds
}

// left tells what is still to be done: rows that are not the winners, and what
// the devices themselves know to be owed.
func (r *realRun) left() (left string) {
	for _, d := range r.fleet {
		if lines := r.ledger.Differences(d); lines != "" {
			left += lines + "\n"
		}
		st := d.State()
		if st.Pending > 0 || st.Deferred > 0 {
			left += fmt.Sprintf("%s: %d pending, %d deferred\n", d.Name, st.Pending, st.Deferred)
		}
		for _, relay := range st.Relays {
			if relay.Owed > 0 || relay.Unseen > 0 {
				left += fmt.Sprintf("%s at %s: %d owed, %d not seen back\n", d.Name, relay.URL, relay.Owed, relay.Unseen)
			}
		}
	}
	return left
}

// holdsWinners wants a relay to have the winner of each row, and once it is
// compacted nothing else; all of it opens (R3).
func (r *realRun) holdsWinners(relay *realRelay) {
	relay.compactAll()
	a := &account{site: relay.site, owner: r.owner.OwnerID, token: r.owner.RelayAuth}
	want := r.ledger.Winners()
	got := map[devicestore.Key]string{}
	for cursor := ""; len(want) > 0; {
		events, next := a.pull("&after=" + cursor)
		for _, e := range events {
			p, h, _, err := r.owner.OpenPayload([]byte(e))
			if err != nil {
				r.t.Fatalf("R3: %s has %s: %v", relay.host, e, err)
			}
			key := devicestore.Key{Table: p.Table, ID: p.ID}
			w, written := r.ledger.At(key, h.EventID)
			if p.Deleted != w.Deleted || string(p.Row) != string(w.Data) || !written {
				r.t.Errorf("R2: %s has %s of %v, written was %s", relay.host, p.Row, h, testdevice.Text(w))
			}
			if was := got[key]; was != "" {
				r.t.Errorf("R3: %s has %s and %s of %v", relay.host, was, h.EventID, key)
			}
			got[key] = h.EventID
		}
		if next == cursor || len(events) == 0 {
			break
		}
		cursor = next
	}
	for key, w := range want {
		if got[key] != w.HLC {
			r.t.Errorf("R3: %s has %q, want %s", relay.host, got[key], testdevice.Text(w))
		}
	}
}

// reseedsBounded: a device re-seeds a relay at most once for each time it lost
// history (R4).
func (r *realRun) reseedsBounded() {
	for _, d := range r.fleet {
		st := d.State()
		if len(st.Relays) != len(r.relays) {
			r.t.Fatalf("%s: %d relays, want %d", d.Name, len(st.Relays), len(r.relays))
		}
		for _, relay := range st.Relays {
			i := slices.IndexFunc(r.relays, func(known *realRelay) bool { return known.url() == relay.URL })
			if i < 0 {
				r.t.Fatalf("%s: unknown relay %s", d.Name, relay.URL)
			}
			if losses := r.relays[i].losses; relay.Reseeds > losses {
				r.t.Errorf("R4: %s: %s was re-seeded %d times, and lost history %d times", d.Name, relay.URL, relay.Reseeds, losses)
			}
		}
	}
}
