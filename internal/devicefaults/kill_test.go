package devicefaults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testdevice"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// record is what workers are known to have done.
type record struct {
	t        *testing.T
	tried    map[attempt]bool
	put      map[string]devicestore.Row // by HLC
	greatest map[devicestore.Key]string // HLC that Put returned
	syncs    int
}

func newRecord(t *testing.T) *record {
	return &record{t, map[attempt]bool{}, map[string]devicestore.Row{}, map[devicestore.Key]string{}, 0}
}

// add takes what a worker said. Of one that worked alone each HLC lies above
// all before it (D20, D21).
func (r *record) add(lines []line, alone bool) {
	r.t.Helper()
	highest := ""
	if alone {
		for hlc := range r.put {
			highest = max(highest, hlc)
		}
	}
	for _, l := range lines {
		if l.Err != "" {
			r.t.Fatalf("a worker ended by itself: %s", l.Err)
		}
		for _, a := range l.Try {
			r.tried[a] = true
		}
		for _, row := range l.Put {
			if was, twice := r.put[row.HLC]; twice {
				r.t.Fatalf("H7: %s is of %v and of %v", row.HLC, was.Key, row.Key)
			}
			if row.HLC <= highest {
				r.t.Fatalf("H7: %s comes after %s", row.HLC, highest)
			}
			highest = row.HLC
			r.put[row.HLC] = row
			r.greatest[row.Key] = max(r.greatest[row.Key], row.HLC)
		}
		if l.Done {
			r.syncs++
		}
	}
}

// holds wants a device to have each row that Put returned, or a later one, and
// none that nobody tried to write (H7).
func (r *record) holds(d *testdevice.Device) {
	r.t.Helper()
	rows := d.Held()
	for key, hlc := range r.greatest {
		if rows[key].HLC < hlc {
			r.t.Fatalf("H7: %s has %s, Put returned %s", d.Name, testdevice.Text(rows[key]), testdevice.Text(r.put[hlc]))
		}
	}
	for key, row := range rows {
		if want, known := r.put[row.HLC]; known && !testdevice.Same(row, want) {
			r.t.Fatalf("H7: %s has %s, Put returned %s", d.Name, testdevice.Text(row), testdevice.Text(want))
		}
		if !r.tried[attempt{key, string(row.Data)}] {
			r.t.Fatalf("H7: %s has %s, which nobody wrote", d.Name, testdevice.Text(row))
		}
	}
}

// atRelay wants the relay to have every write that Put returned, under its one
// id, and each content under one id alone (H8).
func (r *record) atRelay(events []stored) {
	r.t.Helper()
	ids := map[attempt]string{}
	there := map[string]bool{}
	for _, e := range events {
		there[e.EventID] = true
		a := attempt{devicestore.Key{Table: e.Table, ID: e.ID}, string(e.Row)}
		if !r.tried[a] {
			r.t.Errorf("H8: the relay has %s of %v, which nobody wrote", e.Row, a.Key)
		}
		if row, known := r.put[e.EventID]; known && (row.Key != a.Key || string(row.Data) != a.Data) {
			r.t.Errorf("H8: %s is %s of %v, Put returned %s", e.EventID, e.Row, a.Key, testdevice.Text(row))
		}
		if e.Deleted {
			continue // deletions of a row look alike
		}
		if was := ids[a]; was != "" {
			r.t.Errorf("H8: %s of %v is sealed as %s and as %s", e.Row, a.Key, was, e.EventID)
		}
		ids[a] = e.EventID
	}
	for hlc, row := range r.put {
		if !there[hlc] {
			r.t.Errorf("H7: the relay has not %s", testdevice.Text(row))
		}
	}
}

// TestHardCase15Kill: H7 and H8: the process of a device is killed at random
// points of writes and syncs.
func TestHardCase15Kill(t *testing.T) { killWorkers(t, 1) }

// TestKillTwoProcesses is TestHardCase15Kill with two processes that work on
// one directory, and are killed each for itself.
func TestKillTwoProcesses(t *testing.T) { killWorkers(t, 2) }

// enoughRows is how many rows of Put the tests that kill want at least.
const enoughRows = 10

