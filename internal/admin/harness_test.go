package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// patience bounds what has to come. It is used up only when a test fails.
const patience = time.Minute

// fakeSource hands out fixed numbers.
type fakeSource struct {
	take  func(context.Context) (*Snapshot, error)
	ready func() error
	calls atomic.Int64
}

func (f *fakeSource) Snapshot(ctx context.Context) (*Snapshot, error) {
	f.calls.Add(1)
	if f.take != nil {
		return f.take(ctx)
	}
	return fullSnapshot(), nil
}

func (f *fakeSource) Ready() error {
	if f.ready != nil {
		return f.ready()
	}
	return nil
}

// blocked is a source's Snapshot that a stuck loop never answers.
func blocked(ctx context.Context) (*Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// fullSnapshot has another value in each field, so that a mix-up shows.
func fullSnapshot() *Snapshot {
	s := &Snapshot{
		Deliveries: 101, DeliveredBytes: 102, Writes: 103, ShortWrites: 104, Shed: 105, Gaps: 106, Passes: 107,
		EventsIn: 108, EventsRefused: 109, Requests: 110, Upgrades: 111, BadRequests: 112,
		Cuts:        map[string]int64{"hard": 1, "stalled": 2},
		Disconnects: map[string]int64{"protocol-error": 3, "reset": 0},
		Timeouts:    map[string]int64{"head": 4},
		Refusals:    map[string]int64{"cap": 5, "rate": 6},
		Sessions:    113, BufferedEvents: 114, BufferedBytes: 115, LogPosition: 116,
		Connections: 117, Streams: 118, Sockets: 119, Subscriptions: 120, Claims: 121,
		HeldBytes: 122, HeldLimit: 123,
		Descriptors: Descriptors{Open: 124, Limit: 125, Reserve: 126, Conns: 127},
		Unsent:      NewHistogram([]float64{10, 20}),
		Lag:         NewHistogram([]float64{1}),
		Sync: &SyncStats{
			Requests: 301, Pages: 302, Refused: map[string]int64{"busy": 7, "relay_full": 8},
			Pushes: 303, Duplicates: 304, Events: 305, EventBytes: 306, Blobs: 307, BlobBytes: 308,
			Commits: 309, CommitRequests: 310, CommitTime: 1250 * time.Millisecond, LongestCommit: 750 * time.Millisecond,
			CompactedEvents: 311, CompactedBytes: 312, Slices: 313, Checkpoints: 314,
			Waiting: 315, SpoolBytes: 316, LentBytes: 323, QueuedWrites: 317, QueuedBytes: 318, WALBytes: 319,
			StoredBytes: 320, Owners: 321, LastSeq: 322,
		},
		AEPWS: &AEPWSStats{
			Connected: 501, Refused: map[string]int64{"token": 14}, Records: map[string]int64{"lost": 15, "opened": 16},
			Published: 502, Acknowledged: 503, Rejected: 504, Discarded: 505, Stalled: 506, Held: 507,
			Stored: 508, StoredBytes: 509, Duplicates: 510, Conflicts: 511,
			Commits: 512, CommitRequests: 513, CommitTime: 2250 * time.Millisecond, LongestCommit: 250 * time.Millisecond,
			Evicted: 514, DeadLetters: 515, Busy: 516, Failed: 517,
			Connections: 518, Sessions: 519, Pending: 520, BusyBytes: 521, QueuedWrites: 522, QueuedBytes: 523,
			KeptEvents: 524, KeptBytes: 525, FileBytes: 526, WALBytes: 527, Newest: 528, EvictedSeq: 529,
			Created: 530, Delivered: 531, Replayed: 532, Redelivered: 533, Dropped: 534, TooSlow: 535, LogFailed: 536,
			Pages: 537, Unmade: 538, Unheard: 539, Subscriptions: 540,
		},
		Firehose: &FirehoseStats{
			Connected: 401, TooSlow: 402, Future: 403, Outdated: 404, Stalled: 405, Unanswered: 406, Published: 407,
			Refused:   map[string]int64{"cursor": 9, "not-listening": 10},
			Consumers: 408, HeldFrames: 409, HeldBytes: 410, HeldCommits: 411, LastSeq: 412, OutdatedSeq: 413,
			Frames: 414, Sequenced: 415, Dropped: map[string]int64{"old_rev": 11}, Misfits: map[string]int64{"since": 12},
			Failures: map[string]int64{"lost": 13}, PublishFailures: 416, StateWrites: 417, StateFailures: 418,
			Hosts: []FirehoseHost{{"a.example", true, 419}, {"localhost:2583", false, -1}},
		},
		Slowest: []Consumer{
			{Remote: "192.0.2.1:1000", Kind: "sse", Filters: []string{"type=quick"}, QueuedBytes: 1, Age: time.Minute},
			{
				Remote: "192.0.2.2:2000", Kind: "websocket", Filters: []string{"", "type=slow"},
				LagEvents: 7, QueuedBytes: 4096, UnackedBytes: 512, Shed: 3, Age: time.Hour, Stalled: 1500 * time.Millisecond,
			},
		},
	}
	for _, v := range []float64{10, 11, 99} {
		s.Unsent.Observe(v)
		s.Lag.Observe(v)
	}
	for id := range 2 {
		l := LoopStats{
			ID: id, Turns: 201, Wakes: 202, Busy: 1500 * time.Millisecond, Panics: 203,
			LastTurn: time.Unix(1700000000, 500e6), PassSeconds: NewHistogram([]float64{0.5, 1}),
			Conns: 204, Members: 205, Groups: 206,
		}
		l.PassSeconds.Observe(0.75)
		s.Loops = append(s.Loops, l)
	}
	return s
}

// fixture is a server on a port of its own and a client for it.
type fixture struct {
	t      *testing.T
	server *Server
	log    *relaytest.LogBuffer
	client *http.Client
}

// serveSource starts a server that ends with the test. limits that are zero are
// the usual ones.
func serveSource(t *testing.T, source Source, limits timing) *fixture {
	t.Helper()
	if limits == (timing{}) {
		limits = defaultTiming
	}
	log := &relaytest.LogBuffer{}
	s, err := start(Config{
		Addr: "127.0.0.1:0", Source: source, Version: "v1.2.3",
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}, limits)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	f := &fixture{t, s, log, &http.Client{
		Timeout:       patience, // an answer that never comes fails the test
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// try sends a request. headers are pairs of name and value; "Host" is one.
func (f *fixture) try(method, target string, headers ...string) (answer, error) {
	r, err := http.NewRequest(method, "http://"+f.server.Addr()+target, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := f.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

// do sends a request that has to be answered. Test goroutine only.
func (f *fixture) do(method, target string, headers ...string) answer {
	f.t.Helper()
	got, err := f.try(method, target, headers...)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, target, err)
	}
	return got
}

// begin sends a request and does not wait. An answer that did not come has
// status 0 and the error as its body.
func (f *fixture) begin(target string) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		got, err := f.try(http.MethodGet, target)
		if err != nil {
			got = answer{body: err.Error()}
		}
		c <- got
	}()
	return c
}

func (f *fixture) get(target string, headers ...string) answer {
	f.t.Helper()
	return f.do(http.MethodGet, target, headers...)
}

// dial opens a connection that the test closes.
func (f *fixture) dial() net.Conn {
	f.t.Helper()
	c, err := net.Dial("tcp", f.server.Addr())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// raw sends bytes on a connection of their own and returns what comes back.
func (f *fixture) raw(request string) string {
	f.t.Helper()
	c := f.dial()
	if _, err := io.WriteString(c, request); err != nil {
		f.t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, net.ErrClosed) && len(got) == 0 {
		f.t.Fatal(err)
	}
	return string(got)
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) { // polling
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// leaked returns the stacks of goroutines that serve or use this package, other
// than the caller's, if any are left after a while.
func leaked() string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // polling
		var left []string
		buf := make([]byte, 4<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range strings.Split(string(buf), "\n\n")[1:] {
			if strings.Contains(g, "internal/admin.") && !strings.Contains(g, "testing.tRunner") ||
				strings.Contains(g, "net/http.(*conn).serve") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// TestMain looks for goroutines that outlive all servers (AD4).
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left after all servers were closed:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}
