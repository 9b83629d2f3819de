package device

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testrelay.Main()
	os.Exit(relaytest.RunLeakFree(m, "device.(*", "device.inParallel"))
}

// start is where the clocks of tests begin.
var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// clock is a wall clock that a test moves.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.set(start)
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.nanos.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }
func (c *clock) is(o Options) Options    { o.Now = c.now; return o }

// owner makes the credential of a new owner.
func owner(tb testing.TB) string {
	tb.Helper()
	key, err := synccrypt.NewNativeKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// make makes a device, which is closed when the test ends.
func makeDevice(tb testing.TB, credential, name string, o Options) *Device {
	tb.Helper()
	d, err := Create(filepath.Join(tb.TempDir(), "device"), credential, name, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// put writes one row of table "notes"; an empty text deletes it.
func put(tb testing.TB, d *Device, id, text string) devicestore.Row {
	tb.Helper()
	e := devicestore.Edit{Key: note(id)}
	if text != "" {
		e.Data = []byte(`{"text":"` + text + `"}`)
	}
	rows, err := d.Put(e)
	if err != nil || len(rows) != 1 {
		tb.Fatalf("%s: %d rows, %v", id, len(rows), err)
	}
	return rows[0]
}

func note(id string) devicestore.Key { return devicestore.Key{Table: "notes", ID: id} }

// has wants a row of table "notes" with a text, "" for a deleted one.
func has(tb testing.TB, d *Device, id, text string) {
	tb.Helper()
	row, err := d.store.Get(note(id))
	want := `{"text":"` + text + `"}`
	if err != nil || row.Deleted != (text == "") || !row.Deleted && string(row.Data) != want {
		tb.Errorf("%s: row %s is %s, deleted %v, %v; want %q", d.DeviceID(), id, row.Data, row.Deleted, err, text)
	}
}

// hasNot wants no row.
func hasNot(tb testing.TB, d *Device, id string) {
	tb.Helper()
	if row, err := d.store.Get(note(id)); !errors.Is(err, devicestore.ErrNoRow) {
		tb.Errorf("%s: row %s is %s, %v", d.DeviceID(), id, row.Data, err)
	}
}

// synced is a Sync that must work, and what it did with the first relay.
func synced(tb testing.TB, d *Device) RelayReport {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	r, err := d.Sync(ctx, SyncOptions{})
	if err != nil {
		tb.Fatalf("%s: %v", d.DeviceID(), err)
	}
	return r.Relays[0]
}

// relayOf returns the first relay as the store has it.
func relayOf(tb testing.TB, d *Device) devicestore.Relay {
	tb.Helper()
	relays, err := d.store.Relays()
	if err != nil || len(relays) == 0 {
		tb.Fatalf("%d relays, %v", len(relays), err)
	}
	return relays[0]
}

// refusals returns how often the first relay was refused for a reason.
func refusals(tb testing.TB, d *Device, reason string) int64 {
	tb.Helper()
	list, err := d.store.Refusals()
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range list {
		if c.Reason == reason {
			return c.Count
		}
	}
	return 0
}

// eventually polls until ok.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// site is where a real relay lives. Its URL stays over restarts.
type site struct {
	tb       testing.TB
	dir, url string
	settings []string
	relay    *relay.Relay
	sites    *sites
}

// sites are the relays of a test by their host.
type sites struct {
	tb    testing.TB
	http  *http.Transport
	addrs map[string]*atomic.Pointer[string]
}

var errDown = errors.New("the relay is down")

// newSites returns a place for relays. Devices reach them by its transport.
func newSites(tb testing.TB, hosts ...string) *sites {
	s := &sites{tb: tb, addrs: map[string]*atomic.Pointer[string]{}}
	for _, host := range hosts {
		s.addrs[host+":80"] = &atomic.Pointer[string]{}
	}
	s.http = &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		at := s.addrs[addr]
		if at == nil || at.Load() == nil {
			return nil, errDown
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", *at.Load())
	}}
	tb.Cleanup(s.http.CloseIdleConnections)
	return s
}

// site starts a relay at a host, with settings as NAME=value.
func (s *sites) site(host string, settings ...string) *site {
	s.tb.Helper()
	r := &site{tb: s.tb, dir: s.tb.TempDir(), url: "http://" + host, sites: s, settings: settings}
	s.tb.Cleanup(r.stop)
	r.start()
	return r
}

func (r *site) addr() *atomic.Pointer[string] { return r.sites.addrs[r.url[len("http://"):]+":80"] }

func (r *site) start() {
	r.tb.Helper()
	r.relay = testrelay.Start(r.tb, append([]string{"SLUICE_SURFACES=sync", "SLUICE_DATA=" + r.dir, "SLUICE_LOOPS=1"}, r.settings...)...)
	addr := r.relay.Addr()
	r.addr().Store(&addr)
}

// stop ends the relay, if it runs.
func (r *site) stop() {
	r.tb.Helper()
	r.addr().Store(nil)
	r.sites.http.CloseIdleConnections()
	if r.relay != nil {
		testrelay.Stop(r.tb, r.relay)
	}
	r.relay = nil
}

// files are those of the relay's database.
func (r *site) files() (names []string) {
	for _, tail := range []string{"", "-wal", "-shm"} {
		names = append(names, filepath.Join(r.dir, relay.SyncFile)+tail)
	}
	return names
}

// wipe deletes what a relay that is stopped has stored.
func (r *site) wipe() {
	r.tb.Helper()
	for _, name := range r.files() {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.tb.Fatal(err)
		}
	}
}

// save copies what a relay that is stopped has stored; the returned function
// puts it back.
func (r *site) save() (restore func()) {
	r.tb.Helper()
	kept := map[string][]byte{}
	for _, name := range r.files() {
		if content, err := os.ReadFile(name); err == nil {
			kept[name] = content
		}
	}
	return func() {
		r.tb.Helper()
		r.wipe()
		for name, content := range kept {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				r.tb.Fatal(err)
			}
		}
	}
}

// join adds a relay to a device.
func join(tb testing.TB, d *Device, url string) {
	tb.Helper()
	if err := d.AddRelay(url); err != nil {
		tb.Fatal(err)
	}
}
