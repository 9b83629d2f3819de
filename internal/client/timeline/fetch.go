package timeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/sse"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/client/render"
)

// silence is how long a replay may pause: a relay paces it by what the
// consumer takes (R423) and never by a clock.
const silence = time.Minute

// maxLineBytes bounds an event of a replay: far more than a relay takes by
// default (AEP_MAX_BODY).
const maxLineBytes = 256 << 20

// What Fetch fails with, besides errors of the network.
var (
	// ErrRefused: the relay answered with another status than 200.
	ErrRefused = errors.New("the relay refused")
	// ErrCut: the replay ended before its end was said (R274).
	ErrCut = errors.New("the replay was cut off before its end")
	// ErrUnreachable: there is no relay at that address.
	ErrUnreachable = errors.New("cannot reach the relay")
	// ErrSilent: nothing came for a minute (see silence).
	ErrSilent = errors.New("the relay has fallen silent in the replay")
)

// Fetch adds what a relay holds of the builder's session: a replay of
// GET /stream from the earliest event, which ends by itself (R165, R168, R279).
// What was added before an error stays.
func (b *Builder) Fetch(ctx context.Context, r *client.Relay) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(b.silence, func() { cancel(ErrSilent) })
	defer watch.Stop()
	session, err := json.Marshal(b.session)
	if err != nil {
		return err
	}
	query := url.Values{
		"filter": {fmt.Sprintf(`{"session":%s}`, session)},
		"from":   {fmt.Sprintf(`[{"session":%s}]`, session)},
		"live":   {"0"},
	}
	req, err := r.Request(ctx, http.MethodGet, "/stream", query, nil)
	if err != nil {
		return err
	}
	answer, err := r.HTTP.Do(req)
	if err != nil {
		return because(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refusal(answer)
	}
	done, err := b.stream(answer.Body, func() { watch.Reset(b.silence) })
	switch {
	case done:
		return nil
	case err == nil:
		return ErrCut
	}
	return because(ctx, err)
}

// because prefers the reason for which a request was cancelled. It takes the
// URL out of an error of the HTTP client: what was asked is long, and known.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if refused, ok := errors.AsType[*os.SyscallError](err); ok && refused.Syscall == "connect" {
		return fmt.Errorf("%w: %w", ErrUnreachable, refused.Err)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// stream adds the events of a stream up to its end, and reports whether it
// said that it is complete.
func (b *Builder) stream(body io.Reader, alive func()) (done bool, err error) {
	decoder := sse.Decoder{MaxLineBytes: maxLineBytes, MaxEventBytes: maxLineBytes}
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			if err := decoder.Feed(buf[:n], func(i sse.Item) error {
				switch {
				case i.Kind == sse.KindEvent:
					b.Add(i.Data)
				case i.Kind == sse.KindComment && string(i.Data) == "replay-complete":
					done = true
				case i.Kind == sse.KindComment:
					b.comment(i.Data)
				}
				return nil
			}); err != nil {
				return done, err
			}
		}
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
}

// comment takes the announcement of a gap (R274): the position stands after
// the last space, since the name of a session may have some.
func (b *Builder) comment(text []byte) {
	rest, ok := bytes.CutPrefix(text, []byte("replay-exhausted "))
	at := bytes.LastIndexByte(rest, ' ')
	if !ok || at < 0 {
		return
	}
	e, s, ok := strings.Cut(string(rest[at+1:]), ":")
	epoch, err1 := strconv.ParseInt(e, 10, 64)
	seq, err2 := strconv.ParseInt(s, 10, 64)
	if ok && err1 == nil && err2 == nil {
		b.Gap(epoch, seq)
	}
}

// refusal makes an error of an answer, with what the relay says about it.
func refusal(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
	said := render.Escape(strings.TrimSpace(string(text)))
	if answer.StatusCode == http.StatusUnauthorized && said == "" {
		said = "it wants a token: set AEP_TOKEN, or give --token-file"
	}
	if said != "" {
		said = ": " + said
	}
	return fmt.Errorf("%w: %d %s%s", ErrRefused, answer.StatusCode, http.StatusText(answer.StatusCode), said)
}
