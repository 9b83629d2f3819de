package device

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// fill writes rows of about so many bytes.
func fill(b *testing.B, d *Device, rows, size int) {
	b.Helper()
	text := strings.Repeat("x", size)
	for n := 0; n < rows; n += 1000 {
		edits := make([]devicestore.Edit, min(1000, rows-n))
		for i := range edits {
			edits[i] = devicestore.Edit{Key: note(fmt.Sprint("r", n+i)), Data: fmt.Appendf(nil, `{"text":%q}`, text)}
		}
		if _, err := d.Put(edits...); err != nil {
			b.Fatal(err)
		}
	}
}

// A page of 1,000 envelopes split, and opened on all cores.
func BenchmarkPage(b *testing.B) {
	d := makeDevice(b, owner(b), "a", Options{})
	id := d.id.Load()
	fill(b, d, 1000, 300)
	var envelopes []string
	rows, err := d.store.Changes(0, 1000)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range rows {
		e, err := d.seal(id, r.Key, r.HLC, r.Deleted, r.Data)
		if err != nil {
			b.Fatal(err)
		}
		envelopes = append(envelopes, string(e))
	}
	body := []byte(pageOf("1000", envelopes...))
	b.Run("split", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if p, err := splitPage(body); err != nil || len(p.events) != 1000 {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		p, err := splitPage(body)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if events, _ := d.openPage(id, p, d.o.Now()); len(events) != 1000 {
				b.Fatal(len(events))
			}
		}
	})
}

// Through a real relay in this process: all rows pushed and seen back by the
// device that wrote them, and pulled by a new one.
func BenchmarkSync(b *testing.B) {
	const rows = 10_000
	all := newSites(b, "relay.test")
	s := all.site("relay.test", "MAX_OWNERS=0")
	n := 0
	for b.Loop() {
		n++
		b.StopTimer()
		key := owner(b)
		a := makeDevice(b, key, "a", Options{Transport: all.http})
		fill(b, a, rows, 300)
		join(b, a, s.url)
		fresh, err := Create(filepath.Join(b.TempDir(), "device"), key, "fresh", Options{Transport: all.http})
		if err != nil {
			b.Fatal(err)
		}
		join(b, fresh, s.url)
		b.StartTimer()
		for _, d := range []*Device{a, fresh} {
			if _, err := d.Sync(b.Context(), SyncOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := fresh.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(n*rows)/b.Elapsed().Seconds(), "rows/s")
}
