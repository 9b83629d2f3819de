package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/client"
)

// Bounds of answers, in bytes, and of the time that requests may take. A page
// is eight times what our relay sends at most (S36).
const (
	maxPageBytes   = 64 << 20
	maxAnswerBytes = 64 << 10

	shortTime = 30 * time.Second
	longTime  = 2 * time.Minute
	waitTime  = 25 * time.Second // S52's default, below the transport's 30 s
	waitSlack = 15 * time.Second
)

// peer is where a relay is and its connections. Immutable.
type peer struct {
	relay *client.Relay
	http  *http.Client
}

// remote is one relay as one owner speaks to it. Immutable; any goroutine may
// use it. Its errors are *Refusal for another status, *fault for an answer that
// cannot be read, and the transport's; none holds the token.
type remote struct {
	*peer
	id  *synccrypt.Identity
	now func() time.Time
}

// remote returns a relay as an owner speaks to it. Connections are kept per
// relay until Close.
func (d *Device) remote(address string, id *synccrypt.Identity) (*remote, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[address]
	if p == nil {
		relay, err := client.New(address, "")
		if err != nil {
			return nil, err
		}
		p = &peer{relay: relay, http: &http.Client{
			Transport: relay.HTTP.Transport,
			// The token must not follow a redirect to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		if d.o.Transport != nil {
			p.http.Transport = d.o.Transport
		}
		d.peers[address] = p
	}
	return &remote{peer: p, id: id, now: d.o.Now}, nil
}

// forgetPeers ends the connections to relays that are none any more.
func (d *Device) forgetPeers(keep func(url string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for url, p := range d.peers {
		if !keep(url) {
			p.http.CloseIdleConnections()
			delete(d.peers, url)
		}
	}
}

// do makes a request as the owner. The caller closes the answer's body.
func (r *remote) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.relay.URL(path, query), body)
	if err != nil {
		return nil, bare(err)
	}
	if path != "/health" {
		req.Header.Set("Authorization", "Bearer "+r.id.RelayAuth)
	}
	req.Header.Set("Accept-Encoding", "identity") // bounds are of what is sent
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := r.http.Do(req)
	return resp, bare(err)
}

// bare takes the URL out of a transport's error: its query is of no use to
// people.
func bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// call makes a request that takes so long at most, and returns the body of a
// 200 up to limit bytes, nil for a 204.
func (r *remote) call(ctx context.Context, long time.Duration, method, path string, query url.Values, body []byte, limit int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	resp, err := r.do(ctx, method, path, query, in)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return readBounded(resp, limit)
	case http.StatusNoContent:
		return nil, nil
	}
	return nil, r.refusal(resp)
}

// readBounded reads a body of limit bytes at most.
func readBounded(resp *http.Response, limit int) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(resp.ContentLength, 0)+bytes.MinRead, int64(limit), 8<<20)))
	n, err := b.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, err
	case n > int64(limit):
		return nil, &fault{reasonBadPage, fmt.Sprintf("it is longer than %d bytes", limit)}
	}
	return b.Bytes(), nil
}

