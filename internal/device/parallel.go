package device

import (
	"context"
	"sync"
	"sync/atomic"
)

// chunkWorkers is how many chunks of one blob are on their way at once. Each
// holds one chunk in memory.
const chunkWorkers = 4

// inParallel calls f for 0 to n-1, up to chunkWorkers at once and in order of
// beginning, and returns the first error, which ends the context of the others
// and begins no more. A worker's buf is its own and is made as f returns it.
// All workers have ended when it returns.
func inParallel(ctx context.Context, n int, f func(ctx context.Context, i int, buf *[]byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, chunkWorkers) {
		workers.Go(func() {
			var buf []byte
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := f(ctx, int(i), &buf); err != nil {
					cancel(err) // the first counts
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
