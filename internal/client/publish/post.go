package publish

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// attemptTimeout bounds one request. A batch that is sent at 40 kB/s still
	// gets through.
	attemptTimeout = 2 * time.Minute
	// maxAnswerBytes is how much of an answer's body is read.
	maxAnswerBytes = 64 << 10
)

// span is some lines of a batch, from to to-1.
type span struct{ from, to int }

// poster sends batches by HTTP.
type poster struct {
	*sender
	http *http.Client

	// What the relay said it takes at once; 0 is not known.
	maxLines int
	maxBytes int64
}

// byPost sends the input by HTTP.
func (s *sender) byPost(ctx context.Context) (Stats, error) {
	h := *s.relay.HTTP
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := &poster{sender: s, http: &h}
	for {
		b, err := s.feed.next()
		if b == nil {
			if ctx.Err() != nil {
				return s.stats, ctx.Err()
			}
			return s.stats, inputError(err)
		}
		if err := p.send(ctx, b); err != nil {
			return s.stats, err
		}
		s.o.Progress(b.input)
		s.feed.give(b)
	}
}

// send sends the lines of a batch until each is in or refused (P1, P3).
//
// A refused line costs a request for nothing. So that many of them do not cost
// many times the whole batch, the next tries are about as long as it took to
// come to one, and become longer while all goes well.
func (p *poster) send(ctx context.Context, b *batch) error {
	strict := p.refuseUnsent(b)
	work := []span{{0, len(b.lines)}}
	most := len(b.lines)
	for len(work) > 0 {
		w := &work[0]
		if w.from == w.to {
			work = work[1:]
			continue
		}
		n := p.fit(b, span{w.from, min(w.to, w.from+most)})
		a, err := p.deliver(ctx, b.bytes(w.from, w.from+n), n)
		if err != nil {
			return err
		}
		switch {
		case a.verdict == taken:
			p.stats.Events += int64(n)
			p.stats.Bytes += int64(len(b.bytes(w.from, w.from+n)))
			w.from += n
			if n == most {
				most = min(most*2, len(b.lines))
			}
		case n > 1 && a.verdict != refused:
			most = n / 2
		default:
			bad := w.from + a.line
			r := Refusal{Line: b.lines[bad].number, Reason: a.reason}
			p.refuse(r)
			if most = 2 * a.line; most == 0 {
				most = max(n/4, 1)
			}
			rest := append([]span{{w.from, bad}, {bad + 1, w.to}}, work[1:]...)
			if err := p.strict(r); err != nil {
				// What comes before it is still sent; a line there may be
				// refused too, and is then the first.
				strict, rest = err, rest[:1]
			}
			work = rest
		}
	}
	return strict
}

// fit returns how many lines of s go into one request, at least one.
func (p *poster) fit(b *batch, s span) int {
	n := s.to - s.from
	if p.maxLines > 0 {
		n = min(n, p.maxLines)
	}
	for p.maxBytes > 0 && n > 1 && int64(len(b.bytes(s.from, s.from+n))) > p.maxBytes {
		n = (n + 1) / 2
	}
	return n
}

// deliver sends a request of n lines until it is answered in a way that another
// try would not change.
func (p *poster) deliver(ctx context.Context, body []byte, n int) (answer, error) {
	for first := true; ; first = false {
		p.stats.Requests++
		if !first {
			p.stats.Retries++
		}
		a, err := p.post(ctx, body, n)
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case err != nil && isFinal(err):
			return a, fmt.Errorf("%w: %w", ErrFinal, err)
		case err == nil && a.verdict == never:
			return a, fmt.Errorf("%w: %s", ErrFinal, a.reason)
		case err == nil && a.verdict != later:
			p.outage.over()
			p.learn(a)
			return a, nil
		case err == nil:
			err = errors.New(a.reason)
		}
		if err := p.outage.wait(ctx, err, a.after); err != nil {
			return a, err
		}
	}
}

// learn keeps what the relay said about its limits.
func (p *poster) learn(a answer) {
	if a.maxLines > 0 {
		p.maxLines = a.maxLines
	}
	if a.maxBytes > 0 {
		p.maxBytes = a.maxBytes
	}
}

// post makes one request. Body is borrowed until return.
func (p *poster) post(ctx context.Context, body []byte, n int) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	lent := &loan{bytes: body}
	defer lent.end()
	req, err := p.relay.Request(ctx, http.MethodPost, "/events", nil, lent.reader())
	if err != nil {
		return answer{}, err
	}
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return lent.reader(), nil }
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := p.http.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("no answer from the relay: %w", withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	// What is said besides the status is of use only.
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	return judge(res.StatusCode, res.Header, said, n, time.Now()), nil
}

// loan is a body that is lent to a request: package http may go on reading when
// it has returned already, as when the answer came early.
type loan struct {
	mu    sync.Mutex
	bytes []byte // nil once it is ended
}

// reader returns a reader of its own.
func (l *loan) reader() io.ReadCloser { return &loanReader{loan: l} }

// end takes the body back.
func (l *loan) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = nil
}

type loanReader struct {
	loan   *loan
	offset int
}

func (r *loanReader) Read(p []byte) (int, error) {
	r.loan.mu.Lock()
	defer r.loan.mu.Unlock()
	if r.loan.bytes == nil {
		return 0, io.ErrClosedPipe
	}
	n := copy(p, r.loan.bytes[r.offset:])
	r.offset += n
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *loanReader) Close() error { return nil }

// withoutURL takes away what package http puts around a transport's error.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// isFinal reports whether trying again would not help: the server is not who it
// should be, or does not speak TLS.
func isFinal(err error) bool {
	_, wrong := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return wrong || plain || errors.Is(err, http.ErrSchemeMismatch)
}
