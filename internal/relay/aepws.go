package relay

import (
	"path/filepath"

	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/proto/aepws"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// AEPWSFile is the name of the event log of the aep-0.1 binding in the data
// directory.
const AEPWSFile = "aepws.db"

// aepwsParts is what the aep-0.1 binding consists of.
type aepwsParts struct {
	surface *aepws.Surface
	log     *eventlog.Log
}

// openAEPWS makes the binding, if it is on. One that may not be served as
// configured stops the start where SLUICE_SURFACES named it, and is left out
// where it is on by default. A log that cannot be read stops the start: numbers
// would repeat.
func (r *Relay) openAEPWS() error {
	c := &r.cfg
	if !c.Serves(config.SurfaceAEPWS) {
		return nil
	}
	if err := c.CheckAEPWS(); err != nil {
		if c.Named {
			return err
		}
		r.log.Warn("the aep-0.1 binding is not served", "reason", err)
		return nil
	}
	parts := aepws.Parts{Log: r.log, Token: c.AEPWSToken.Reveal()}
	if parts.Token == "" {
		guard, err := auth.NewGuard(c.Origins, c.AnyOrigin, true)
		if err != nil {
			return err
		}
		parts.Guard = guard
	}
	p := &aepwsParts{}
	path := filepath.Join(c.Data, AEPWSFile)
	log, err := eventlog.Open(eventlog.Config{
		Path: path, OnStore: makeRoom,
		MaxEvents: c.AEPWS.RetentionEvents, MaxAge: c.AEPWS.RetentionAge, MaxBytes: c.AEPWS.RetentionBytes,
		Committed: func(batch []eventlog.Stored) { p.surface.Committed(batch) },
	})
	if err != nil {
		return err
	}
	parts.Events, p.log = log, log
	if p.surface, err = aepws.New(c.AEPWS, parts); err != nil {
		_ = log.Close() // nothing was stored
		return err
	}
	if s := log.Stats(); s.Opened {
		r.log.Info("event log opened", "path", path, "events", s.Log.Events, "newest", s.Log.Newest)
	}
	r.aepws = p
	return nil
}

// sealAEPWS ends publishing. Its answers, and the farewells of the sessions, are
// up to the loops.
func (r *Relay) sealAEPWS() {
	if r.aepws != nil {
		r.aepws.surface.Seal()
	}
}

// closeAEPWS closes the log. Nothing is published or read any more by then.
func (r *Relay) closeAEPWS() error {
	if r.aepws == nil {
		return nil
	}
	return r.aepws.log.Close()
}

// aepwsStats gathers the numbers of the binding, nil if it is off.
func (r *Relay) aepwsStats() *admin.AEPWSStats {
	if r.aepws == nil {
		return nil
	}
	c, st := r.aepws.surface.Counters(), r.aepws.log.Stats()
	d := &c.Deliveries
	return &admin.AEPWSStats{
		Connected: c.Connected, Refused: c.Refused, Records: c.Records,
		Published: c.Published, Acknowledged: c.Acknowledged, Rejected: c.Rejected, Discarded: c.Discarded,
		Stalled: c.Stalled, Held: c.Held,
		Connections: c.Connections, Sessions: c.Sessions, Pending: c.Pending, BusyBytes: c.BusyBytes,
		Stored: st.Events, StoredBytes: st.EventBytes, Duplicates: st.Duplicates, Conflicts: st.Conflicts,
		Commits: st.Groups, CommitRequests: st.Requests, CommitTime: st.CommitTime, LongestCommit: st.MaxCommit,
		Evicted: st.Evicted, DeadLetters: st.DeadLetters, Busy: st.Busy, Failed: st.Failed,
		QueuedWrites: st.QueueCount, QueuedBytes: st.QueueBytes,
		KeptEvents: st.Log.Events, KeptBytes: st.Log.Bytes, FileBytes: st.FileBytes, WALBytes: st.WALBytes,
		Newest: st.Log.Newest, EvictedSeq: st.Log.Evicted,
		Created: d.Created, Delivered: d.Delivered, Replayed: d.Replayed, Redelivered: d.Redelivered,
		Dropped: d.Dropped, TooSlow: d.TooSlow, LogFailed: d.Failed, Pages: d.Pages, Unmade: d.Unmade, Unheard: d.Unheard,
		Subscriptions: d.Subscriptions,
	}
}
