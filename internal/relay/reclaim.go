package relay

import (
	"runtime/debug"
	"time"
)

const (
	herdInterval    = time.Second
	reclaimInterval = 5 * time.Second
	// reclaimBytes is how much has to be dropped before memory is given back to
	// the system by hand. A relay that goes quiet after it has cut many slow
	// consumers would else keep 1.2 GB until the collector's own two minutes
	// are over.
	reclaimBytes = 64 << 20
	// reclaimConns is how many connections have to be opened, and reclaimCalm
	// how few may come or go in an interval, before the same is done for what
	// opening them left behind: about 0.2 KB of 1.6 KB each.
	reclaimConns = 1000
	reclaimCalm  = 50
)

// reclaim gives memory back after large cuts and after herds, until the relay
// ends.
func (r *Relay) reclaim() {
	cuts, herds := time.NewTicker(reclaimInterval), time.NewTicker(herdInterval)
	defer cuts.Stop()
	defer herds.Stop()
	var seen int64
	var h herd
	for {
		select {
		case <-cuts.C:
			if now := r.surface.DroppedBytes(); now-seen >= reclaimBytes {
				seen = now
				debug.FreeOSMemory()
			}
		case <-herds.C:
			if h.settled(r.server.Conns()) {
				debug.FreeOSMemory()
			}
		case <-r.served:
			return
		}
	}
}

// herd notices that many connections were opened and that this is over. The
// zero value is ready.
type herd struct{ base, last int64 }

// settled is told the number of connections once an interval.
func (h *herd) settled(conns int64) bool {
	moved := conns - h.last
	h.last = conns
	h.base = min(h.base, conns)
	if conns-h.base < reclaimConns || moved > reclaimCalm || moved < -reclaimCalm {
		return false
	}
	h.base = conns
	return true
}
