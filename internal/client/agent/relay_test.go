package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

const relayToken = "t"

// relaySettings are those of a relay with the binding, on a port and a
// directory of its own.
func relaySettings(tb testing.TB, more ...string) (url string, list []string) {
	tb.Helper()
	port := testrelay.FixedPort(tb)
	return "ws://127.0.0.1:" + port, append([]string{
		"SLUICE_SURFACES=aepws", "AEPWS_TOKEN=" + relayToken, "AEP_HOST=127.0.0.1", "AEP_PORT=" + port,
		"SLUICE_DATA=" + filepath.Join(tb.TempDir(), "data"),
	}, more...)
}

// real is a peer of the relay at a URL.
func real(tb testing.TB, url string) Peer {
	p := at(tb, url)
	p.Relay.Token = relayToken
	return p
}

// publishTo publishes lines to a real relay.
func publishTo(tb testing.TB, url string, in io.Reader, o PublishOptions) (PublishStats, []string) {
	tb.Helper()
	var refused []string
	o.Peer = real(tb, url) // a relay that starts is waited for
	o.Refused = func(line int64, reason string) { refused = append(refused, fmt.Sprintf("%d %s", line, reason)) }
	o.Notice = func(Notice) {}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	stats, err := Publish(ctx, in, o)
	if err != nil {
		tb.Fatal(err)
	}
	return stats, refused
}

// B55, B56, hard cases 34, 35: what is published is acknowledged, a second time
// too; another event of the same id is refused, and so is what is too long, or
// of another tenant.
func TestPublishToARelay(t *testing.T) {
	url, set := relaySettings(t, "AEPWS_MAX_MESSAGE_BYTES=4096")
	r := testrelay.Start(t, set...)
	defer testrelay.Stop(t, r)
	for range 2 {
		stats, refused := publishTo(t, url, strings.NewReader(input(2000)), PublishOptions{})
		if stats.Acknowledged != 2000 || len(refused) > 0 {
			t.Errorf("%+v, %v", stats, refused)
		}
	}
	in := strings.ReplaceAll(input(2), `{"n":1}`, `{"n":7}`) +
		`{"type":"a.b","payload":"` + strings.Repeat("x", 4096) + `"}` + "\n" +
		`{"type":"a.b","payload":1,"tenant_id":"other"}` + "\n" +
		`{"type":"a.b","payload":1,"delivery":{"mode":"best_effort"},"tenant_id":"other"}` + "\n" +
		`{"type":"a.b","payload":1,"delivery":{"mode":"best_effort"}}`
	stats, refused := publishTo(t, url, strings.NewReader(in), PublishOptions{Source: DefaultSource})
	if stats.Acknowledged != 1 || stats.BestEffort != 1 || stats.Unsure != 0 || len(refused) != 4 {
		t.Errorf("%+v\n%s", stats, strings.Join(refused, "\n"))
	}
	all := strings.Join(refused, "\n")
	for _, want := range []string{"1 invalid_envelope: duplicate_id", "3 longer than the 4096 bytes", "4 unauthorized", "5 unauthorized"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}

	p := real(t, url)
	p.Relay.Token = "wrong"
	_, err := Publish(t.Context(), strings.NewReader(input(1)), PublishOptions{Peer: p})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Status != 401 {
		t.Errorf("B7: %v", err)
	}
	p.Relay.Token = ""
	_, err = Publish(t.Context(), strings.NewReader(input(1)), PublishOptions{Peer: p})
	if _, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(err.Error(), "unauthorized") {
		t.Errorf("B31: %v", err)
	}
}

// Hard cases 34, 36: a relay that is killed while lines are sent, and one that
// ends in an orderly way, lose no line that was acknowledged; each line is in
// the log once.
func TestPublishThroughRestarts(t *testing.T) {
	url, set := relaySettings(t)
	const lines = 3000
	in, feed := io.Pipe()
	fed := make(chan struct{})
	go func() {
		defer func() { _ = feed.Close() }()
		for n, part := range strings.SplitAfter(strings.TrimSuffix(input(lines), "\n"), "\n") {
			if _, err := io.WriteString(feed, part); err != nil {
				return
			}
			if n == lines/3 || n == 2*lines/3 {
				fed <- struct{}{}
			}
		}
	}()
	p := testrelay.SpawnKilled(t, set...)
	done := make(chan PublishStats, 1)
	go func() {
		o := PublishOptions{Peer: real(t, url), Refused: func(int64, string) {}, Notice: func(Notice) {}}
		stats, err := Publish(t.Context(), in, o)
		if err != nil {
			t.Error(err)
		}
		done <- stats
	}()
	<-fed
	p.Kill()
	r := testrelay.Start(t, set...)
	<-fed
	testrelay.Stop(t, r)
	r = testrelay.Start(t, set...)
	defer testrelay.Stop(t, r)
	var stats PublishStats
	select {
	case stats = <-done:
	case <-time.After(patience):
		t.Fatal("Publish does not return")
	}
	if stats.Acknowledged != lines || stats.Refused != 0 {
		t.Errorf("%+v", stats)
	}

	c := newCollector()
	var got []int64
	seen := map[string]int64{}
	c.event = func(e *Event) error {
		got = append(got, e.Delivery.Sequence)
		seen[string(e.Envelope.ID)]++
		return nil
	}
	f := startFollow(t, Options{Peer: real(t, url), Cursor: "start:0", Count: lines}, c)
	if err := f.wait(t); err != nil || len(seen) != lines || f.got.Gaps != 0 {
		t.Errorf("%d ids of %d, %v, %+v", len(seen), len(got), err, f.got)
	}
}

