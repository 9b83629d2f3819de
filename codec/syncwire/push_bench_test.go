package syncwire

import (
	"fmt"
	"strings"
	"testing"
)

// counter is a Sink that keeps nothing.
type counter struct{ envelopes, bytes int }

func (c *counter) Owner(string) error { return nil }

func (c *counter) Envelope(e *Envelope) error {
	c.envelopes++
	c.bytes += len(e.Stored)
	return nil
}

// batch is a push of count envelopes with ciphertexts of size bytes.
func batch(count, size int, between string) []byte {
	text := strings.Replace(envelope("1720519200000-0000-device-a", `,"streamId":"`+stream+`"`), `"c"`, `"`+strings.Repeat("x", size)+`"`, 1)
	text = strings.ReplaceAll(text, ",", ","+between)
	all := make([]string, count)
	for i := range all {
		all[i] = text
	}
	return []byte(body(all...))
}

// TestPushAllocations: the owner's id is all that a body costs.
func TestPushAllocations(t *testing.T) {
	plain := batch(100, 1000, "")
	escaped := strings.ReplaceAll(string(plain), `"nonce":"n"`, `"nonc\u0065":"n","\u0062":1,"c\u0063":{"d":[]}`)
	for _, text := range [][]byte{plain, batch(100, 1000, "\n  "), []byte(escaped)} {
		var d PushDecoder
		var sink counter
		run := func() {
			d.Reset(wide, &sink)
			for rest := text; len(rest) > 0; {
				n := min(len(rest), 16<<10)
				if err := d.Feed(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := d.End(); err != nil {
				t.Fatal(err)
			}
		}
		if allocs := testing.AllocsPerRun(20, run); allocs > 0 { // an id of one byte is free
			t.Errorf("%.200q: %v allocations for %d events", text, allocs, sink.envelopes)
		}
	}
}

// TestAppendAllocations: answers and checks cost nothing but their results.
func TestAppendAllocations(t *testing.T) {
	dst := make([]byte, 0, 4096)
	stored := []byte(envelope("1", ""))
	e := Envelope{EventID: []byte("1"), Stored: stored}
	query := []byte("ownerId=o&limit=5&after=17")
	if allocs := testing.AllocsPerRun(100, func() {
		dst = EndPage(AppendStored(AppendStored(BeginPage(dst[:0]), stored), stored), 9)
		dst = AppendPushed(dst, 1, 2)
		dst = AppendRecord(dst[:0], &e)
		if _, ok, err := ReadRecord(dst, &e); !ok || err != nil {
			t.Fatal(err)
		}
		if _, ok := Bearer([]byte("Bearer abc")); !ok {
			t.Fatal("no token")
		}
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if allocs := testing.AllocsPerRun(100, func() {
		if _, err := ParsePull(query, PullLimits{500, 1000}); err != nil {
			t.Fatal(err)
		}
	}); allocs > 3 { // the values of three parameters
		t.Errorf("%v allocations for a query", allocs)
	}
}

func BenchmarkPush(b *testing.B) {
	for _, size := range []int{200, 1000, 16 << 10, 200_000} {
		for _, between := range []string{"", "\n  "} {
			text := batch(max(1, 100_000/size), size, between)
			for _, piece := range []int{4 << 10, 64 << 10} {
				b.Run(fmt.Sprintf("%d/spaced=%v/pieces=%d", size, between != "", piece), func(b *testing.B) {
					var d PushDecoder
					var sink counter
					b.ReportAllocs()
					b.SetBytes(int64(len(text)))
					for b.Loop() {
						d.Reset(wide, &sink)
						for rest := text; len(rest) > 0; {
							n := min(len(rest), piece)
							if err := d.Feed(rest[:n]); err != nil {
								b.Fatal(err)
							}
							rest = rest[n:]
						}
						if err := d.End(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(sink.envelopes)/b.Elapsed().Seconds(), "events/s")
				})
			}
		}
	}
}

func BenchmarkPage(b *testing.B) {
	stored := []byte(strings.Replace(envelope("1", ""), `"c"`, `"`+strings.Repeat("x", 1000)+`"`, 1))
	dst := make([]byte, 0, PageBytes(500, 500*int64(len(stored))))
	b.ReportAllocs()
	b.SetBytes(int64(cap(dst)))
	for b.Loop() {
		dst = BeginPage(dst[:0])
		for range 500 {
			dst = AppendStored(dst, stored)
		}
		dst = EndPage(dst, 1761811660800000)
	}
}
