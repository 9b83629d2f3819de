package publish

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// mixed is an input of good and bad lines: blank ones, no JSON, no event, a
// command, and a frame. Want is what is good, bad the numbers of the rest.
func mixed() (input string, want []string, bad []int64) {
	good := events("s", 0, 6)
	lines := []string{
		good[0], "", `{"aep":"0.1"`, good[1], `  ` + good[2] + "\r", `{"type":"ping","t":1}`, `[]`,
		relaytest.Event{ID: "x", Session: "s", Extra: `"BAD":1`}.JSON(), good[3],
		relaytest.Command("control.cancel", "s").JSON(), "\xff", good[4], `{"type":"subscribe","id":"q"}`, good[5],
	}
	return strings.Join(lines, "\n"), good, []int64{3, 6, 7, 8, 10, 11, 13}
}

// A real relay names each bad line, takes the rest, and by WebSocket no line
// acts as a frame.
func TestMixedLines(t *testing.T) {
	for _, socket := range []*Socket{nil, {Agent: "tester"}} {
		p := testrelay.SpawnKilled(t, "AEP_TOKEN="+testToken)
		input, want, bad := mixed()
		var l log
		o := l.options()
		o.Socket = socket
		stats, err := Run(t.Context(), relayAt(t, "http://"+p.Addr, testToken), strings.NewReader(input), o)
		if err != nil || stats.Events != int64(len(want)) || stats.Refused != int64(len(bad)) {
			t.Errorf("socket %v: %+v, %v", socket, stats, err)
		}
		got := l.lines()
		slices.Sort(got)
		if socket != nil { // the command found the claim of its own connection (R400)
			bad = slices.DeleteFunc(bad, func(n int64) bool { return n == 10 })
			got = slices.DeleteFunc(got, func(n int64) bool { return n == 10 })
		}
		if !slices.Equal(got, bad) {
			t.Errorf("socket %v: refused %v, want %v", socket, l.refusals, bad)
		}
		if got := held(t, p.Addr, testToken); !slices.Equal(got, want) {
			t.Errorf("socket %v: the relay holds %q, want %q", socket, got, want)
		}
		if problems := p.Problems(); problems != nil {
			t.Errorf("R14: %q", problems)
		}
	}
}

// With Strict a line that is not even sent ends it, with all lines ahead of it
// in and none behind it, whatever is wrong with those.
func TestStrictBySocket(t *testing.T) {
	long := relaytest.Padded("s", 50, "info", 5000).JSON()
	for name, c := range map[string]struct {
		bad, behind string
		batch       int
	}{
		"no JSON":              {bad: `{"aep":1`, behind: "also bad"},
		"a frame":              {bad: `{"type":"ping","t":1}`, behind: long},
		"too long":             {bad: long, behind: long},
		"too long, then bad":   {bad: long, behind: "x"},
		"over many batches":    {bad: "x", behind: "y", batch: 1},
		"the first of a batch": {bad: "x", behind: "y", batch: 5},
	} {
		p := testrelay.SpawnKilled(t)
		good := events("s", 0, 11)
		lines := append(append([]string{}, good[:10]...), c.bad, c.behind, good[10])
		var l log
		o := l.options()
		o.Socket, o.Strict, o.LineBytes, o.BatchLines, o.Timeout = &Socket{}, true, 4000, c.batch, patience
		stats, err := Run(t.Context(), relayAt(t, "http://"+p.Addr, ""), joined(lines...), o)
		if !errors.Is(err, ErrRefusedLine) || !strings.Contains(err.Error(), "line 11") || stats.Events != 10 || stats.Refused != 1 {
			t.Errorf("%s: %+v, %v", name, stats, err)
		}
		if got := l.lines(); !slices.Equal(got, []int64{11}) {
			t.Errorf("%s: refused %v, want line 11", name, got)
		}
		if got := held(t, p.Addr, ""); !slices.Equal(got, good[:10]) {
			t.Errorf("%s: the relay holds %q", name, got)
		}
	}
}

// The relay's own limits are met by cutting, over both bindings: a line that is
// too long is found and refused, also where the relay only closes (R332).
func TestRelayLimits(t *testing.T) {
	for _, socket := range []*Socket{nil, {}} {
		p := testrelay.SpawnKilled(t, "AEP_MAX_BATCH=7", "AEP_MAX_BODY=2000")
		lines := events("s", 0, 100)
		// R332: at least 1 MiB by WebSocket.
		lines[50] = relaytest.Padded("s", 50, "info", 2<<20).JSON()
		var l log
		o := l.options()
		o.Socket, o.Timeout = socket, patience
		stats, err := Run(t.Context(), relayAt(t, "http://"+p.Addr, ""), joined(lines...), o)
		if err != nil || stats.Events != 99 || !slices.Equal(l.lines(), []int64{51}) {
			t.Errorf("socket %v: %+v, %v, refused %+v, %q", socket, stats, err, l.refusals, l.notices)
		}
		if got := held(t, p.Addr, ""); !slices.Equal(got, slices.Delete(lines, 50, 51)) {
			t.Errorf("socket %v: the relay holds %d events", socket, len(got))
		}
	}
}

