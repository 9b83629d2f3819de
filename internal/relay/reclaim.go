package relay

import (
	"runtime/debug"
	"time"
)

const (
	reclaimInterval = 5 * time.Second
	// reclaimBytes is how much has to be dropped before memory is given back to
	// the system by hand. A relay that goes quiet after it has cut many slow
	// consumers would else keep 1.2 GB until the collector's own two minutes
	// are over.
	reclaimBytes = 64 << 20
)

// reclaim gives memory back after large cuts, until the relay ends.
func (r *Relay) reclaim() {
	tick := time.NewTicker(reclaimInterval)
	defer tick.Stop()
	var seen int64
	for {
		select {
		case <-tick.C:
			if now := r.surface.DroppedBytes(); now-seen >= reclaimBytes {
				seen = now
				debug.FreeOSMemory()
			}
		case <-r.served:
			return
		}
	}
}
