package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/codec/sse"
)

const (
	// maxBlock bounds a line and an event of a stream (DR2). What is published
	// while a stream is open may be larger; that ends it.
	maxBlock = 16 << 20
	// streamItems bounds what was read and not looked at.
	streamItems = 64
)

const (
	adviceBuffering = "something in front holds the stream back until it has enough of it: proxy_buffering off and proxy_http_version 1.1 with nginx, " +
		"and the like elsewhere (docs/operations.md, Proxies)"
	adviceCompression = "something in front compresses the stream, and so holds it back: gzip off for it with nginx; " +
		"a proxy should obey Cache-Control: no-transform"
)

// streamItem is an event or a comment, and when it came.
type streamItem struct {
	comment bool
	text    string
	at      time.Time
}

// stream is an open GET /stream, read by a goroutine.
type stream struct {
	answer
	head   time.Duration // until the answer's head
	opened time.Time     // when the head came
	items  chan streamItem
	ended  chan struct{}
	err    error // why it ended; valid once ended is closed
	stop   func()
}

// openStream opens a stream and waits for its head. On a status that is not 200
// the body has been read, and the stream has no items.
func (d *doctor) openStream(ctx context.Context, query url.Values, header http.Header) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(d.Timeout, cancel)
	request, err := d.Relay.Request(ctx, http.MethodGet, "/stream", query, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header.Set("Accept", "text/event-stream")
	for name, values := range header {
		request.Header[name] = values
	}
	begin := time.Now()
	response, err := d.http.Do(request)
	if err != nil {
		inTime := late.Stop()
		cancel()
		if !inTime {
			return nil, errTimeout
		}
		return nil, reason(err)
	}
	s := &stream{
		answer: answer{response.StatusCode, response.Header, nil, response}, head: time.Since(begin), opened: time.Now(),
		items: make(chan streamItem, streamItems), ended: make(chan struct{}),
	}
	if response.StatusCode != http.StatusOK {
		s.body, _ = io.ReadAll(io.LimitReader(response.Body, maxBody))
		_ = response.Body.Close()
		cancel()
		close(s.ended)
		s.stop = func() {}
		return s, nil
	}
	if !late.Stop() { // the head came as the time was over
		_ = response.Body.Close()
		cancel()
		return nil, errTimeout
	}
	var reading sync.WaitGroup
	reading.Go(func() { s.read(ctx, response.Body) })
	s.stop = func() { cancel(); _ = response.Body.Close(); reading.Wait() }
	return s, nil
}

// read passes on what comes, until the stream ends or ctx does.
func (s *stream) read(ctx context.Context, body io.Reader) {
	defer close(s.ended)
	decoder := sse.Decoder{MaxLineBytes: maxBlock, MaxEventBytes: maxBlock}
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		fed := decoder.Feed(buf[:n], func(i sse.Item) error {
			if i.Kind == sse.KindRetry {
				return nil
			}
			select {
			case s.items <- streamItem{i.Kind == sse.KindComment, string(i.Data), time.Now()}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err = errors.Join(fed, err); err != nil {
			s.err = err
			return
		}
	}
}

// next waits for an item that is wanted, until the deadline.
func (s *stream) next(deadline time.Time, wanted func(streamItem) bool) (streamItem, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case i := <-s.items:
			if wanted(i) {
				return i, nil
			}
		case <-timer.C:
			return streamItem{}, errTimeout
		case <-s.ended:
			select {
			case i := <-s.items: // what came before the end
				if wanted(i) {
					return i, nil
				}
			default:
				return streamItem{}, s.end()
			}
		}
	}
}

// end tells why the stream ended.
func (s *stream) end() error {
	switch {
	case errors.Is(s.err, io.ErrUnexpectedEOF):
		return errors.New("the connection was cut")
	case errors.Is(s.err, io.EOF):
		return errors.New("the stream was ended")
	}
	return reason(s.err)
}

// quietFilter matches nothing that anyone publishes, so that a busy relay sends
// the doctor nothing but comments.
func quietFilter() url.Values {
	return url.Values{"filter": {`{"session":"sluice-doctor-no-such-session"}`}}
}

