package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/device"
)

// The line of progress tells of each relay, is as wide as the terminal, has
// nothing that one acts on, and is gone at the end.
func TestSyncLine(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s := &syncLine{to: out, last: map[string]device.Progress{}}
	for _, p := range []device.Progress{
		{Relay: "http://a", Phase: "push", Done: 1, Total: 3},
		{Relay: "http://b\x1b[2J", Phase: "pull", Done: 5, Total: 5},
		{Relay: "http://a", Phase: "push", Done: 2, Total: 3},
	} {
		s.progress(p)
	}
	if got := string(s.line()); got != `http://a: push 2 of 3; http://b\x1b[2J: pull 5` {
		t.Errorf("%q", got)
	}
	s.look.Width = 20
	if got := string(s.line()); render.Columns(got) > 20 || !strings.HasPrefix(got, "http://a: push 2") {
		t.Errorf("%q", got)
	}
	s.clear()
	s.end()
	s.progress(device.Progress{Relay: "http://c"})
	_ = out.Close()
	text, err := io.ReadAll(in)
	if err != nil || !strings.HasPrefix(string(text), "\r\x1b[Khttp://a: push 1 of 3") || !strings.HasSuffix(string(text), "\r\x1b[K") ||
		strings.Contains(string(text), "http://c") {
		t.Errorf("%q, %v", text, err)
	}
	if got := progressText(device.Progress{Phase: "fetch", Done: 7}); got != "fetch 7" {
		t.Errorf("%q", got)
	}
}

// Without a terminal nothing is shown.
func TestNoProgress(t *testing.T) {
	s := &syncLine{last: map[string]device.Progress{}}
	s.progress(device.Progress{Relay: "http://a"})
	s.end()
	if len(s.relays) != 0 {
		t.Error("it is kept")
	}
	b := &byteBar{}
	b.progress(device.Progress{Done: 1, Total: 2})
	b.end()
	if b.bar != nil {
		t.Error("there is a bar")
	}
}

// The bar of a file learns of the size with the first progress.
func TestByteBar(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	b := &byteBar{to: out, what: "fetch"}
	b.progress(device.Progress{Done: 10, Total: 20})
	if b.bar == nil || b.bar.GetMax64() != 20 || b.bar.State().CurrentNum != 10 {
		t.Fatalf("%+v", b.bar)
	}
	b.end()
	_ = out.Close()
	if text, err := io.ReadAll(in); err != nil || !strings.Contains(string(text), "fetch") {
		t.Errorf("%q, %v", text, err)
	}
}

// Standard input is read as it comes, and a signal ends it while nothing comes.
func TestStoppable(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	defer out.Close()
	s := &stoppable{ctx: ctx, in: in, done: make(chan readResult, 1)}
	go func() { _, _ = io.WriteString(out, "hello") }()
	b := make([]byte, 5)
	if _, err := io.ReadFull(s, b); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Read(b)
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n, err := s.Read(b); n != 0 || !errors.Is(err, context.Canceled) {
		t.Error(n, err)
	}
	long := strings.Repeat("x", 3*stdinBytes+1)
	s = &stoppable{ctx: t.Context(), in: strings.NewReader(long), done: make(chan readResult, 1)}
	if text, err := io.ReadAll(s); err != nil || string(text) != long {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// A status says what waits, until when and why, and what came to nothing.
func TestStatusText(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 500, time.UTC)
	soon := at.Add(1)
	past := at.Add(-1)
	f := func(want string, relay relayStatus) {
		t.Helper()
		relay.URL = "http://a"
		got := string(deviceStatus{Relays: []relayStatus{relay}}.text(render.Options{}, at))
		if _, got, _ = strings.Cut(got, "remembered\n"); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", relay, got, want)
		}
	}
	f("relay      http://a: synced 2026-01-02T15:04:05Z\n", relayStatus{State: device.StateSynced, SyncedAt: &at})
	f("relay      http://a: pending, 2 to send, 1 files to send, 3 sent and not yet handed back, never synced\n",
		relayStatus{State: device.StatePending, Owed: 2, Blobs: 1, Unseen: 3})
	f("relay      http://a: backing off, last synced 2026-01-02T15:04:05Z\n           all waits until 2026-01-02T15:04:05Z: x\\x1b\n",
		relayStatus{State: device.StateBackingOff, SyncedAt: &at, Push: laneStatus{&soon, "x\x1b"}, Pull: laneStatus{&soon, "x\x1b"}})
	f("relay      http://a: backing off\n           sending waits until 2026-01-02T15:04:05Z: 413\n           receiving failed: 500\n"+
		"           sending files failed: quota\n",
		relayStatus{State: device.StateBackingOff, Push: laneStatus{&soon, "413"}, Pull: laneStatus{&past, "500"}, Files: laneStatus{nil, "quota"}})
	f("relay      http://a: closed, the owner has another phrase: \"sluice device rekey\"\n",
		relayStatus{State: device.StateClosed, Push: laneStatus{&soon, "410"}})
	f("relay      http://a: reseeding, 9 to send\n           used 5 bytes of 1.5 kB (1500 bytes) there\n"+
		"           refused 3 as bad_tag, last e\\x1b at 2026-01-02T15:04:05Z\n",
		relayStatus{
			State: device.StateReseeding, Owed: 9, UsedBytes: 5, QuotaBytes: 1500,
			Refused: []refusedText{{Reason: "bad_tag", Count: 3, LastEvent: "e\x1b", LastAt: &at}},
		})
	none := string(deviceStatus{Deferred: 2, NextDue: &at}.text(render.Options{}, at))
	if !strings.Contains(none, "deferred   2, the next until 2026-01-02T15:04:05Z\nrelay      none: ") {
		t.Errorf("%s", none)
	}
	if text := string(deviceStatus{Deferred: 2}.text(render.Options{}, at)); !strings.Contains(text, "2, until a newer version") {
		t.Errorf("%s", text)
	}
}
