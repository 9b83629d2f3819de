package syncmodel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	real "github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testdevice"
)

// realRun is one run of the model on real devices.
type realRun struct {
	t        *testing.T
	seed     uint64
	own      bool // relays in processes of their own
	phrase   string
	owner    *synccrypt.Identity
	net      *internet
	relays   []*realRelay // whose sites are used, removed ones not
	named    int          // counts sites
	devices  int          // counts devices
	replaced bool         // one has lost its disk
	fleet    []*testdevice.Device
	ledger   *testdevice.Ledger
	now      time.Time // the true time
	step     int
	syncs    int
	writes   int
	failures int // syncs that failed while a relay was not well
	log      []string
}

// realRelay is a site as the model sees it.
type realRelay struct {
	*site
	host    string
	clock   bool // numbers from the clock: it may be restored (S29)
	running bool
	refuse  bool // writes are disabled
	copies  []string
	losses  int
}

func (r *realRelay) url() string { return "http://" + r.host }

// TestRealModel: R1 to R4 with relays in this process.
func TestRealModel(t *testing.T) { realModels(t, scale(6, 2), 90, false) }

// TestRealModelKill is TestRealModel with relays that end by SIGKILL too.
func TestRealModelKill(t *testing.T) { realModels(t, scale(3, 1), 60, true) }

func realModels(t *testing.T, seeds, steps int, own bool) {
	if *seedsFlag > 0 {
		seeds = *seedsFlag
	}
	first := *seedFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range seeds {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Logf("seed %d, repeat with -syncmodel.seed", seed)
			r := newRealRun(t, seed, own)
			defer r.tellOnFailure()
			for r.step = range steps {
				r.act(r.rand(uint64(r.step)))
			}
			rounds := r.finish()
			t.Logf("%d devices, %d relays, %d syncs (%d failed), %d rows, %d rounds",
				r.devices, r.named, r.syncs, r.failures, r.ledger.Len(), rounds)
		})
	}
}

// rand is a step's source, as in the other model.
func (r *realRun) rand(step uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, step)) }

// tell keeps what happened, for a run that fails.
func (r *realRun) tell(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf("%3d ", r.step)+fmt.Sprintf(format, args...))
}

func (r *realRun) tellOnFailure() {
	if r.t.Failed() {
		r.t.Logf("what happened:\n%s", strings.Join(r.log, "\n"))
	}
}

func newRealRun(t *testing.T, seed uint64, own bool) *realRun {
	r := &realRun{
		t: t, seed: seed, own: own, net: newInternet(), ledger: testdevice.NewLedger(t),
		now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC),
	}
	t.Cleanup(r.net.transport.CloseIdleConnections)
	rng := r.rand(1 << 32)
	var err error
	if r.phrase, err = synccrypt.NewPhrase(12, chacha(rng)); err != nil {
		t.Fatal(err)
	}
	if r.owner, _, err = synccrypt.ParseCredential(r.phrase); err != nil {
		t.Fatal(err)
	}
	for range 1 + rng.IntN(2) {
		r.addRelay(rng)
	}
	for range 2 + rng.IntN(2) {
		r.addDevice(rng)
	}
	return r
}

// chacha is a source of random bytes that comes from the seed.
func chacha(rng *rand.Rand) *rand.ChaCha8 {
	var key [32]byte
	for i := range key {
		key[i] = byte(rng.Uint32())
	}
	return rand.NewChaCha8(key)
}

// anyOptions makes pages, batches and the seen set so small that each run meets
// their ends.
func (r *realRun) anyOptions(rng *rand.Rand) real.Options {
	o := real.Options{Transport: r.net.transport, PushEvents: 1 + rng.IntN(6), PullEvents: 1 + rng.IntN(5)}
	if rng.IntN(2) == 0 {
		o.SeenMax = 1 + rng.IntN(20)
	}
	return o
}

// addDevice makes a device from the phrase alone (D38).
func (r *realRun) addDevice(rng *rand.Rand) {
	name := fmt.Sprint("device-", r.devices)
	r.devices++
	d := testdevice.New(r.t, r.phrase, name, r.now, r.anyOptions(rng))
	for _, relay := range r.relays {
		if err := d.AddRelay(relay.url()); err != nil {
			r.t.Fatal(err)
		}
	}
	r.fleet = append(r.fleet, d)
	r.skew(d, rng)
	r.tell("%s is there, its clock %v off", name, d.Skew)
}

