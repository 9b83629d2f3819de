package relay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-relay/sluice/engine/serve"
)

const (
	// drainTime is how long after the signal, and after the drain window,
	// everything has to be closed (R464).
	drainTime = 5 * time.Second
	// dropAhead is how long before that the firehose's consumers are cut, which is
	// an orderly end for them (F48).
	dropAhead = 300 * time.Millisecond
	// stopTime is how long the loops themselves may take to end after that.
	stopTime = 5 * time.Second
	// drainStep is how often peers are told during a drain window.
	drainStep = 50 * time.Millisecond
	// requestTime is how long streams wait for requests in flight, so that they
	// still get what those bring. It is less than what a silent request has.
	requestTime = time.Second
	requestStep = 5 * time.Millisecond
)

// ErrNotDrained tells that connections were still open when the time for an
// orderly end was over (R464).
var ErrNotDrained = errors.New("relay: connections were still open at the end of the drain time")

// Shutdown ends the relay in an orderly way (R460 to R464): it turns unready,
// stops accepting, lets requests in flight finish for a second, tells streams and
// sockets, spread evenly over the drain window, and closes what is left 5 s after
// that, or when ctx ends, with ErrNotDrained. Requests that finish once streams
// have ended bring nothing in: nobody would get it (503). Later calls wait for the first and
// return its result.
func (r *Relay) Shutdown(ctx context.Context) error {
	r.stop.Do(func() { r.stopErr = r.shutdown(ctx) })
	return r.stopErr
}

// Hurry skips what is left of the drain window. Any goroutine.
func (r *Relay) Hurry() { r.hurryOnce.Do(func() { close(r.hurry) }) }

func (r *Relay) shutdown(ctx context.Context) error {
	r.draining.Store(true)
	r.server.StopAccepting()
	r.post((*serve.Worker).StopServing)
	if r.sync != nil {
		r.sync.StopWaiting()
	}
	began := time.Now()
	r.finishRequests(ctx)
	r.surface.SealRequests()
	left := drainTime - time.Since(began)
	r.drain(ctx)
	r.surface.Seal()
	r.sealAEPWS()
	r.stopFirehose()
	r.post((*serve.Worker).Shutdown)
	if f := r.firehose; f != nil {
		defer time.AfterFunc(left-dropAhead, f.surface.Drop).Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	err := r.awaitDrained(ctx)
	stopCtx, cancelStop := context.WithTimeout(context.Background(), stopTime)
	defer cancelStop()
	if stopErr := r.server.Stop(stopCtx); stopErr != nil && err == nil {
		err = stopErr
	}
	r.jobs.Close()
	err = errors.Join(err, r.closeSync(), r.closeFirehose(), r.closeAEPWS())
	if r.admin != nil {
		err = errors.Join(err, r.admin.Close(stopCtx))
	}
	return err
}

// finishRequests waits for requests in flight, for requestTime at most.
func (r *Relay) finishRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	left := make(chan int, len(r.workers))
	for {
		r.post(func(w *serve.Worker) { left <- w.RequestsLeft() })
		sum := 0
		for range r.workers {
			select {
			case n := <-left:
				sum += n
			case <-ctx.Done():
				return
			case <-r.served:
				return
			}
		}
		if sum == 0 {
			return
		}
		select {
		case <-time.After(requestStep):
		case <-ctx.Done():
			return
		}
	}
}

// post runs f on each worker's loop.
func (r *Relay) post(f func(*serve.Worker)) {
	for _, w := range r.workers {
		w.Loop().Later(func() { f(w) }) // waits where a mailbox is full
	}
}

// drain tells peers over the drain window, so many in each step that the rest of
// the window is enough for the rest of them (C61).
func (r *Relay) drain(ctx context.Context) {
	if r.cfg.Drain <= 0 {
		return
	}
	end := time.Now().Add(r.cfg.Drain)
	due := make([]float64, len(r.workers)) // owned by the loops
	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	for r.server.Conns() > 0 {
		select {
		case <-tick.C:
		case <-r.hurry:
			return
		case <-ctx.Done():
			return
		case <-r.served:
			return
		}
		steps := int64(time.Until(end)/drainStep) + 1
		if steps <= 1 {
			return
		}
		r.post(func(w *serve.Worker) {
			share := &due[w.Loop().ID]
			*share += float64(w.PeersLeft()) / float64(steps)
			w.TellPeers(int(*share))
			*share -= math.Trunc(*share)
		})
	}
}

// awaitDrained waits until no connection is left.
func (r *Relay) awaitDrained(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.server.Conns() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (%d)", ErrNotDrained, r.server.Conns())
		case <-r.served:
			return r.serveErr
		}
	}
	return nil
}
