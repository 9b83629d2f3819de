package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sluice-relay/sluice/internal/demo/fleet"

	"github.com/sluice-relay/sluice/internal/client"
)

// A batch is sent when it has so many events, or so long after its first.
const (
	batchEvents = 200
	batchWait   = 100 * time.Millisecond
	postTimeout = 30 * time.Second
	maxRetry    = 30 * time.Second // bound on Retry-After
)

// poster is a sender that posts the events of all agents, one request at a
// time, so that none overtakes another (D2).
type poster struct {
	player *player
	in     chan fleet.Event
	pause  backoff
}

func newPoster(p *player) *poster { return &poster{player: p, in: make(chan fleet.Event, queueCount)} }

func (s *poster) queue(int) chan<- fleet.Event { return s.in }
func (s *poster) close()                       { close(s.in) }

func (s *poster) run(ctx context.Context) {
	for {
		body := s.collect(ctx)
		if len(body) == 0 {
			return
		}
		if err := s.deliver(ctx, body); err != nil {
			if errors.Is(err, ErrRefused) {
				s.player.refuse(err)
			} else {
				drop(ctx, s.in)
			}
			return
		}
	}
}

// collect returns the next batch as NDJSON, empty at the end.
func (s *poster) collect(ctx context.Context) []byte {
	var body []byte
	timer := time.NewTimer(batchWait)
	defer timer.Stop()
	full := (<-chan time.Time)(nil) // the first event may take its time
	for n := 0; n < batchEvents; n++ {
		select {
		case e, open := <-s.in:
			if !open {
				return body
			}
			body = append(append(body, e.Text...), '\n')
			if n == 0 {
				timer.Reset(batchWait)
				full = timer.C
			}
		case <-full:
			return body
		case <-ctx.Done():
			return nil
		}
	}
	return body
}

// deliver posts a batch until it is taken, or given up at the end. The same bytes again do no harm,
// since the relay knows events by source and id (R161).
func (s *poster) deliver(ctx context.Context, body []byte) error {
	counts := &s.player.counts
	for {
		wait, err := s.post(ctx, body)
		switch {
		case err == nil:
			counts.connected.Store(1)
			counts.accepted.Add(int64(bytes.Count(body, []byte{'\n'})))
			s.pause.reset()
			return nil
		case errors.Is(err, ErrRefused), ctx.Err() != nil:
			return err
		}
		if counts.connected.Swap(0) == 1 {
			counts.reconnects.Add(1)
		}
		counts.problem(err)
		if !s.player.pause(ctx, &s.pause, err, wait) {
			return err
		}
	}
}

// post tries once. It returns how long to wait at least after an error.
func (s *poster) post(ctx context.Context, body []byte) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	relay := s.player.opts.Relay
	request, err := relay.Request(ctx, http.MethodPost, "/events", nil, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := relay.HTTP.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusAccepted:
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1024))
		return 0, nil
	case final(response.StatusCode):
		return 0, fmt.Errorf("%w: %w", ErrRefused, explain(response, relay.Token != ""))
	}
	wait := min(client.RetryAfter(response.Header.Get("Retry-After"), time.Now()), maxRetry)
	return wait, explain(response, relay.Token != "")
}
