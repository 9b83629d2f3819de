package follow

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// saveEvery is how often the state file is written at most.
	saveEvery = time.Second
	// registered is how long after the answer's head a subscription is there
	// even if the relay has not said a word.
	registered = time.Second
)

// attempt is one connection: the live one, and the replays beside it, which
// begin once the live subscription is there, so that nothing falls between.
type attempt struct {
	live, replay   *pump
	liveC, replayC chan *batch
	asked          *request
	replays        []*request
	catchUp        func() // begins with the replays, once
}

// connect begins an attempt. Its goroutines end with ctx.
func (f *follower) connect(ctx context.Context, wg *sync.WaitGroup) *attempt {
	f.connection++
	f.lookAround(ctx)
	a := &attempt{}
	a.asked, a.replays = f.plan()
	a.catchUp = func() {
		if a.replay == nil {
			a.replay = startPump(ctx, wg, func(emit emitter) error { return f.readReplays(ctx, a.replays, emit) })
			a.replayC = a.replay.batches
		}
	}
	if a.asked == nil {
		a.catchUp()
		return a
	}
	a.live = startPump(ctx, wg, func(emit emitter) error { return f.readLive(ctx, a.asked, emit) })
	a.liveC = a.live.batches
	return a
}

// attend makes one connection and works off what it tells until it ends. It
// returns nil only if all that was wanted has come.
func (f *follower) attend(parent context.Context) (err error) {
	ctx, cancel := context.WithCancel(parent)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	a := f.connect(ctx, &wg)
	defer func() {
		if parent.Err() != nil && f.o.State != "" {
			f.leave()
		}
		if _, broken := errors.AsType[sinkError](err); !broken {
			err = errors.Join(f.releaseLoose(), err)
		}
		f.searching, f.loose = false, false
	}()
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	var quiet <-chan time.Time // the relay has said nothing yet
	for {
		select {
		case b, ok := <-a.liveC:
			if !ok {
				return f.cut(a.live.err, a.asked)
			}
			signs, err := f.takeBatch(b)
			if err != nil {
				return err
			}
			if f.up && signs {
				a.catchUp()
			} else if f.up && quiet == nil {
				quiet = time.After(registered)
			}
		case <-quiet:
			a.catchUp()
		case b, ok := <-a.replayC:
			if done, err := f.takeReplays(a, b, ok); done || err != nil {
				return err
			}
		case <-save.C:
			if err := f.saveSoon(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		if len(a.liveC) == 0 && len(a.replayC) == 0 {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
}

// takeReplays takes a batch of the replays, or their end. done reports whether
// nothing more is to come.
func (f *follower) takeReplays(a *attempt, b *batch, more bool) (done bool, err error) {
	if more {
		_, err := f.takeBatch(b)
		return false, err
	}
	if a.replay.err != nil {
		return false, f.cut(a.replay.err, a.replays...)
	}
	a.replayC = nil
	return a.live == nil, f.settle()
}

// readLive reads the live connection.
func (f *follower) readLive(ctx context.Context, r *request, emit emitter) error {
	if f.o.Socket {
		return f.socket(ctx, r, emit)
	}
	return f.stream(ctx, r, emit)
}

// readReplays reads one replay after the other.
func (f *follower) readReplays(ctx context.Context, replays []*request, emit emitter) error {
	for _, r := range replays {
		err := f.stream(ctx, r, emit)
		if errors.Is(err, errSearch) {
			b := &batch{req: r}
			b.add(item{what: isIncomplete})
			err = emit(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cut looks at the end of a connection: a relay that takes fewer positions is
// asked for half as many, and at last for everything.
func (f *follower) cut(err error, requests ...*request) error {
	if errors.Is(err, errTooMany) {
		longest := 0
		for _, r := range requests {
			longest = max(longest, len(r.from))
		}
		f.fromLimit = min(f.fromLimit, longest) / 2
	}
	if err == nil {
		err = errEnded
	}
	return err
}

// takeBatch works off a batch. signs reports whether the relay has said
// anything besides accepting the request.
func (f *follower) takeBatch(b *batch) (signs bool, err error) {
	f.heard = f.now()
	for i := range b.items {
		it := &b.items[i]
		signs = signs || it.what != isUp
		switch it.what {
		case isEvent:
			take := f.takeLive
			if !b.req.live {
				take = func(text []byte) error { return f.takeReplay(b.req, text) }
			}
			err = take(b.text(it))
		case isUp:
			f.accepted()
		case isBoot:
			if !f.o.Once && !b.req.live && it.text != f.boot {
				return signs, errEnded // the live connection is to the old one
			}
			if f.booted(it.text) {
				return signs, errAnother
			}
		case isGap:
			if b.req.live || !b.req.all || f.takes(b.req, it.session) {
				f.gap(it)
			}
		case isShed:
			f.notice(Notice{Kind: Shed, Count: it.n})
		case isClosing:
			f.notice(Notice{Kind: Closing, Text: clean(it.text)})
		case isRetry:
			f.backoff.retry = time.Duration(min(it.n, maxAsked.Milliseconds())) * time.Millisecond
		case isIncomplete:
			f.complete = f.blank
			f.notice(Notice{Kind: Incomplete})
		}
		if err != nil {
			return signs, err
		}
	}
	return signs, nil
}

// takes reports whether events of a session are taken from a replay of all.
func (f *follower) takes(r *request, session string) bool {
	t := f.tracks.bySession[session]
	return t != nil && (t.waiting == r.index || t.born == f.connection)
}

// accepted takes note that there is a connection.
func (f *follower) accepted() {
	if f.down {
		f.notice(Notice{Kind: Connected})
	}
	f.up, f.down, f.why, f.resumed = true, false, "", true
}

// booted compares the relay's boot id with the last one (R55). It reports
// whether positions were asked for that mean nothing to this relay: sessions
// may be numbered from their start again.
func (f *follower) booted(boot string) (another bool) {
	recalled := f.recalled
	f.recalled = false
	if f.boot == boot {
		return false
	}
	if f.boot != "" {
		if f.down { // over a socket the boot id comes before the request is accepted
			f.notice(Notice{Kind: Connected})
			f.down = false
		}
		n := Notice{Kind: Restarted}
		if recalled {
			n.Text = "another relay, or one that was restarted"
		}
		f.notice(n)
		f.restarted = true
		another = f.tracks.rewind()
	}
	f.boot, f.dirty = boot, true
	return another
}

// lookAround asks, before the first connection, whether the relay holds
// nothing: then every session that is met later began after this.
func (f *follower) lookAround(ctx context.Context) {
	if f.resumed || f.o.All || f.o.Once || f.o.State != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := f.o.Relay.Request(ctx, http.MethodGet, "/healthz", nil, nil)
	if err != nil {
		return
	}
	resp, err := f.o.Relay.HTTP.Do(req)
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	var health struct{ Sessions *int64 }
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	f.blank = err == nil && json.Unmarshal(body, &health) == nil && health.Sessions != nil && *health.Sessions == 0
}
