package timeline

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// fetch fetches session s from a relay at an address.
func fetch(t *testing.T, url, token string) (*Builder, error) {
	t.Helper()
	r, err := client.New(url, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.HTTP.CloseIdleConnections)
	b := New("s <1>")
	return b, b.Fetch(t.Context(), r)
}

// A real relay gives what it holds: with a buffer of 4, the last four events,
// of this session alone.
func TestFetchRelay(t *testing.T) {
	r := testrelay.Start(t, "AEP_TOKEN=secret", "AEP_BUFFER=4")
	t.Cleanup(func() { testrelay.Stop(t, r) })
	url := "http://" + r.Addr()
	var body strings.Builder
	for seq := range 6 {
		for _, session := range []string{`"s <1>"`, `"other"`} {
			body.WriteString(strings.Replace(event("progress.status", 1, seq, `,"run":"r"`), `"session":"s"`, `"session":`+session, 1))
			body.WriteByte('\n')
		}
	}
	c, err := client.New(url, "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	req, err := c.Request(t.Context(), http.MethodPost, "/events", nil, strings.NewReader(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := c.HTTP.Do(req)
	if err != nil || answer.StatusCode != http.StatusAccepted {
		t.Fatalf("%v, %v", answer, err)
	}
	answer.Body.Close()

	b, err := fetch(t, url, "secret")
	if err != nil || b.Len() != 4 {
		t.Fatalf("%d events, %v", b.Len(), err)
	}
	if text := string(b.Timeline().AppendText(nil, TextOptions{})); !strings.Contains(text, "begins at seq 2") {
		t.Error(text)
	}
	if _, err := fetch(t, url, "wrong"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "AEP_TOKEN") {
		t.Errorf("wrong token: %v", err)
	}
}

// What a stream says is taken as it is, and an end that is not said is an
// error.
func TestFetchStreams(t *testing.T) {
	one := "event: progress.status\ndata: " +
		strings.Replace(event("progress.status", 0, 3, ""), `"session":"s"`, `"session":"s <1>"`, 1) + "\nid: s:0:3\n\n"
	f := func(name, stream string, wantEvents, wantGaps int, want error) {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.Query().Get("from"); got != `[{"session":"s \u003c1\u003e"}]` || r.URL.Query().Get("live") != "0" {
				t.Errorf("%s: query %s", name, r.URL.RawQuery)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
		}))
		defer server.Close()
		b, err := fetch(t, server.URL, "")
		if !errors.Is(err, want) || b.Len() != wantEvents || len(b.gaps) != wantGaps {
			t.Errorf("%s: %d events, %d gaps, %v", name, b.Len(), len(b.gaps), err)
		}
	}
	const open, complete = ": open boot\nretry: 1000\n\n", ": replay-complete\n\n"
	f("whole", open+one+complete, 1, 0, nil)
	f("nothing held", open+complete, 0, 0, nil)
	f("gap", open+": replay-exhausted s <1> 0:3\n\n"+one+complete, 1, 1, nil)
	f("gap without a position", open+": replay-exhausted s <1>\n\n: replay-exhausted\n\n"+complete, 0, 0, nil)
	f("cut", open+one, 1, 0, ErrCut)
	f("shut down", open+one+": shutting-down\n\n", 1, 0, ErrCut)
	f("torn", open+one+"data: {\"session\":\"s", 1, 0, ErrCut)
}

// A refusal shows what the relay says, escaped; a relay that is not there is
// an error of the network.
func TestFetchRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no \x1b[31m"+strings.Repeat("x", 1000), http.StatusForbidden)
	}))
	_, err := fetch(t, server.URL, "")
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `403 Forbidden: no \x1b[31mxxx`) || len(err.Error()) > 400 {
		t.Errorf("%v", err)
	}
	server.Close()
	if _, err := fetch(t, server.URL, ""); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("closed: %v", err)
	}
}

// A relay that falls silent, before or after its head, is given up; so is one
// that the caller has enough of.
func TestFetchHangs(t *testing.T) {
	for name, flush := range map[string]bool{"before the head": false, "in the stream": true} {
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if flush {
				_, _ = io.WriteString(w, ": open boot\n\n")
				_ = http.NewResponseController(w).Flush()
			}
			<-release
		}))
		r, err := client.New(server.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		b := New("s")
		b.silence = 20 * time.Millisecond
		if err := b.Fetch(t.Context(), r); !errors.Is(err, ErrSilent) {
			t.Errorf("%s: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := New("s").Fetch(ctx, r); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
		close(release)
		r.HTTP.CloseIdleConnections()
		server.Close()
	}
}

// An address without a relay is said to be so, without what was asked.
func TestFetchUnreachable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	_, err := fetch(t, s.URL, "")
	if !errors.Is(err, ErrUnreachable) || err.Error() != "cannot reach the relay: connection refused" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := client.New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := New("s").Fetch(ctx, r); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "filter") {
		t.Errorf("%v", err)
	}
}
