package relay

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	codec "github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/store/firehosestore"
	"github.com/sluice-relay/sluice/internal/upstream"
)

// FirehoseFile is the name of the firehose's database in the data directory.
const FirehoseFile = "firehose.db"

const (
	// tickInterval is how often frames are let go that nobody needs any more:
	// twice in the second of F33, since a loop may find that out at the first.
	tickInterval = time.Second / 2
	// graceIntervals is for how many FIREHOSE_CURSOR_PERSIST_MS after a start no
	// cursor of a host is stored: 12 s by default, in which a consumer whose pauses
	// are 1, 2 and 4 s has come back.
	graceIntervals = 3
	// upstreamStopTime is how long the frames under way and the state of other
	// hosts may take at a stop.
	upstreamStopTime = 2 * time.Second
)

// firehoseParts is what the firehose surface consists of.
type firehoseParts struct {
	surface  *firehose.Surface
	producer *firehose.Producer
	ring     *stream.Ring
	store    *firehosestore.Store
	upstream *upstream.Manager // nil when no host is followed
}

// openFirehose makes the firehose, if it is on. A state that cannot be read stops
// the start: numbers could repeat.
func (r *Relay) openFirehose() error {
	if !r.cfg.Serves(config.SurfaceFirehose) {
		return nil
	}
	c := &r.cfg.Firehose
	f := &firehoseParts{ring: stream.NewRing(stream.Bounds{Frames: c.ReplayFrames, Bytes: c.ReplayBytes})}
	path := filepath.Join(r.cfg.Data, FirehoseFile)
	db, err := firehosestore.Open(firehosestore.Config{Path: path, OnStore: makeRoom})
	if err != nil {
		return err
	}
	f.store = db
	numbers, err := firehose.OpenNumbers(db, firehose.NumbersConfig{Mode: c.FloorMode, Floor: c.Floor, Block: c.Reserve})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	f.producer = firehose.NewProducer(firehose.Config{
		Ring: f.ring, Numbers: numbers,
		SyncInterval: c.SyncInterval, HeldBytes: c.ReplayBytes, MaxFrameBytes: c.MaxFrameBytes,
		Published: func() { f.surface.Ring() },
		Failed:    func(err error) { r.log.Error("firehose", "error", err) },
	})
	parts := firehose.Parts{
		Log: r.log, Producer: f.producer, Ring: f.ring,
		PublishToken: r.cfg.FirehosePublishToken.Reveal(),
		AdminToken:   r.cfg.FirehoseAdminToken.Reveal(),
		Health:       db.Ping,
	}
	if len(c.Upstreams) > 0 {
		if f.upstream, err = upstream.New(upstream.Config{
			Upstreams: c.Upstreams, Verify: c.Verify, Persist: c.PersistInterval, Grace: graceIntervals * c.PersistInterval, MaxFrameBytes: c.MaxFrameBytes,
			Publish: func(frame *codec.Frame) (int64, error) { return f.producer.Publish(frame) },
			Store:   db, Log: r.log,
		}); err != nil {
			return errors.Join(err, f.producer.Stop(nil, nil), db.Close())
		}
		parts.Upstream = upstreamRoutes{f.upstream}
	}
	f.surface = firehose.NewSurface(*c, parts)
	r.firehose = f
	return nil
}

// startFirehose opens the stream (F39).
func (r *Relay) startFirehose() error {
	f := r.firehose
	if f == nil {
		return nil
	}
	if err := errors.Join(f.producer.Booting(), f.producer.Listening()); err != nil {
		return err
	}
	if f.upstream != nil {
		if err := f.upstream.Start(); err != nil {
			return err
		}
	}
	go func() {
		tick := time.NewTicker(tickInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.surface.Tick()
			case <-r.served:
				return
			}
		}
	}()
	return nil
}

// stopFirehose takes no more frames, publishes what is held and stores the end
// (F48). The consumers are dropped by the loops.
func (r *Relay) stopFirehose() {
	f := r.firehose
	if f == nil {
		return
	}
	if f.upstream != nil {
		ctx, cancel := context.WithTimeout(context.Background(), upstreamStopTime)
		defer cancel()
		if err := f.upstream.Stop(ctx); err != nil && !errors.Is(err, upstream.ErrState) {
			r.log.Error("state of the hosts is not stored completely", "error", err)
		}
	}
	if err := f.producer.Stop(nil, nil); err != nil && !errors.Is(err, firehose.ErrPhase) {
		r.log.Error("firehose stopped without a clean mark", "error", err)
	}
}

// closeFirehose gives back what openFirehose took. Requests are over by then.
func (r *Relay) closeFirehose() error {
	if r.firehose == nil {
		return nil
	}
	r.stopFirehose()
	return r.firehose.store.Close()
}

// firehoseStats gathers the numbers of the firehose, nil if it is off.
func (r *Relay) firehoseStats() *admin.FirehoseStats {
	f := r.firehose
	if f == nil {
		return nil
	}
	c := f.surface.Counters()
	s := &admin.FirehoseStats{
		Connected: c.Connected, TooSlow: c.TooSlow, Future: c.Future, Outdated: c.Outdated,
		Stalled: c.Stalled, Unanswered: c.Unanswered, Published: c.Published, Refused: c.Refused,
		Consumers: c.Consumers,
	}
	s.HeldFrames, s.HeldBytes = f.ring.Held()
	s.HeldCommits, _ = f.producer.Held()
	s.LastSeq, s.OutdatedSeq = f.ring.Numbers()
	if f.upstream != nil {
		upstreamStats(s, f.upstream)
	}
	return s
}
