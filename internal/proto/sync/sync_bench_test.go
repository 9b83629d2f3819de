package sync

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// BenchmarkPush is the way of pushes of 100 events of 1 KB from many keep-alive
// connections, commit included.
func BenchmarkPush(b *testing.B) {
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("per-core=%d", clients), func(b *testing.B) {
			r := newRig(b, func(c *Config) { c.MaxOwnerBytes, c.MaxTotalBytes = 1<<40, 0 })
			var number atomic.Int64
			filler := strings.Repeat("x", 850)
			b.SetParallelism(clients)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				c, err := relaytest.Dial(r.addr)
				if err != nil {
					b.Error(err)
					return
				}
				defer func() { _ = c.Close() }()
				events := make([]string, 100)
				for pb.Next() {
					n := number.Add(1)
					for i := range events {
						events[i] = event(fmt.Sprintf("%d-%d", n, i), "", filler)
					}
					body := pushBody(events...)
					_ = c.SendString(head("POST", "/v1/events", tokenA, lengthOf(body)) + body)
					if res, err := c.ReadResponse("POST", patience); err != nil || res.Status != 200 {
						b.Errorf("%v %+v", err, res)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "events/s")
		})
	}
}
