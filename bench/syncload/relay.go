package syncload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/internal/faults"
)

// Program is how the children are run: this program itself.
type Program struct {
	Path string
	// Relay are the arguments of a relay whose store takes at most so many
	// requests into one transaction, 0 for its own bound.
	Relay func(group int) []string
	// Probe are the arguments of the prober of an AEP relay: see Probe.
	Probe func(addr string, d time.Duration) []string
}

// relay is a relay in a process of its own, on a data directory of its own.
type relay struct {
	*faults.Process
	addr, dir string
}

func (p Program) start(group int) (*relay, error) {
	dir, err := os.MkdirTemp("", "syncload")
	if err != nil {
		return nil, err
	}
	proc, err := faults.Start(p.Path, p.Relay(group), "SLUICE_DATA="+dir, "SLUICE_LOG_LEVEL=warn",
		"MAX_TOTAL_BYTES=0", "MAX_OWNER_BYTES=1099511627776")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &relay{proc, proc.Addr, dir}, nil
}

func (r *relay) stop() error { return errors.Join(r.Stop(), os.RemoveAll(r.dir)) }

// settledBytes returns the relay's resident memory when it does not change any
// more by much.
func (r *relay) settledBytes(ctx context.Context) (int64, error) {
	var last int64
	for range 20 {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		now, err := load.RSSBytes(r.PID())
		if err != nil {
			return 0, err
		}
		if now-last < 64<<10 && last-now < 64<<10 {
			return now, nil
		}
		last = now
	}
	return last, nil
}

// awaitGauge waits until a metric has a value.
func (r *relay) awaitGauge(ctx context.Context, name string, want float64) error {
	var got float64
	for end := time.Now().Add(answerTime); time.Now().Before(end); {
		var err error
		if got, err = r.Metric(name); err != nil {
			return err
		}
		if got == want {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("syncload: %s is %v, not %v", name, got, want)
}
