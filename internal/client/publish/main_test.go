package publish

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

const testToken = "t0ken-SECRET123"

func TestMain(m *testing.M) {
	testrelay.Main()
	os.Exit(m.Run())
}

func relayAt(t *testing.T, address, token string) *client.Relay {
	t.Helper()
	r, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.HTTP.CloseIdleConnections)
	return r
}

// log collects what Run reports.
type log struct {
	mu       sync.Mutex
	refusals []Refusal
	notices  []string
	progress int64
}

// options returns options that report to l.
func (l *log) options() Options {
	return Options{
		Linger:   time.Millisecond,
		Refused:  func(r Refusal) { l.mu.Lock(); defer l.mu.Unlock(); l.refusals = append(l.refusals, r) },
		Notice:   func(s string) { l.mu.Lock(); defer l.mu.Unlock(); l.notices = append(l.notices, s) },
		Progress: func(n int64) { l.mu.Lock(); defer l.mu.Unlock(); l.progress += n },
	}
}

// lines returns the numbers of the refused lines.
func (l *log) lines() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n []int64
	for _, r := range l.refusals {
		n = append(n, r.Line)
	}
	return n
}

// held returns what a relay holds, session by session.
func held(t *testing.T, addr, token string) []string {
	t.Helper()
	s, err := relaytest.OpenStream(addr, relaytest.WithToken("/stream?from=all&live=0", token), relaytest.StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var texts []string
	for {
		b, err := s.Next(patience)
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
		if slices.Contains(b.Comments, "replay-complete") {
			return texts
		}
		if b.Data != "" {
			texts = append(texts, b.Data)
		}
	}
}

// events returns n events of a session as texts, from a sequence on.
func events(session string, from, n int) []string {
	var texts []string
	for i := range n {
		texts = append(texts, relaytest.Event{
			ID: fmt.Sprintf("%s-%d", session, from+i), Session: session, Seq: uint64(from + i),
		}.JSON())
	}
	return texts
}

func joined(texts ...string) *strings.Reader {
	return strings.NewReader(strings.Join(texts, "\n") + "\n")
}

// raceDetector tells whether the tests, and so the relay, carry it.
var raceDetector = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()