// refusal reads an answer other than a good one.
func (r *remote) refusal(resp *http.Response) *Refusal {
	f := &Refusal{
		Status: resp.StatusCode, RetryAfter: client.RetryAfter(resp.Header.Get("Retry-After"), r.now()), owner: r.id.OwnerID,
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	var body struct{ Error, Message string }
	if json.Unmarshal(text, &body) == nil {
		if len(body.Error) <= 64 && strings.Trim(body.Error, "abcdefghijklmnopqrstuvwxyz_") == "" {
			f.Code = body.Error
		}
		f.Message = printable(withoutToken(body.Message, r.id))
	}
	return f
}

// printable returns up to 200 bytes of a text for people, without any character
// that could move a terminal's cursor.
func printable(text string) string {
	var b strings.Builder
	for _, c := range text {
		if b.Len() >= 200-utf8.UTFMax {
			break
		}
		if !strconv.IsPrint(c) {
			c = '?'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// decode reads the body of a small answer.
func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return &fault{reasonBadPage, "it is not the JSON that belongs there"}
	}
	return nil
}

// owner is the query of most routes.
func (r *remote) owner() url.Values { return url.Values{"ownerId": {r.id.OwnerID}} }

// health is what a relay says of itself.
type health struct {
	OK       bool
	Features []string
}

// waits tells whether a pull may wait there (S52).
func (h *health) waits() bool { return slices.Contains(h.Features, "wait") }

// health asks how the relay is, without the token.
func (r *remote) health(ctx context.Context) (h health, err error) {
	body, err := r.call(ctx, shortTime, "GET", "/health", nil, nil, maxAnswerBytes)
	if err != nil {
		return health{}, err
	}
	return h, decode(body, &h)
}

// account is what a relay says of the owner. HeadSeq is the greatest number of
// a stored event.
type account struct {
	CreatedAt                              string
	HeadSeq, Events, UsedBytes, QuotaBytes int64
}

// status asks for the owner's account.
func (r *remote) status(ctx context.Context) (account, error) {
	body, err := r.call(ctx, shortTime, "GET", "/v1/status", r.owner(), nil, maxAnswerBytes)
	if err != nil {
		return account{}, err
	}
	var a struct{ Account account }
	if err := decode(body, &a); err != nil {
		return account{}, err
	}
	a.Account.CreatedAt = printable(a.Account.CreatedAt)
	return a.Account, nil
}

// push sends envelopes. They are stored at the relay when it returns nil.
func (r *remote) push(ctx context.Context, envelopes [][]byte) error {
	size := len(r.id.OwnerID) + 64
	for _, e := range envelopes {
		size += len(e) + 1
	}
	body := append(make([]byte, 0, size), `{"ownerId":"`...)
	body = append(body, r.id.OwnerID...) // base64url: nothing to escape
	body = append(body, `","events":[`...)
	body = append(body, bytes.Join(envelopes, []byte{','})...)
	body = append(body, `]}`...)
	answer, err := r.call(ctx, longTime, "POST", "/v1/events", nil, body, maxAnswerBytes)
	if err != nil {
		return err
	}
	var counts struct{ Accepted, Duplicate int64 }
	if err := decode(answer, &counts); err != nil {
		return err
	}
	if counts.Accepted < 0 || counts.Duplicate < 0 || counts.Accepted+counts.Duplicate != int64(len(envelopes)) {
		return &fault{reasonBadPage, fmt.Sprintf("it counts %d and %d events of %d", counts.Accepted, counts.Duplicate, len(envelopes))}
	}
	return nil
}

// pull asks for the page after a cursor, "" for the first.
func (r *remote) pull(ctx context.Context, after string, limit int) (page, error) {
	p, _, err := r.page(ctx, longTime, "/v1/events", after, url.Values{"limit": {strconv.Itoa(limit)}})
	return p, err
}

// wait is a pull that waits for an event (S52); came is false when none came
// in timeout.
func (r *remote) wait(ctx context.Context, after string, limit int, timeout time.Duration) (p page, came bool, err error) {
	return r.page(ctx, timeout+waitSlack, "/v1/events/wait", after, url.Values{
		"limit": {strconv.Itoa(limit)}, "timeout": {strconv.FormatInt(timeout.Milliseconds(), 10)},
	})
}

func (r *remote) page(ctx context.Context, long time.Duration, path, after string, query url.Values) (page, bool, error) {
	query.Set("ownerId", r.id.OwnerID)
	if after != "" {
		query.Set("after", after)
	}
	body, err := r.call(ctx, long, "GET", path, query, nil, maxPageBytes)
	if err != nil || body == nil {
		return page{}, false, err
	}
	p, err := splitPage(body)
	return p, true, err
}

// compact deletes the events of streams at the relay (D36). It takes up to
// 1,000.
func (r *remote) compact(ctx context.Context, streams []string) error {
	body, err := json.Marshal(struct {
		OwnerID   string   `json:"ownerId"`
		StreamIDs []string `json:"streamIds"`
	}{r.id.OwnerID, streams})
	if err != nil {
		return err
	}
	_, err = r.call(ctx, longTime, "POST", "/v1/streams/compact", nil, body, maxAnswerBytes)
	return err
}

// closeOwner closes the owner at the relay for good (D39). Closing twice is no
// error there (S43).
func (r *remote) closeOwner(ctx context.Context) error {
	_, err := r.call(ctx, longTime, "POST", "/v1/owner/close", nil, []byte(`{"ownerId":"`+r.id.OwnerID+`"}`), maxAnswerBytes)
	return err
}