// --ws claims the sessions: a command is handed over, one that is not accepted
// is refused by the relay, and after a restart of the relay the sessions are
// claimed again though nothing new is sent.
func TestSocketClaims(t *testing.T) {
	port := testrelay.FixedPort(t)
	env := []string{"AEP_TOKEN=" + testToken, "AEP_PORT=" + port}
	p := testrelay.SpawnKilled(t, env...)
	r, w := io.Pipe()
	commands := make(chan string, 10)
	var l log
	o := l.options()
	o.Socket = &Socket{
		Agent: "worker", Instance: "1", Accepts: []string{TypePause},
		OnCommand: func(text []byte) {
			select {
			case commands <- string(text):
			default: // one more copy
			}
		},
	}
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), relayAt(t, "http://"+p.Addr, testToken), r, o)
		done <- err
	}()
	if _, err := io.WriteString(w, events("claimed", 0, 1)[0]+"\n"); err != nil {
		t.Fatal(err)
	}
	for restarts := range 2 {
		if restarts > 0 {
			p.Kill()
			p = testrelay.SpawnKilled(t, env...)
		}
		order := Order{
			Type: TypePause, Session: "claimed", Source: "urn:test", Agent: "tester", Window: 100 * time.Millisecond,
			ID: fmt.Sprint("pause-", restarts), // copies of the last one may still come
		}
		relay := relayAt(t, "http://"+p.Addr, testToken)
		for deadline := time.Now().Add(patience); !handedOver(commands, order.ID); {
			res, err := Command(t.Context(), relay, order)
			unanswered := err == nil && res.Decision == Unanswered
			if !unanswered && !errors.Is(err, ErrNoRoute) && !errors.Is(err, ErrGaveUp) || time.Now().After(deadline) {
				t.Fatalf("restart %d: %+v, %v", restarts, res, err)
			}
		}
		order.Type, order.ID, order.Window = TypeCancel, "", patience
		if res, err := Command(t.Context(), relay, order); err != nil || res.Decision != Rejected {
			t.Errorf("R393: %+v, %v", res, err)
		}
	}
	_ = w.Close()
	if err := <-done; err != nil || l.refusals != nil {
		t.Errorf("%v, refused %v", err, l.refusals)
	}
}

// handedOver reports whether a pause with an id is among the commands so far.
func handedOver(commands <-chan string, id string) bool {
	for {
		select {
		case text := <-commands:
			if strings.Contains(text, TypePause) && strings.Contains(text, id) {
				return true
			}
		default:
			return false
		}
	}
}

// restartSessions is how many sessions the events of TestRestarts belong to.
const restartSessions = 20

// restartInput writes n events, about 300 B each, and no more than a hundredth
// of them ahead of the follower: one that is slower than that is cut, and has not
// come to everything when its relay is stopped.
func restartInput(ctx context.Context, w io.Writer, n int, c *collector) error {
	b := bufio.NewWriterSize(w, 64<<10)
	pad := strings.Repeat("x", 120)
	for i := range n {
		if i%50 == 0 {
			if err := b.Flush(); err != nil {
				return err
			}
		}
		for i%50 == 0 && i-c.total() > n/100 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond): // polling
			}
		}
		fmt.Fprintf(b, `{"aep":"0.1","id":"e%09d","type":"message.delta","time":"2026-01-01T00:00:00Z","source":"urn:test",`+
			`"agent":"a","severity":"notice","session":"s%02d","seq":%d,"data":{"text":"%s"}}`+"\n",
			i, i%restartSessions, i/restartSessions, pad)
	}
	return b.Flush()
}

// collector follows a relay through its restarts and keeps which events it saw.
type collector struct {
	mu    sync.Mutex
	seen  []bool
	count int
	ends  []string // the last comments of each stream and how it ended
}

