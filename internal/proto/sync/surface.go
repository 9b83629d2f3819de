package sync

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

// Store is what the surface needs of the store: see store.Store, which
// implements it. The Async methods are called on the loops, all others in jobs.
type Store interface {
	Reader
	PushAsync(p store.Push, done func(store.PushResult, error))
	PutBlobAsync(auth store.Auth, hash string, body []byte, done func(bool, error))
	CompactStreamsAsync(auth store.Auth, streams []string, done func(store.Reclaimed, error))
	CloseOwnerAsync(auth store.Auth, done func(store.Closed, error))
	CompactAllAsync(done func(store.Reclaimed, error))
}

// Reader is the part of a Store that changes nothing.
type Reader interface {
	Ping() error
	Admit(store.Auth) error
	Authorize(store.Auth) error
	AdmitBlob(auth store.Auth, hash string) (duplicate bool, err error)
	Pull(q store.Pull, add func(envelope []byte)) (store.Page, error)
	Status(store.Auth) (store.Status, error)
	Blob(auth store.Auth, hash string) ([]byte, error)
	BlobSize(auth store.Auth, hash string) (int64, error)
}

// Parts are what a surface is put together from besides its settings.
type Parts struct {
	Log     *slog.Logger // required
	Version string       // of the build, for status and health
	// SpoolDir is the directory of spool files (S20a), made when it is first
	// needed; "" for the system's.
	SpoolDir string
	// Now is the clock of serverTime, nil for time.Now.
	Now func() time.Time
}

// Surface is the behaviour of the encrypted sync relay: it serves the paths of
// Owns. It implements serve.Handler. Serve is called on the loops, everything
// else by any goroutine.
type Surface struct {
	// Immutable after Attach.
	cfg     Config
	parts   Parts
	log     *slog.Logger
	store   Store
	workers []*worker
	blank   []byte // as long as the largest chunk, never touched

	waits waits
	spool *serve.Budget // bytes beyond memory of all push bodies
	lent  *serve.Budget // bytes of answers on their way to their readers

	// Atomic.
	requests atomic.Int64
	refused  [codeCount]atomic.Int64
	pages    atomic.Int64
}

// codeCount is more than the number of codes.
const codeCount = 32

// worker is what the surface has per loop. Owned by that loop.
type worker struct {
	*serve.Worker
	wakes    wakes
	decoders []*syncwire.PushDecoder // ready for use again
}

// New returns a surface with settings that Config.Validate took. Attach must be
// called before it serves; Notify may be called before that.
func New(cfg Config, parts Parts) *Surface {
	if parts.Now == nil {
		parts.Now = time.Now
	}
	s := &Surface{
		cfg: cfg, parts: parts, log: parts.Log,
		blank: make([]byte, cfg.MaxBlobBytes), spool: serve.NewBudget(spoolBytes),
		lent: serve.NewBudget(lentBytes),
	}
	s.waits.init(MaxWaiting)
	return s
}

// Attach names the store and the workers that the surface serves on, by the IDs
// of their loops. The store's Config.Notify is Surface.Notify. Called once,
// before anything is served.
func (s *Surface) Attach(st Store, workers []*serve.Worker) {
	s.store = st
	s.workers = make([]*worker, len(workers))
	for _, w := range workers {
		s.workers[w.Loop().ID] = &worker{Worker: w}
	}
}

func (s *Surface) worker(x *serve.Exchange) *worker { return s.workers[x.Loop().ID] }

// job runs work off the loop and then the answer that it returns on the loop, if
// it is still wanted. Without room for it the answer is 503 busy.
func (s *Surface) job(x *serve.Exchange, work func() (answer func(*serve.Exchange))) {
	if err := x.Go(work); err != nil {
		s.tooBusy(x)
	}
}

func (s *Surface) tooBusy(x *serve.Exchange) {
	s.refuse(x, syncwire.Busy, "too many requests, try again")
}

// post runs f on l. Any goroutine; it does not block.
func post(l *loop.Loop, f func()) {
	if l.Post(f) != nil {
		l.Later(f) // the mailbox is full: a goroutine waits for room
	}
}

func (s *Surface) count(c syncwire.Code) { s.refused[int(c)%codeCount].Add(1) }

// Counters are what the surface has counted since it was made, and gauges.
type Counters struct {
	Requests int64
	Pages    int64            // of pulls and waits that were sent
	Refused  map[string]int64 // by error code, those that occurred
	// Gauges.
	Waiting    int64 // devices that wait for events (S52)
	SpoolBytes int64 // reserved by push bodies (S20a)
	LentBytes  int64 // of large answers that slow readers have not taken yet
}

// Counters returns the present values. Any goroutine.
func (s *Surface) Counters() Counters {
	c := Counters{
		Requests: s.requests.Load(), Pages: s.pages.Load(), Refused: map[string]int64{},
		Waiting: s.waits.sleeping.Load(), SpoolBytes: s.spool.UsedBytes(), LentBytes: s.lent.UsedBytes(),
	}
	for i := range s.refused {
		if n := s.refused[i].Load(); n > 0 {
			c.Refused[syncwire.Code(i).String()] = n
		}
	}
	return c
}