// checkStream opens a stream, which is kept for the heartbeat. Its head and its
// first block must come at once (R271, R274).
func (d *doctor) checkStream(ctx context.Context) finding {
	s, err := d.openStream(ctx, quietFilter(), nil)
	switch {
	case errors.Is(err, errTimeout):
		return fail(fmt.Sprintf("GET /stream: not even the head came in %v, and other requests are answered", d.Timeout), adviceBuffering)
	case err != nil:
		return fail("GET /stream: "+err.Error(), "see the log of the relay, and of the proxy in front")
	}
	d.close = append(d.close, s.stop)
	if f := judgeHead(s); f.verdict == Fail {
		return f
	}
	first, err := s.next(time.Now().Add(d.Timeout), func(i streamItem) bool { return i.comment })
	switch {
	case errors.Is(err, errTimeout):
		return fail(fmt.Sprintf("the head came after %v, and nothing else in %v", s.head.Round(time.Millisecond), d.Timeout), adviceBuffering)
	case err != nil:
		return fail("GET /stream: "+err.Error()+" before its first block", "see the log of the relay, and of the proxy in front")
	}
	d.stream = s
	took := s.head + first.at.Sub(s.opened)
	boot, opens := strings.CutPrefix(first.text, "open ")
	behind := d.notes(s.header)
	switch {
	case !opens:
		return warn("its first block is "+quote(first.text)+", and not open with a boot id"+behind,
			"this is no sluice relay: clients cannot tell that it was restarted")
	case d.boot != "" && boot != d.boot:
		return warn("its boot id is "+quote(boot)+", that of the discovery document "+quote(d.boot),
			"more than one relay answers here, or it was restarted just now: a proxy must send all clients to one relay, since they share no events")
	case took > d.slow:
		return warn(fmt.Sprintf("its first block came after %v", took.Round(time.Millisecond))+behind,
			"the relay is busy, the way is long, or a proxy holds the stream back for a while")
	}
	f := judgeHead(s)
	f.seen = fmt.Sprintf("first block after %v%s%s", took.Round(100*time.Microsecond), f.seen, behind)
	return f
}

// judgeHead looks at the head of a stream. What it has seen is to be added to
// other words.
func judgeHead(s *stream) finding {
	contentType, _, _ := mime.ParseMediaType(s.header.Get("Content-Type"))
	cache := s.header.Get("Cache-Control")
	switch encoding := s.header.Get("Content-Encoding"); {
	case s.status != http.StatusOK:
		return fail("GET /stream: "+s.told(), adviceStatus(s.status))
	case contentType != "text/event-stream":
		return fail("GET /stream has the Content-Type "+quote(s.header.Get("Content-Type"))+", and not text/event-stream",
			"browsers refuse it: let the proxy in front pass the header on, or check the URL")
	case encoding != "" && encoding != "identity":
		return fail("the stream is compressed with "+quote(encoding)+", unasked", adviceCompression)
	case !strings.Contains(cache, "no-transform"):
		return warn(", but with Cache-Control "+quote(`"`+cache+`"`)+" instead of no-cache, no-transform",
			"let the proxy in front pass the header on, or those behind it may buffer and compress")
	}
	return finding{verdict: OK}
}

// checkCompression asks for a stream as browsers do, who take compressed ones.
func (d *doctor) checkCompression(ctx context.Context) finding {
	if d.stream == nil {
		return skip("there is no stream to compare with")
	}
	s, err := d.openStream(ctx, quietFilter(), http.Header{"Accept-Encoding": {"gzip, deflate, br, zstd"}})
	switch {
	case errors.Is(err, errTimeout):
		return fail("a stream does not come when the client takes compressed ones", adviceCompression)
	case err != nil:
		return fail("GET /stream: "+err.Error(), "see the check of the stream")
	}
	defer s.stop()
	switch encoding := s.header.Get("Content-Encoding"); {
	case s.status != http.StatusOK:
		return fail("GET /stream: "+s.told(), adviceStatus(s.status))
	case encoding != "" && encoding != "identity":
		return fail("the stream is compressed with "+quote(encoding), adviceCompression)
	}
	return ok("streams are not compressed")
}

// checkHeartbeat waits for what comes on a quiet stream and a quiet socket every
// 25 s (R274, R330).
func (d *doctor) checkHeartbeat(context.Context) finding {
	switch {
	case d.Quick:
		return skip("it takes half a minute, and --quick was given")
	case d.stream == nil && d.socket == nil:
		return skip("there is no stream and no WebSocket to wait on")
	}
	const adviceCut = "something in front cuts what is quiet: let it wait for longer than 25 s " +
		"(proxy_read_timeout 120s with nginx, timeout client, server and tunnel with HAProxy)"
	var seen []string
	wait := d.heartbeat + d.slack
	late := func(what string, opened time.Time, err error) finding {
		after := time.Since(opened).Round(time.Second)
		if errors.Is(err, errTimeout) {
			return fail(fmt.Sprintf("no ping on %s in %v", what, after), "pings are held back on the way: "+adviceBuffering)
		}
		return fail(fmt.Sprintf("%s after %v on %s", err, after, what), adviceCut)
	}
	if s := d.stream; s != nil {
		ping, err := s.next(s.opened.Add(wait), func(i streamItem) bool { return i.comment && i.text == "ping" })
		if err != nil {
			return late("the stream", s.opened, err)
		}
		seen = append(seen, fmt.Sprintf("stream after %v", ping.at.Sub(s.opened).Round(100*time.Millisecond)))
	}
	if w := d.socket; w != nil {
		f, err := w.next(w.opened.Add(wait), "ping")
		if err != nil {
			return late("the WebSocket", w.opened, err)
		}
		seen = append(seen, fmt.Sprintf("WebSocket after %v", f.at.Sub(w.opened).Round(100*time.Millisecond)))
		// The one exact look at the relay's clock, not at a proxy's.
		if clock := f.clock(); clock.verdict == Warn {
			return clock
		}
	}
	return ok("ping on %s", strings.Join(seen, ", on "))
}
