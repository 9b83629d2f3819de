package syncload

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/testrelay"
)

func TestMain(m *testing.M) {
	testrelay.Main()
	os.Exit(m.Run())
}

// TestLoads: each load does against a relay what it says, and counts it.
func TestLoads(t *testing.T) {
	p := testrelay.SpawnKilled(t, "SLUICE_DATA="+t.TempDir())
	r := &relay{Process: p, addr: p.Addr}
	ctx := t.Context()
	// In which each owner's device has to be there.
	perSecond, h, err := push(ctx, r.addr, "o", 2, 3*time.Second)
	if err != nil || perSecond <= 0 || h.Count() < owners {
		t.Fatalf("push: %v, %.0f events/s, %d pushes", err, perSecond, h.Count())
	}
	for name, want := range map[string]int64{"sluice_sync_events_total": 2 * h.Count(), "sluice_sync_owners": owners} {
		if got, err := p.Metric(name); err != nil || got != float64(want) {
			t.Errorf("the relay counts %s %v after %d pushes of 2 events, %v", name, got, h.Count(), err)
		}
	}
	if err := fill(ctx, r.addr, "puller", 2000); err != nil {
		t.Fatal(err)
	}
	n, size, h, err := pull(ctx, r.addr, "puller")
	if err != nil || n != 2000 || size < 2000*1000 || h.Count() != 3 {
		t.Errorf("pull: %v, %d events, %d bytes, %d pages", err, n, size, h.Count())
	}
	for _, get := range []bool{false, true} {
		if perSecond, err := blobs(ctx, r.addr, 10, "x", get); err != nil || perSecond <= 0 {
			t.Errorf("chunks, get %v: %v, %f", get, err, perSecond)
		}
	}
	w, err := wait(ctx, r, 2*owners)
	if err != nil || w.devices != 2*owners || w.wake.Count() != 2*owners || w.wake.Min() <= 0 {
		t.Errorf("wait: %v, %+v", err, w)
	}
	var out bytes.Buffer
	if err := Probe(ctx, r.addr, 200*time.Millisecond, &out); err != nil {
		t.Fatal(err)
	}
	var l Latency
	if err := json.Unmarshal(out.Bytes(), &l); err != nil || l.Events != probeRate/5 || l.P50 <= 0 || l.P99 < l.P50 || l.Max < l.P99 {
		t.Errorf("probe: %v, %+v", err, l)
	}
}

// TestLoadsFail: a relay that refuses is an error, not a figure.
func TestLoadsFail(t *testing.T) {
	p := testrelay.SpawnKilled(t, "SLUICE_DATA="+t.TempDir(), "WRITES_DISABLED=1")
	if _, _, err := push(t.Context(), p.Addr, "o", 1, time.Minute); err == nil {
		t.Error("pushes that were refused are counted")
	}
	if _, err := blobs(t.Context(), p.Addr, 1, "x", true); err == nil {
		t.Error("chunks that are not there are counted")
	}
}

// TestDeviceLoads: what is sealed here is opened by the bare client, and is what
// a device comes to hold.
func TestDeviceLoads(t *testing.T) {
	p := testrelay.SpawnKilled(t, "SLUICE_DATA="+t.TempDir())
	o, err := newOwner()
	if err != nil {
		t.Fatal(err)
	}
	const events = 2300
	if err := o.fill(t.Context(), p.Addr, events); err != nil {
		t.Fatal(err)
	}
	if n, err := o.bare(t.Context(), p.Addr); err != nil || n != events {
		t.Errorf("pulled and opened %d of %d, %v", n, events, err)
	}
	if n, err := o.firstSync(t.Context(), p.Addr); err != nil || n != events {
		t.Errorf("a device holds %d rows of %d, %v", n, events, err)
	}
	seal, open, all, err := o.sealing(time.Second)
	if err != nil || seal <= 0 || open <= 0 || all <= 0 {
		t.Errorf("a second: %.0f sealed, %.0f opened, %.0f on all cores, %v", seal, open, all, err)
	}
	stranger, err := newOwner()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := stranger.bare(t.Context(), p.Addr); err == nil {
		t.Errorf("an owner that is not there: %d events", n)
	}
}
