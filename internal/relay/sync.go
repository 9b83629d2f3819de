package relay

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/proto/sync"
	"github.com/sluice-relay/sluice/internal/store"
)

// SyncFile is the name of the sync relay's database in the data directory.
const SyncFile = "sync.db"

// openSync makes the sync surface and opens its store, if it is on. A database
// that cannot be opened stops the start: it may hold what somebody acknowledged.
// One that is not there is made when something is first stored.
func (r *Relay) openSync(version string) error {
	if !r.cfg.Serves(config.SurfaceSync) {
		return nil
	}
	settings := r.cfg.Sync
	settings.AdminToken = r.cfg.SyncAdminToken.Reveal()
	r.sync = sync.New(settings, sync.Parts{Log: r.log, Version: version, SpoolDir: r.cfg.Data})
	sc := settings.StoreConfig()
	sc.Path = filepath.Join(r.cfg.Data, SyncFile)
	sc.Notify = r.sync.Notify
	db, err := store.OpenLazily(sc, makeRoom)
	if err != nil {
		return err
	}
	r.syncStore = db
	if s := db.Opened(); s != nil {
		stats := s.Stats()
		r.log.Info("sync store opened", "path", sc.Path, "store", s.StoreID(),
			"owners", stats.Owners, "bytes", stats.TotalBytes, "last_seq", stats.LastSeq)
	}
	return nil
}

// storeProcessors is how many processors the Go scheduler gets beside the
// machine's once there is a store: its writer and a reader work for milliseconds
// without a pause, and a loop that has something to do would wait for the
// scheduler's slice of 10 ms. So it is the kernel that shares the processors out.
const storeProcessors = 2

// makeRoom raises GOMAXPROCS for the store, unless the environment sets it. A
// relay that stores nothing keeps what it has.
func makeRoom() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()+storeProcessors))
	}
}

// closeSync closes the store, if there is one. Requests are over by then.
func (r *Relay) closeSync() error {
	if r.syncStore == nil {
		return nil
	}
	return r.syncStore.Close()
}

// syncStats gathers the numbers of the sync surface, nil if it is off.
func (r *Relay) syncStats() *admin.SyncStats {
	if r.sync == nil {
		return nil
	}
	c, st := r.sync.Counters(), r.syncStore.Stats()
	return &admin.SyncStats{
		Requests: c.Requests, Pages: c.Pages, Refused: c.Refused,
		Waiting: c.Waiting, SpoolBytes: c.SpoolBytes, LentBytes: c.LentBytes,
		Pushes: st.Pushes, Duplicates: st.Duplicates, Events: st.Events, EventBytes: st.EventBytes,
		Blobs: st.Blobs, BlobBytes: st.BlobBytes,
		Commits: st.Groups, CommitRequests: st.Requests, CommitTime: st.CommitTime, LongestCommit: st.MaxCommit,
		CompactedEvents: st.CompactedEvents, CompactedBytes: st.CompactedBytes,
		Slices: st.Slices, Checkpoints: st.Checkpoints,
		QueuedWrites: st.QueueCount, QueuedBytes: st.QueueBytes, WALBytes: st.WALBytes,
		StoredBytes: st.TotalBytes, Owners: st.Owners, LastSeq: st.LastSeq,
	}
}
