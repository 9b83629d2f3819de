package relay_test

import (
	"context"
	"slices"
	"testing"

	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestC97Snapshot: the snapshot of all loops has each consumer once, in the
// buckets that the admin page documents.
func TestC97Snapshot(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"SLUICE_LOOPS": "2"})
	const count = 3
	for range count {
		f.stream(t, "", relaytest.StreamOptions{})
	}
	s, err := f.relay.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	total := func(h admin.Histogram) (n uint64) {
		for _, c := range h.Counts {
			n += c
		}
		return n
	}
	if total(s.Unsent) != count || total(s.Lag) != count || len(s.Slowest) != count || s.Streams != count || len(s.Loops) != 2 {
		t.Errorf("%d unsent, %d lag, %d told, %d streams, %d loops; want %d consumers on 2 loops",
			total(s.Unsent), total(s.Lag), len(s.Slowest), s.Streams, len(s.Loops), count)
	}
	if !slices.Equal(s.Unsent.Bounds, admin.UnsentBounds) || !slices.Equal(s.Lag.Bounds, admin.LagBounds) {
		t.Errorf("bounds %v and %v", s.Unsent.Bounds, s.Lag.Bounds)
	}
}