// Follow and Publish through a relay that restarts, once in an orderly way and
// once by a kill: B51, B52, B62, hard cases 36, 41. Each event comes once, in
// its order, and all bytes are as published (B17, B57).
func TestFollowThroughRestarts(t *testing.T) {
	url, set := relaySettings(t)
	r := testrelay.Start(t, set...)
	c := newCollector()
	var texts []string
	c.event = func(e *Event) error {
		texts = append(texts, string(e.Text))
		return nil
	}
	path := filepath.Join(t.TempDir(), "cursor")
	o := Options{Peer: real(t, url), CursorFile: path, Cursor: "start:0", Filter: Filter{Types: []string{"task.*"}, Mode: aepws.Replayable}}
	f := startFollow(t, o, c)
	line := func(n int) io.Reader {
		return strings.NewReader(fmt.Sprintf(`{"id":"e%d","type":"task.progress","payload":{"v":1.10,"n":%d},"odd":12345678901234567890}`, n, n) +
			"\n" + `{"type":"other.thing","payload":{}}`)
	}
	c.await(t, "# 0 events replayed")
	publishTo(t, url, line(1), PublishOptions{})
	c.await(t, "1")
	testrelay.Stop(t, r)
	c.await(t, "# connection lost: ")

	p := testrelay.SpawnKilled(t, set...)
	c.await(t, "# connected, after e1:1")
	publishTo(t, url, line(2), PublishOptions{})
	c.await(t, "3")
	p.Kill()

	r = testrelay.Start(t, set...)
	defer testrelay.Stop(t, r)
	c.await(t, "# connected, after e2:3")
	publishTo(t, url, line(3), PublishOptions{})
	third := ""
	for deadline := time.Now().Add(patience); third == "" && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // pacing
		_, rest, _ := strings.Cut(c.lines(), "# connected, after e2:3")
		for line := range strings.SplitSeq(rest, "\n") {
			if line != "" && line[0] != '#' {
				third = line
			}
		}
	}
	if err := f.end(t); err != nil || f.got.Events != 3 || f.got.Gaps != 0 || f.got.NotRising != 0 {
		t.Errorf("%v, %+v\n%s", err, f.got, c.lines())
	}
	for i, text := range texts {
		if !strings.Contains(text, `"odd":12345678901234567890`) || !strings.Contains(text, fmt.Sprintf(`"payload":{"v":1.10,"n":%d}`, i+1)) {
			t.Errorf("delivered %s", text)
		}
	}
	if got := cursorIn(t, path); third == "" || got != "e3:"+third+"\n" {
		t.Errorf("the cursor is %q", got)
	}
}

// redelivered counts what a relay has sent again.
func redelivered(t *testing.T, r *relay.Relay) int64 {
	t.Helper()
	s, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.AEPWS.Redelivered
}

// B58: an event that is acknowledged in time comes once; one whose reader is
// held up comes again and is left out. B47, B51: filters and cursors that a
// relay rejects. B44: another connection takes the session.
func TestFollowOneRelay(t *testing.T) {
	url, set := relaySettings(t, "AEPWS_ACK_TIMEOUT_MS=100", "AEPWS_BACKOFF_MS=20", "AEPWS_MAX_ATTEMPTS=10")
	r := testrelay.Start(t, set...)
	defer testrelay.Stop(t, r)

	hold := make(chan struct{})
	c := newCollector()
	c.flush = func() error {
		if strings.HasSuffix(c.lines(), "\n2") {
			<-hold
		}
		return nil
	}
	f := startFollow(t, Options{Peer: real(t, url), Cursor: "start:0", Filter: Filter{Mode: aepws.AtLeastOnce}}, c)
	c.await(t, "# 0 events replayed")
	publishTo(t, url, strings.NewReader(input(1)), PublishOptions{})
	c.await(t, "1")
	publishTo(t, url, strings.NewReader(strings.ReplaceAll(input(1), "e1", "f1")), PublishOptions{})
	c.await(t, "2")
	// The first event may have come again too, before its acknowledgement did.
	enough := redelivered(t, r) + 3
	for deadline := time.Now().Add(patience); redelivered(t, r) < enough; time.Sleep(5 * time.Millisecond) { // polling
		if time.Now().After(deadline) {
			t.Error("B58: the relay does not send again")
			break
		}
	}
	close(hold)
	c.await(t, "# the relay sends again: f1, attempt 2")
	if err := f.end(t); err != nil || f.got.Events != 2 || f.got.Redelivered == 0 {
		t.Errorf("%v, %+v\n%s", err, f.got, c.lines())
	}

	for _, o := range []Options{
		{Filter: Filter{Types: []string{"mem*"}}},
		{Filter: Filter{Types: []string{"a.b"}, Tasks: make([]string, 65)}},
	} {
		o.Peer = real(t, url)
		_, err := Follow(t.Context(), o, newCollector())
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Name != "subscription_rejected" {
			t.Errorf("%+v: %v", o.Filter, err)
		}
	}

	o := Options{Peer: real(t, url), Cursor: "start:0"}
	o.SessionID = "mine"
	c = newCollector()
	f = startFollow(t, o, c)
	c.await(t, "# 2 events replayed")
	second := newCollector()
	g := startFollow(t, o, second)
	second.await(t, "# 2 events replayed")
	if err := f.wait(t); !errors.Is(err, ErrReplaced) {
		t.Errorf("B44: %v", err)
	}
	if err := g.end(t); err != nil {
		t.Error(err)
	}

	c = newCollector()
	f = startFollow(t, Options{Peer: real(t, url), Cursor: "x:99"}, c)
	c.await(t, "# events after the cursor are missing: cursor_in_future")
	c.await(t, "# 2 events replayed")
	if err := f.end(t); err != nil || f.got.Events != 2 {
		t.Errorf("%v, %+v", err, f.got)
	}
}
