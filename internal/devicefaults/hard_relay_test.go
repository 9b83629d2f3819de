package devicefaults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testdevice"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// valid tells whether a phrase is one.
func valid(phrase string) bool {
	_, _, err := synccrypt.ParseCredential(phrase)
	return err == nil
}

// database is the relay's, with SQLite's log.
func (f *front) database() []string {
	path := filepath.Join(f.dir, relay.SyncFile)
	return []string{path, path + "-wal", path + "-shm"}
}

// wipe takes everything from the relay.
func (f *front) wipe() {
	f.t.Helper()
	f.stop()
	for _, name := range f.database() {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			f.t.Fatal(err)
		}
	}
	f.start()
}

// copied returns the relay's database as it is now.
func (f *front) copied() []byte {
	f.t.Helper()
	f.stop() // all of it is then in the one file
	content, err := os.ReadFile(f.database()[0])
	must(f.t, err)
	f.start()
	return content
}

// restore puts a database in place of the relay's.
func (f *front) restore(content []byte) {
	f.t.Helper()
	f.stop()
	for _, name := range f.database()[1:] {
		_ = os.Remove(name)
	}
	must(f.t, os.WriteFile(f.database()[0], content, 0o600))
	f.start()
}

// TestHardCase07Wiped: D35: the relay is wiped and another device syncs first:
// this one is told, re-seeds once, and receives what it missed. With small
// numbers of a fresh store it is the account that tells.
func TestHardCase07Wiped(t *testing.T) {
	for _, floor := range []string{"clock", "auto"} {
		t.Run(floor, func(t *testing.T) {
			b := newBed(t, "SEQ_FLOOR="+floor)
			da, db := b.device("a", device.Options{}), b.device("b", device.Options{})
			b.write(da, "of both")
			b.settle()
			b.write(db, "only b pulled its acknowledgement")
			b.sync(db)
			before := b.createdAt()
			b.wipe()
			for i := range 5 { // as many events as the old store had, and more
				b.write(da, fmt.Sprint("new ", i))
			}
			b.sync(da)
			if b.createdAt() == before {
				t.Fatal("the relay was not wiped")
			}
			b.sync(db, da)
			b.same("after the wipe", da, db)
			if n := db.State().Relays[0].Reseeds; n != 1 {
				t.Errorf("R4: b re-seeded %d times", n)
			}
			b.later(time.Minute)
			b.count()
			b.sync(da, db)
			if n := b.count(); n > 20 {
				t.Errorf("it does not come to rest: %d requests", n)
			}
			b.same("at rest", da, db)
		})
	}
}

// TestHardCase08Restored: D35: the relay is restored from an hour-old copy:
// what was written after it comes back from the devices, in both directions,
// and what was acknowledged and not yet seen back by its device too.
func TestHardCase08Restored(t *testing.T) {
	b := newBed(t, "SEQ_FLOOR=clock")
	da, db := b.device("a", device.Options{}), b.device("b", device.Options{})
	b.write(da, "before")
	b.settle()
	old := b.copied()
	b.later(time.Hour)
	b.write(da, "of a, seen by both")
	b.settle()
	b.write(da, "of a, not pulled by b")
	b.write(da, "before")
	b.sync(da)
	b.write(db, "of b, acknowledged")
	// b pushes, and its pulls fail.
	b.lie(func(w http.ResponseWriter, r *http.Request, _ []byte, _ ask) bool {
		return pulls(r) && say(w, 503, `{"error":"busy","message":"later"}`)
	})
	if err := db.Cycle(); err == nil {
		t.Error("b pulled")
	}
	b.lie(nil)
	b.restore(old)
	b.later(time.Minute)
	b.settle()
	for _, d := range b.fleet {
		for _, relay := range d.State().Relays {
			if relay.Owed != 0 || relay.Unseen != 0 {
				t.Errorf("%s: %d owed, %d not seen back", d.Name, relay.Owed, relay.Unseen)
			}
		}
	}
	// A device that comes anew finds all of it at the relay.
	fresh := b.device("fresh", device.Options{})
	b.sync(fresh)
	b.same("a device from the phrase alone", fresh)
}

