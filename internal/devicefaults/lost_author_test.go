package devicefaults

import (
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/device"
)

// TestDeferredOutlivesRelay: D20, D31 and D35: what a device keeps for later is
// all that is left of an event whose author's disk died and whose relay was
// wiped: once it is due the relay gets it too, and a new device finds it there.
func TestDeferredOutlivesRelay(t *testing.T) {
	for name, o := range map[string]device.Options{"future": {}, "newer schema": {SchemaVersion: 2}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "SEQ_FLOOR=clock")
			author, keeper := b.device("author", o), b.device("keeper", device.Options{})
			b.write(keeper, "row", "other")
			b.settle()
			if name == "future" {
				author.Skew = time.Hour
			}
			b.later(time.Second)
			b.write(author, "row", "new")
			b.sync(author, keeper)
			if n := keeper.State().Deferred; n != 2 {
				t.Fatalf("%d deferred", n)
			}
			must(t, author.Close())
			b.fleet = b.fleet[1:]
			b.wipe()
			b.sync(keeper)
			b.later(2 * time.Hour)
			keeper.Reopen(o)
			b.sync(keeper) // it applies what is due, and then pushes it
			b.same("the keeper", keeper)
			if st := keeper.State().Relays[0]; st.Owed != 0 || st.Unseen != 0 || refusals(keeper) != 0 {
				t.Errorf("%+v", st)
			}
			fresh := b.device("fresh", o)
			b.sync(fresh)
			b.same("a device from the phrase alone", fresh)
		})
	}
}
