package repos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client"
)

const (
	publishPath = "/firehose/publish"

	// publishTimeout bounds one request. A frame that is sent at 50 kB/s still
	// gets through.
	publishTimeout = 2 * time.Minute
	// A relay that cannot take a frame is asked publishTries times, over more
	// than half a minute.
	publishTries = 12
	firstWait    = 100 * time.Millisecond
	maxWait      = 10 * time.Second
	// maxAsked bounds what a Retry-After adds to that.
	maxAsked = time.Minute
)

// publishAdvice says what statuses of a publish mean (F52).
var publishAdvice = map[int]string{
	http.StatusUnauthorized: "the relay wants its publish token",
	http.StatusNotFound:     "nothing can be published here: has the relay a publish token set?",
}

// PublishOptions say where frames go. Immutable while Publish runs.
type PublishOptions struct {
	Relay *client.Relay // its Token is the publish token
	// Published is called with the number of each frame, in order. An error of
	// it ends Publish.
	Published func(seq int64) error
	// Notice is called with sentences about delays.
	Notice func(text string)

	pause func(context.Context, time.Duration) error // between tries, for tests
}

// PublishStats counts what Publish did.
type PublishStats struct {
	Frames, Bytes int64 // taken by the relay
	Retries       int64
	Last          int64 // number of the last frame, 0 for none
}

// Check reads an input to its end and returns the first fault in it, an
// InputError. It says nothing about what the relay will take.
func Check(in Frames) error {
	for {
		_, _, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// read is what one call of Next has given.
type read struct {
	frame []byte
	place Place
	err   error
}

// Publish posts the frames of an input one by one, and ends at the first that
// is not taken, or with ctx. A frame that is under way when ctx ends is
// finished. An error has the frame's place: it is an InputError whose fault may
// be a *Refusal.
func Publish(ctx context.Context, in Frames, o PublishOptions) (PublishStats, error) {
	if o.pause == nil {
		o.pause = client.Pause
	}
	h := *o.Relay.HTTP
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := &publisher{o: o, http: &h}

	// To read may wait for ever, so it is not done here; a frame is read when
	// the one before it was taken.
	want, frames := make(chan struct{}), make(chan read)
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case <-want:
			case <-reading.Done():
				return
			}
			var r read
			r.frame, r.place, r.err = in.Next()
			select {
			case frames <- r:
			case <-reading.Done():
				return
			}
		}
	}()
	for {
		select {
		case want <- struct{}{}:
		case <-ctx.Done():
			return p.stats, ctx.Err()
		}
		select {
		case r := <-frames:
			switch {
			case errors.Is(r.err, io.EOF):
				return p.stats, nil
			case r.err != nil:
				return p.stats, r.err
			}
			if err := p.deliver(ctx, r); err != nil {
				return p.stats, err
			}
		case <-ctx.Done():
			return p.stats, ctx.Err()
		}
	}
}

// publisher is a Publish under way. One goroutine uses it.
type publisher struct {
	o     PublishOptions
	http  *http.Client
	stats PublishStats
}

// deliver posts a frame until it is taken or refused.
func (p *publisher) deliver(ctx context.Context, r read) error {
	for try := 0; ; try++ {
		seq, err := p.post(ctx, r.frame)
		if err == nil {
			if try > 0 {
				p.o.Notice("the relay takes frames again")
			}
			p.stats.Frames++
			p.stats.Bytes += int64(len(r.frame))
			p.stats.Last = seq
			return p.o.Published(seq)
		}
		busy, isBusy := errors.AsType[*busyError](err)
		again := isBusy && (busy.status == http.StatusServiceUnavailable || busy.status == http.StatusTooManyRequests)
		if !again && !undelivered(err) {
			if _, refused := errors.AsType[*Refusal](err); !refused {
				err = fmt.Errorf("%w: the relay may have taken the frame or not", err)
			}
			return &InputError{Place: r.place, Err: err}
		}
		if try+1 == publishTries {
			return &InputError{Place: r.place, Err: fmt.Errorf("gave up after %d tries: %w", publishTries, err)}
		}
		if try == 0 {
			p.o.Notice(clean(err.Error()) + "; trying again")
		}
		wait := client.Jitter(try, firstWait, maxWait)
		if isBusy {
			wait = max(wait, min(busy.after, maxAsked))
		}
		p.stats.Retries++
		if err := p.o.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// undelivered reports whether an error is of a connection that was never made.
func undelivered(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// post makes one request and returns the number that the frame got.
func (p *publisher) post(ctx context.Context, frame []byte) (int64, error) {
	// What is under way is finished: half of it would leave open what became of
	// it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	relay := p.o.Relay
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, relay.URL(publishPath, nil), bytes.NewReader(bytes.Clone(frame)))
	if err != nil {
		return 0, err
	}
	req.Header = relay.Header()
	req.Header.Set("Content-Type", "application/vnd.ipld.dag-cbor")
	resp, err := p.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("no answer from the relay: %w", plain(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, judge(resp, publishAdvice, time.Now())
	}
	var answer struct {
		Seq int64 `json:"seq"`
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return 0, fmt.Errorf("the relay's answer: %w", err)
	}
	if json.Unmarshal(body, &answer) != nil || answer.Seq < 1 || answer.Seq > firehose.MaxSeq {
		return 0, &Refusal{Status: resp.StatusCode, Text: "the answer has no number: is this a relay?"}
	}
	return answer.Seq, nil
}