// replace has a device's disk die, once in a run: its owner makes another from
// the phrase. What it wrote came to all relays and to another device before,
// which keeps it from then on, whatever happens to the relays.
func (r *realRun) replace(d *testdevice.Device, rng *rand.Rand) {
	if r.replaced || !r.well() {
		return
	}
	r.replaced = true
	if rng.IntN(2) == 0 { // its last writes are from the future
		d.Skew = 40 * time.Minute
		d.Set(r.now)
		r.write(d, rng)
	}
	r.sync(d)
	for _, other := range r.fleet {
		if other != d {
			r.sync(other)
		}
	}
	if err := d.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.fleet = slices.DeleteFunc(r.fleet, func(other *testdevice.Device) bool { return other == d })
	r.tell("%s has lost its disk", d.Name)
	if relay := r.relays[rng.IntN(len(r.relays))]; rng.IntN(2) == 0 {
		r.down(relay, rng)
		relay.wipe()
		relay.losses++
		relay.start()
		relay.running = true
		r.tell("%s is wiped", relay.host)
	}
	r.addDevice(rng)
}

// addRelay starts a relay that all devices then use.
func (r *realRun) addRelay(rng *rand.Rand) {
	relay := &realRelay{clock: rng.IntN(2) > 0, running: true, host: fmt.Sprintf("relay-%d", r.named)}
	floor := "SEQ_FLOOR=auto"
	if relay.clock {
		floor = "SEQ_FLOOR=clock"
	}
	relay.site = startSite(r.t, r.own, floor, "MAX_PULL_BYTES=3000")
	r.named++
	r.net.mu.Lock()
	r.net.sites[relay.host] = relay.site
	r.net.mu.Unlock()
	r.relays = append(r.relays, relay)
	for _, d := range r.fleet {
		if err := d.AddRelay(relay.url()); err != nil {
			r.t.Fatal(err)
		}
	}
	r.tell("%s is there, %s", relay.host, floor)
}

// removeRelay has all devices forget a relay that is not the last. Each device
// still owes the others what only this one has.
func (r *realRun) removeRelay(rng *rand.Rand) {
	if len(r.relays) < 2 {
		return
	}
	i := rng.IntN(len(r.relays))
	relay := r.relays[i]
	for _, d := range r.fleet {
		if err := d.RemoveRelay(relay.url()); err != nil {
			r.t.Fatal(err)
		}
	}
	r.relays = slices.Delete(r.relays, i, i+1)
	r.tell("%s is removed", relay.host)
}

func (r *realRun) act(rng *rand.Rand) {
	r.now = r.now.Add(time.Duration(rng.Int64N(int64(90 * time.Second))))
	for _, d := range r.fleet {
		d.Set(r.now)
	}
	d := r.fleet[rng.IntN(len(r.fleet))]
	switch n := rng.IntN(100); {
	case n < 38:
		r.write(d, rng)
	case n < 64:
		r.sync(d)
	case n < 72:
		r.together(func() {})
	case n < 84:
		r.fault(r.relays[rng.IntN(len(r.relays))], rng)
	case n < 90:
		r.faultMidSync(rng)
	case n < 94:
		r.skew(d, rng)
	case n < 96:
		r.replace(d, rng)
	case n < 98:
		d.Reopen(r.anyOptions(rng))
		r.tell("%s is opened again", d.Name)
	case n < 99 && len(r.fleet) < 5:
		r.addDevice(rng)
	case n < 100 && r.named < 5 && rng.IntN(2) == 0:
		r.addRelay(rng)
	default:
		r.removeRelay(rng)
	}
	for _, d := range r.fleet {
		r.ledger.True(d)
	}
}

// skew sets a device's clock ahead or back, by up to an hour.
func (r *realRun) skew(d *testdevice.Device, rng *rand.Rand) {
	d.Skew = 0
	switch rng.IntN(3) {
	case 0:
		d.Skew = time.Duration(rng.Int64N(int64(2*time.Hour))) - time.Hour
	case 1:
		d.Skew = time.Duration(rng.Int64N(int64(8*time.Minute))) - 4*time.Minute
	}
	d.Set(r.now)
	r.tell("%s has its clock %v off", d.Name, d.Skew)
}