func killWorkers(t *testing.T, processes int) {
	few := scale(100, 10) / processes
	rng := newRand(t)
	b := newBed(t)
	r := newRecord(t)
	d := testdevice.New(t, b.phrase, "killed", time.Now(), device.Options{Now: time.Now})
	must(t, d.AddRelay(b.url()))
	kills := testrelay.Kills(t, few)
	longest := 100 * time.Millisecond
	for kill := 0; kill < kills || kill < 10*kills && len(r.put) < enoughRows; kill++ {
		if kill >= kills { // too little has happened, as on a slow machine
			longest = min(2*longest, 10*time.Second)
		}
		if kill%7 == 3 { // a relay that is not there for once
			b.lie(func(w http.ResponseWriter, _ *http.Request, _ []byte, _ ask) bool { return say(w, 503, `{}`) })
		}
		var done sync.WaitGroup
		workers := make([]*worker, processes)
		for i := range workers {
			workers[i] = startWorker(t, order{Dir: d.Dir, Name: fmt.Sprint(kill, "-", i), Seed: rng.Uint64()})
			pause := time.Duration(rng.Int64N(int64(longest)))
			done.Go(func() { workers[i].killAfter(pause) })
		}
		done.Wait()
		for _, w := range workers {
			r.add(w.lines, processes == 1)
		}
		b.lie(nil)
		if kill%10 == 9 {
			r.holds(d)
		}
	}
	must(t, d.Cycle())
	r.holds(d)
	if st := d.State(); st.Pending != 0 || st.Relays[0].Owed != 0 {
		t.Errorf("%d pending, %+v", st.Pending, st.Relays)
	}
	events := b.opened(b.owner)
	r.atRelay(events)
	fresh := testdevice.New(t, b.phrase, "fresh", time.Now(), device.Options{Now: time.Now})
	must(t, fresh.AddRelay(b.url()))
	must(t, fresh.Cycle())
	r.holds(fresh)
	sameHeld(t, d, fresh)
	t.Logf("%d rows of Put, %d events at the relay, %d whole syncs", len(r.put), len(events), r.syncs)
	if len(r.put) < enoughRows || len(events) < len(r.put) {
		t.Error("too little happened between the kills to prove anything")
	}
}

// sameHeld wants two devices to hold the same, tombstones too.
func sameHeld(t *testing.T, a, b *testdevice.Device) {
	t.Helper()
	rows, others := a.Held(), b.Held()
	if len(rows) != len(others) {
		t.Errorf("%s has %d rows, %s %d", a.Name, len(rows), b.Name, len(others))
	}
	for key, row := range rows {
		if !testdevice.Same(row, others[key]) {
			t.Errorf("%s has %s, %s has %s", a.Name, testdevice.Text(row), b.Name, testdevice.Text(others[key]))
		}
	}
}

// TestHardCase04KilledInPull: D32: a device is killed around the moment when a
// page is applied and its cursor stored, page after page: it comes to the same
// state as one that was left alone. So does one whose relay repeats each page
// because of a cursor that does not move.
func TestHardCase04KilledInPull(t *testing.T) {
	rng := newRand(t)
	b := newBed(t)
	writer := b.device("writer", device.Options{})
	for i := range 200 {
		b.write(writer, fmt.Sprint("row ", i%40), fmt.Sprint("other ", i%9))
	}
	b.sync(writer)
	d := testdevice.New(t, b.phrase, "killed", b.now, device.Options{})
	must(t, d.AddRelay(b.url()))

	killed := 0
	most := testrelay.Kills(t, scale(25, 6))
	for !pullOnce(b, rng, d, killed < most) {
		killed++
	}
	b.same("after the kills", d)
	t.Logf("%d kills", killed)

	repeated := b.device("repeated", device.Options{PullEvents: 7})
	random := rand.New(rand.NewPCG(rng.Uint64(), 5))
	same := newLiar(random, cursorLies[0])
	same.odds = 0.5
	b.lie(same.answer)
	for range 20 {
		_ = repeated.Cycle() // it may say that the page leads nowhere
		b.ledger.True(repeated)
	}
	b.lie(nil)
	b.sync(repeated)
	b.same("with repeated pages", repeated)
	if same.times("the same cursor") == 0 {
		t.Error("no page was repeated")
	}
}

// pullOnce has a worker pull until it has everything, or until it is killed a
// moment after one of its first pages was sent. It tells whether all went
// through.
func pullOnce(b *bed, rng *rand.Rand, d *testdevice.Device, kill bool) bool {
	after, pause := int64(rng.IntN(3)), time.Duration(rng.Int64N(int64(6*time.Millisecond)))
	var pages atomic.Int64
	sent := make(chan struct{}) // closed with the page after which it is killed
	if kill {
		b.lie(func(out http.ResponseWriter, r *http.Request, _ []byte, ask ask) bool {
			if !pulls(r) || pages.Add(1) != after+1 {
				return false
			}
			write(out, ask())
			close(sent)
			return true
		})
		defer b.lie(nil)
	}
	w := startWorker(b.t, order{Dir: d.Dir, Seed: rng.Uint64(), Pull: true})
	select {
	case <-sent:
		time.Sleep(pause) // the moment of the kill, which is random
	case <-w.ended:
	}
	w.kill()
	b.ledger.True(d)
	return slices.ContainsFunc(w.lines, func(l line) bool { return l.Done })
}
