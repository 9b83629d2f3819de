package repos

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testrelay.Main()
	os.Exit(relaytest.RunLeakFree(m, "repos.(*", "repos.Publish"))
}

const did = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"

// identity is an #identity frame.
func identity(tb testing.TB, seq int64) []byte {
	tb.Helper()
	frame, err := (&firehose.Identity{DID: did, Time: "2024-07-09T10:00:00Z", Handle: "note.example"}).Append(nil, seq)
	if err != nil {
		tb.Fatal(err)
	}
	return frame
}

// vectors has what is used of the contract's vectors.
type vectors struct {
	Frames []struct {
		Name string `json:"name"`
		Hex  string `json:"hex"`
	} `json:"frames"`
	Invalid []struct {
		Name       string `json:"name"`
		Hex        string `json:"hex"`
		OurDecoder string `json:"ourDecoder"`
	} `json:"invalid"`
}

func readVectors(tb testing.TB) (v vectors) {
	tb.Helper()
	text, err := os.ReadFile("../../../codec/firehose/testdata/subscribe-repos-frames.json")
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil || len(v.Frames) == 0 || len(v.Invalid) == 0 {
		tb.Fatalf("vectors: %v, %d frames, %d invalid", err, len(v.Frames), len(v.Invalid))
	}
	return v
}

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// wire is one connection to a script.
type wire struct {
	*websocket.Conn
	r *http.Request
}

// say sends binary messages. A client that is gone is the test's business.
func (w *wire) say(frames ...[]byte) {
	for _, frame := range frames {
		_ = w.Write(w.r.Context(), websocket.MessageBinary, frame)
	}
}

// hold answers pings until the client goes.
func (w *wire) hold() { <-w.CloseRead(w.r.Context()).Done() }

// script is a host that does what a test wants of it.
type script struct {
	*httptest.Server
	connections atomic.Int64
}

// startScript starts a host whose n-th connection, from 1, does what live says,
// and is then cut without a close frame (F48).
func startScript(tb testing.TB, live func(n int64, w *wire)) *script {
	tb.Helper()
	s := &script{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+subscribePath, func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, nil)
		if err != nil {
			tb.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		live(s.connections.Add(1), &wire{conn, r})
	})
	s.Server = httptest.NewServer(mux)
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// at returns the host at a URL.
func at(tb testing.TB, url string) *client.Relay {
	tb.Helper()
	r, err := client.New(Address(url), "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.HTTP.CloseIdleConnections)
	return r
}

// collector is a Sink that keeps what it gets in words: the kind and number of
// a frame, "# " and a notice.
type collector struct {
	mu      sync.Mutex
	all     []string
	raw     bytes.Buffer
	changed chan struct{} // closed and replaced at each change
	frame   func(f *firehose.Frame) error
	flush   func() error
}

func newCollector() *collector { return &collector{changed: make(chan struct{})} }

func (c *collector) Frame(message []byte, f *firehose.Frame) error {
	if c.frame != nil {
		if err := c.frame(f); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(message)
	c.add(fmt.Sprintf("%s %d", firehose.KindName(f.Kind()), f.Seq))
	return nil
}

func (c *collector) Notice(n Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add("# " + n.String())
}

func (c *collector) Flush() error {
	if c.flush != nil {
		return c.flush()
	}
	return nil
}

func (c *collector) add(line string) {
	c.all = append(c.all, line)
	close(c.changed)
	c.changed = make(chan struct{})
}

// lines returns what was told so far.
func (c *collector) lines() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.all, "\n")
}

// await waits until a line was told.
func (c *collector) await(tb testing.TB, line string) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		found, changed := strings.Contains("\n"+strings.Join(c.all, "\n")+"\n", "\n"+line), c.changed
		c.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			tb.Fatalf("no %q within %v in\n%s", line, patience, c.lines())
		}
	}
}

// run is one Follow in a goroutine of its own.
type run struct {
	stop context.CancelFunc
	done chan error
	got  Stats // once done has given
}

// startFollow starts a Follow, which tries again at once.
func startFollow(tb testing.TB, o Options, c *collector) *run {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	r := &run{stop: cancel, done: make(chan error, 1)}
	if o.pause == nil {
		o.pause = hasten
	}
	go func() {
		var err error
		r.got, err = Follow(ctx, o, c)
		r.done <- err
	}()
	tb.Cleanup(cancel)
	return r
}

// hasten is a pause that is short, so that a host that is down is not asked
// without a break.
func hasten(ctx context.Context, _ time.Duration) error { return client.Pause(ctx, 2*time.Millisecond) }

// end stops a Follow and returns its error.
func (r *run) end(tb testing.TB) error {
	tb.Helper()
	r.stop()
	return r.wait(tb)
}

// wait waits for the end of a Follow.
func (r *run) wait(tb testing.TB) error {
	tb.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		tb.Fatal("Follow does not return")
		return nil
	}
}