// write makes a few edits in one Put, deletions too.
func (r *realRun) write(d *testdevice.Device, rng *rand.Rand) {
	edits := map[devicestore.Key]devicestore.Edit{}
	for range 1 + rng.IntN(4) {
		e := devicestore.Edit{Key: devicestore.Key{
			Table: fmt.Sprint("table", rng.IntN(2)), ID: fmt.Sprint("row ", rng.IntN(7)),
		}}
		row, err := d.Get(e.Key)
		if err != nil && !errors.Is(err, devicestore.ErrNoRow) {
			r.t.Fatal(err)
		}
		if err != nil || row.Deleted || rng.IntN(4) > 0 {
			r.writes++
			e.Data = fmt.Appendf(nil, `{"by":%q,"n":%d,"text":%q}`, d.Name, r.writes, strings.Repeat("x", rng.IntN(400)))
		}
		edits[e.Key] = e
	}
	list := make([]devicestore.Edit, 0, len(edits))
	for _, e := range edits {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b devicestore.Edit) int { return strings.Compare(a.Table+a.ID, b.Table+b.ID) })
	for _, row := range r.ledger.Wrote(d, list...) {
		r.tell("%s writes %s", d.Name, testdevice.Text(row))
	}
}

// well tells whether nothing excuses a Sync that fails.
func (r *realRun) well() bool {
	return !slices.ContainsFunc(r.relays, func(relay *realRelay) bool { return !relay.running || relay.refuse })
}

func (r *realRun) sync(d *testdevice.Device) {
	r.t.Helper()
	err := d.Cycle()
	r.synced(d, err, r.well())
}

func (r *realRun) synced(d *testdevice.Device, err error, well bool) {
	r.t.Helper()
	r.syncs++
	r.tell("%s syncs: %v", d.Name, err)
	switch {
	case err != nil && well:
		r.t.Errorf("R1: step %d: all relays are well: %v", r.step, err)
	case err != nil:
		r.failures++
	}
}

// together lets all devices sync at once, while meanwhile runs.
func (r *realRun) together(meanwhile func()) {
	well := r.well()
	failed := make([]error, len(r.fleet))
	var done sync.WaitGroup
	for i, d := range r.fleet {
		done.Go(func() { failed[i] = d.Cycle() })
	}
	meanwhile()
	done.Wait()
	for i, d := range r.fleet {
		r.synced(d, failed[i], well && r.well())
	}
}

// fault does one thing to a relay, which may stay down for a while.
func (r *realRun) fault(relay *realRelay, rng *rand.Rand) {
	switch n := rng.IntN(6); {
	case !relay.running:
		r.up(relay, rng)
	case n == 0:
		relay.compactAll()
	case n == 1:
		if path, ok := relay.backup(); ok {
			relay.copies = append(relay.copies, path)
		}
	case n == 2:
		r.net.transport.CloseIdleConnections()
		relay.restart("WRITES_DISABLED=1")
		relay.refuse = true
		r.tell("%s refuses writes", relay.host)
	case n == 3:
		r.down(relay, rng)
	default:
		r.down(relay, rng)
		r.up(relay, rng)
	}
}

// faultMidSync takes a relay down while all devices sync.
func (r *realRun) faultMidSync(rng *rand.Rand) {
	relay := r.relays[rng.IntN(len(r.relays))]
	if !relay.running {
		return
	}
	for _, d := range r.fleet {
		if rng.IntN(2) == 0 {
			r.write(d, rng)
		}
	}
	// What is not well in between excuses all of them.
	relay.refuse = true
	r.together(func() {
		for range rng.IntN(8) { // the fault comes a little later
			_, _ = relay.try("GET", "/health", "", "")
		}
		r.down(relay, rng)
		r.up(relay, rng)
		relay.refuse = true
	})
	relay.refuse = false
}

func (r *realRun) down(relay *realRelay, rng *rand.Rand) {
	relay.running = false
	if relay.own && rng.IntN(3) > 0 {
		relay.kill()
		r.tell("%s is killed", relay.host)
	} else {
		relay.stop()
		relay.check()
		r.tell("%s is stopped", relay.host)
	}
	r.net.transport.CloseIdleConnections()
}

// up starts a relay that is down, perhaps on another database.
func (r *realRun) up(relay *realRelay, rng *rand.Rand) {
	n := rng.IntN(10)
	switch {
	case n < 2, n < 5 && !relay.clock:
		relay.wipe()
		relay.losses++
		r.tell("%s is wiped", relay.host)
	case n < 5 && len(relay.copies) > 0:
		i := rng.IntN(len(relay.copies))
		relay.restore(relay.copies[i])
		relay.losses++
		r.tell("%s is restored from copy %d", relay.host, i)
	case n < 7:
		if path, ok := relay.copyAway(); ok {
			relay.copies = append(relay.copies, path)
			r.tell("%s is copied: %d", relay.host, len(relay.copies)-1)
		}
	}
	relay.start()
	relay.running, relay.refuse = true, false
	r.tell("%s is up", relay.host)
}