// TestHardCase09OneRelayDown: D31: two relays, one of them down for a day: the
// other one's work goes on, nothing is lost, and the late one gets everything.
func TestHardCase09OneRelayDown(t *testing.T) {
	b, second := newBed(t), newFront(t)
	da, db := b.device("a", device.Options{}), b.device("b", device.Options{})
	for _, d := range b.fleet {
		must(t, d.AddRelay(second.url()))
	}
	b.write(da, "at both")
	b.settle()
	second.stop()
	for i := range 24 {
		b.later(time.Hour)
		b.write(da, fmt.Sprint("row ", i%5))
		b.write(db, fmt.Sprint("row ", i%7))
		if i%6 == 5 {
			b.remove(da, "row 0")
		}
		for _, d := range b.fleet {
			if err := d.Cycle(); err == nil {
				t.Fatal("a relay is down, and Sync does not say so")
			}
		}
	}
	if err := da.Cycle(); err == nil {
		t.Fatal("a relay is down, and Sync does not say so")
	}
	b.same("with one relay", da, db)
	for _, relay := range da.State().Relays {
		if late := relay.URL == second.url(); late != (relay.Owed > 0) {
			t.Errorf("%s: %d owed", relay.URL, relay.Owed)
		}
	}
	second.start()
	b.settle()
	fresh := testdevice.New(t, b.phrase, "fresh", b.now, device.Options{})
	must(t, fresh.AddRelay(second.url()))
	b.sync(fresh)
	b.same("from the late relay alone", fresh)
}

// TestHardCase10LargeRestore: D38: a new device of an owner with 100,000 rows:
// restored in pages with bounded memory, and progress is shown.
func TestHardCase10LargeRestore(t *testing.T) {
	rows := scale(100_000, 3_000)
	p := testrelay.SpawnKilled(t, "SLUICE_SURFACES=sync", "SLUICE_DATA="+t.TempDir())
	url := "http://" + p.Addr
	phrase, _ := newOwner(t)
	writer := testdevice.New(t, phrase, "writer", today, device.Options{})
	must(t, writer.AddRelay(url))
	const batch = 1000
	for from := 0; from < rows; from += batch {
		edits := make([]devicestore.Edit, batch)
		for i := range edits {
			edits[i] = devicestore.Edit{
				Key:  key(fmt.Sprintf("row %06d", from+i)),
				Data: fmt.Appendf(nil, `{"n":%d,"text":"%0200d"}`, from+i, from+i),
			}
		}
		writer.Write(edits...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	start := time.Now()
	_, err := writer.Sync(ctx, device.SyncOptions{})
	must(t, err)
	pushed := time.Since(start)

	fresh := testdevice.New(t, phrase, "fresh", today, device.Options{})
	must(t, fresh.AddRelay(url))
	runtime.GC()
	peak, base := watchHeap(t)
	var told, last atomic.Int64
	start = time.Now()
	_, err = fresh.Sync(ctx, device.SyncOptions{Progress: func(p device.Progress) {
		told.Add(1)
		if p.Phase == "pull" {
			last.Store(max(last.Load(), p.Done))
		}
	}})
	must(t, err)
	most := int64(peak()) - int64(base)
	t.Logf("%d rows: pushed in %v, restored in %v, heap at most %d MiB above %d MiB", rows,
		pushed.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), most>>20, base>>20)
	if most > 48<<20 {
		t.Errorf("the heap grew by %d bytes", most)
	}
	if told.Load() < int64(rows/batch) || last.Load() < int64(rows) {
		t.Errorf("progress was told %d times, at last %d of %d rows", told.Load(), last.Load(), rows)
	}
	if n := fresh.State().Rows; n != int64(rows) {
		t.Errorf("%d rows", n)
	}
	row, err := fresh.Get(key(fmt.Sprintf("row %06d", rows-1)))
	want, wantErr := writer.Get(row.Key)
	if err != nil || wantErr != nil || !testdevice.Same(row, want) {
		t.Errorf("got %s, want %s, %v", testdevice.Text(row), testdevice.Text(want), errors.Join(err, wantErr))
	}
}

// watchHeap measures the heap until peak is called.
func watchHeap(t *testing.T) (peak func() uint64, base uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var most atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	end := func() uint64 {
		select {
		case <-done:
		default:
			close(stop)
			<-done
		}
		return most.Load()
	}
	t.Cleanup(func() { end() })
	return end, m.HeapAlloc
}

// TestWipedAfterFirstSync: D35: hard case 7 right after a device's first Sync,
// which made the account: it must know that account, or the numbers of a fresh
// store, which another device was given first, look like those it had.
func TestWipedAfterFirstSync(t *testing.T) {
	b := newBed(t, "SEQ_FLOOR=auto")
	da, db := b.device("a", device.Options{}), b.device("b", device.Options{})
	b.write(da, "of a")
	b.sync(da)
	b.wipe()
	b.write(db, "of b", "more of b", "still more")
	b.sync(db, da, db)
	b.same("after the wipe", da, db)
}
