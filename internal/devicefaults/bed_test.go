package devicefaults

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testdevice"
)

// today is what the devices' clocks say in the beginning.
var today = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// bed is an owner whose devices use one relay behind a front.
type bed struct {
	*front
	phrase string
	owner  *synccrypt.Identity
	ledger *testdevice.Ledger
	fleet  []*testdevice.Device
	now    time.Time
	writes int
}

func newBed(t testing.TB, settings ...string) *bed {
	t.Helper()
	b := &bed{front: newFront(t, settings...), ledger: testdevice.NewLedger(t), now: today}
	b.phrase, b.owner = newOwner(t)
	return b
}

// newOwner returns a fresh phrase and whose it is.
func newOwner(t testing.TB) (string, *synccrypt.Identity) {
	t.Helper()
	phrase, err := synccrypt.NewPhrase(12, rand.Reader)
	must(t, err)
	id, _, err := synccrypt.ParseCredential(phrase)
	must(t, err)
	return phrase, id
}

// device makes a device from the phrase alone, which uses the relay.
func (b *bed) device(name string, o device.Options) *testdevice.Device {
	b.t.Helper()
	d := testdevice.New(b.t, b.phrase, name, b.now, o)
	must(b.t, d.AddRelay(b.url()))
	b.fleet = append(b.fleet, d)
	return d
}

// later lets time pass for all devices.
func (b *bed) later(by time.Duration) {
	b.now = b.now.Add(by)
	for _, d := range b.fleet {
		d.Set(b.now)
	}
}

func key(id string) devicestore.Key { return devicestore.Key{Table: "notes", ID: id} }

// edit is a write of some bytes to a row; no two are the same.
func (b *bed) edit(id string) devicestore.Edit {
	b.writes++
	return devicestore.Edit{Key: key(id), Data: fmt.Appendf(nil, `{"n":%d,"text":"of %s"}`, b.writes, id)}
}

// write has a device write rows.
func (b *bed) write(d *testdevice.Device, ids ...string) []devicestore.Row {
	b.t.Helper()
	list := make([]devicestore.Edit, len(ids))
	for i, id := range ids {
		list[i] = b.edit(id)
	}
	return b.ledger.Wrote(d, list...)
}

// remove has a device delete a row.
func (b *bed) remove(d *testdevice.Device, id string) devicestore.Row {
	b.t.Helper()
	return b.ledger.Wrote(d, devicestore.Edit{Key: key(id)})[0]
}

// sync has devices sync one after the other, which must work.
func (b *bed) sync(devices ...*testdevice.Device) {
	b.t.Helper()
	for _, d := range devices {
		must(b.t, d.Cycle())
	}
}

// same wants devices to hold exactly the winners.
func (b *bed) same(what string, devices ...*testdevice.Device) {
	b.t.Helper()
	for _, d := range devices {
		if diff := b.ledger.Differences(d); diff != "" {
			b.t.Errorf("%s:\n%s", what, diff)
		}
	}
}

// maxRounds bounds the rounds until all devices hold the same (H2).
const maxRounds = 6

// settle lets all devices sync with an honest relay until they hold the
// winners.
func (b *bed) settle() (rounds int) {
	b.t.Helper()
	for rounds = 1; ; rounds++ {
		b.sync(b.fleet...)
		left := ""
		for _, d := range b.fleet {
			left += b.ledger.Differences(d)
		}
		if left == "" {
			return rounds
		}
		if rounds == maxRounds {
			b.t.Fatalf("H2: after %d rounds:\n%s", rounds, left)
		}
	}
}

// startOver has all devices forget the relay and take it up again, as their
// owner would with one that lied.
func (b *bed) startOver() {
	b.t.Helper()
	for _, d := range b.fleet {
		must(b.t, d.RemoveRelay(b.url()))
		must(b.t, d.AddRelay(b.url()))
	}
}

// refused returns how often a device refused something for a reason.
func refused(d *testdevice.Device, reason string) (n int64) {
	for _, relay := range d.State().Relays {
		for _, r := range relay.Refusals {
			if r.Reason == reason {
				n += r.Count
			}
		}
	}
	return n
}

// refusals returns how often a device refused anything.
func refusals(d *testdevice.Device) (n int64) {
	for _, relay := range d.State().Relays {
		for _, r := range relay.Refusals {
			n += r.Count
		}
	}
	return n
}
