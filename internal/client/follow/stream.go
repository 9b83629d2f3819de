package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/sse"
)

// readBytes is the size of one read of a stream.
const readBytes = 64 << 10

// headSlack is how much longer than an event's text its line may be.
const headSlack = 4 << 10

// watch ends a context when nothing was heard for too long. Only the time spent
// in reading counts: a reader whose output blocks hears nothing either.
type watch struct {
	timer  *time.Timer
	limit  time.Duration
	silent atomic.Bool
}

func newWatch(cancel context.CancelFunc, limit time.Duration) *watch {
	w := &watch{limit: limit}
	w.timer = time.AfterFunc(limit, func() {
		w.silent.Store(true)
		cancel()
	})
	return w
}

func (w *watch) begin() { w.timer.Reset(w.limit) }

// end returns the error of a read, or why there was none.
func (w *watch) end(err error) error {
	w.timer.Stop()
	if err != nil && w.silent.Load() {
		return errSilent
	}
	return err
}

// stream reads GET /stream until it ends, and never returns nil for one that
// is live. A replay ends with nil if it was complete.
func (f *follower) stream(ctx context.Context, r *request, emit emitter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query, lastEventID := f.query(r)
	req, err := f.o.Relay.Request(ctx, http.MethodGet, "/stream", query, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	setHeaders(req.Header, lastEventID)
	resp, err := f.o.Relay.HTTP.Do(req)
	if err != nil {
		return plain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return f.refused(resp, len(r.from))
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return &Refusal{Status: resp.StatusCode, Text: "the answer is " + clean(kind) + ", not an event stream: is this a relay?"}
	}
	up := &batch{req: r}
	up.add(item{what: isUp})
	if err := emit(up); err != nil {
		return err
	}
	w := newWatch(cancel, f.o.Silence)
	defer w.timer.Stop()
	return f.readStream(resp.Body, r, w, emit)
}

// readStream reads a stream's body.
func (f *follower) readStream(body io.Reader, r *request, w *watch, emit emitter) error {
	decoder := sse.Decoder{MaxLineBytes: f.o.MaxEventBytes + headSlack, MaxEventBytes: f.o.MaxEventBytes + headSlack}
	buf := make([]byte, readBytes)
	read := int64(0)
	complete := false
	for {
		w.begin()
		n, err := body.Read(buf)
		err = w.end(err)
		b := &batch{req: r, data: make([]byte, 0, n)}
		tooLong := decoder.Feed(buf[:n], func(it sse.Item) error {
			b.sse(it)
			return nil
		})
		for i := range b.items {
			complete = complete || b.items[i].what == isComplete
		}
		if len(b.items) > 0 {
			if err := emit(b); err != nil {
				return err
			}
		}
		read += int64(n)
		switch {
		case tooLong != nil:
			return fmt.Errorf("%w: %w", ErrTooLong, tooLong)
		case complete && !r.live:
			return nil
		case !r.live && r.all && f.partial(read):
			return errSearch
		case errors.Is(err, io.EOF):
			return errEnded
		case err != nil:
			return plain(err)
		}
	}
}

// errSearch ends a replay of everything that has read too much.
var errSearch = errors.New("too much to search")

// partial reports whether a search for sessions has read enough. What the
// reader asked for has no bound.
func (f *follower) partial(read int64) bool { return !f.o.All && read > f.o.searchBytes }

// plain takes the URL out of an error of the HTTP client: what was asked is
// long, and known.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