// follow reads one relay's stream until the relay is stopped. A stream that the
// relay ends because the follower is too slow for it is opened anew. Open is
// closed when the follower is registered.
func (c *collector) follow(addr string, open chan<- struct{}) {
	for registered := false; ; registered = true {
		s, err := relaytest.OpenStream(addr, "/stream?from=all", relaytest.StreamOptions{})
		if !registered {
			close(open)
		}
		if err != nil {
			return
		}
		stopped := c.read(s)
		_ = s.Close()
		if stopped {
			return
		}
	}
}

// read reads a stream to its end and tells whether that is the relay's.
func (c *collector) read(s *relaytest.Stream) (stopped bool) {
	var said []string
	for {
		b, err := s.Next(patience)
		if said = append(said, b.Comments...); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ends = append(c.ends, fmt.Sprintf("%q, %v", said, err))
			return slices.Contains(said, "shutting-down")
		}
		c.saw(b.Data)
	}
}

func (c *collector) saw(text string) {
	_, rest, found := strings.Cut(text, `"id":"e`)
	if !found {
		return
	}
	if i, err := strconv.Atoi(rest[:9]); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.seen[i] {
			c.seen[i] = true
			c.count++
		}
	}
}

func (c *collector) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Issue D: of a million events through a relay that is restarted twice
// meanwhile, each is acknowledged, each was seen by a follower, and in the
// replay of the last relay, which holds them all, none is there twice and none
// is missing between the first and the last.
//
// A relay that is stopped finishes the requests under way before it ends its
// streams (R461, R463).
func TestRestarts(t *testing.T) {
	for name, socket := range map[string]*Socket{"post": nil, "socket": {Agent: "tester"}} {
		t.Run(name, func(t *testing.T) {
			n := 1_000_000
			if testing.Short() || raceDetector {
				n = 60_000
			}
			if socket != nil {
				n /= 5
			}
			restarts(t, n, socket)
		})
	}
}

func restarts(t *testing.T, n int, socket *Socket) {
	env := []string{"AEP_PORT=" + testrelay.FixedPort(t), "AEP_BUFFER=" + strconv.Itoa(n)}
	c := &collector{seen: make([]bool, n)}
	var followers sync.WaitGroup
	start := func() *faults.Process {
		p := testrelay.SpawnKilled(t, env...)
		open := make(chan struct{})
		followers.Go(func() { c.follow(p.Addr, open) })
		<-open
		return p
	}
	p := start()
	relay := relayAt(t, "http://"+p.Addr, "")

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	go func() {
		_ = restartInput(t.Context(), w, n, c) // it fails only when Run has failed
		_ = w.Close()
	}()
	var l log
	o := l.options()
	o.Timeout, o.Linger, o.Socket = patience, 0, socket
	o.BatchLines = n / 400
	type outcome struct {
		stats Stats
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		stats, err := Run(t.Context(), relay, r, o)
		done <- outcome{stats, err}
	}()
	for i := 1; i <= 2; i++ {
		deadline := time.Now().Add(2 * patience)
		for c.total() < i*n/3 {
			if time.Now().After(deadline) {
				t.Fatalf("only %d of %d events came, notices %q", c.total(), n, l.notices)
			}
			time.Sleep(time.Millisecond) // polling
		}
		if err := p.Stop(); err != nil {
			t.Fatalf("R464: %v", err)
		}
		p = start()
	}
	out := <-done
	if out.err != nil || out.stats.Events != int64(n) || out.stats.Refused != 0 || len(l.notices) < 2 {
		t.Fatalf("%+v, %v, notices %q", out.stats, out.err, l.notices)
	}
	t.Logf("%+v, notices %q", out.stats, l.notices)

	next := map[string]uint64{}
	replayed := held(t, p.Addr, "")
	for _, text := range replayed {
		c.saw(text)
		e, err := relaytest.ParseEnvelope(text)
		if err != nil {
			t.Fatal(err)
		}
		if want, known := next[e.Session]; known && e.SeqNumber() != want {
			t.Fatalf("replay of session %s: sequence %d after %d", e.Session, e.SeqNumber(), want-1)
		}
		next[e.Session] = e.SeqNumber() + 1
	}
	for i := range restartSessions {
		last := uint64(n-1-i) / restartSessions
		if session := fmt.Sprintf("s%02d", i); next[session] != last+1 {
			t.Errorf("the last of session %s that the relay holds is %d, want %d", session, next[session]-1, last)
		}
	}
	if err := p.Stop(); err != nil {
		t.Errorf("R464: %v", err)
	}
	followers.Wait()
	if missing := n - c.total(); missing > 0 {
		t.Errorf("%d of %d events were seen by nobody, the first is %d; streams %s",
			missing, n, slices.Index(c.seen, false), c.ends)
	}
	t.Logf("%d events were in the last replay", len(replayed))
}
