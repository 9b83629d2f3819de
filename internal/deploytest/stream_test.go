package deploytest

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// R271 W18: the head and the first block pass before any event exists.
func TestStreamBeginsAtOnce(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		// Other tests use the machine too: one quick try proves it. A proxy that
		// waits for more waits each time, and much longer.
		const quick = 100 * time.Millisecond
		best, until := time.Hour, time.Now().Add(patience)
		for tries := 0; tries < 5 || best > quick && time.Now().Before(until); tries++ {
			begin := time.Now()
			s := f.live()
			best = min(best, time.Since(begin))
			if got := s.Response.Header.Get("Content-Type"); got != "text/event-stream" {
				t.Errorf("Content-Type %q", got)
			}
			if got := s.Response.Header.Get("Cache-Control"); got != "no-cache, no-transform" {
				t.Errorf("Cache-Control %q", got)
			}
		}
		t.Logf("TLS handshake, request and first block: %v", best)
		if best > quick {
			t.Errorf("first block after %v, want less than %v", best, quick)
		}
	})
}

// Each event comes before the next is sent, and none waits for company. Without
// TLS a proxy may hold small pieces back that it would pass on with it.
func TestEventsComeOneByOne(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) { oneByOne(t, start(t, kind)) })
}

func TestEventsComeOneByOneWithoutTLS(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) { oneByOne(t, startPlain(t, kind)) })
}

func oneByOne(t *testing.T, f *fixture) {
	t.Helper()
	s := f.live()
	var took [50]time.Duration
	seq := uint64(0)
	// Nagle and a delayed acknowledgement take 40 ms, a corked socket 200. Other
	// tests use the machine too: one quick round proves it.
	const quick = 30 * time.Millisecond
	for until := time.Now().Add(patience); ; {
		for i := range took {
			e := relaytest.Event{Session: "s", Seq: seq}.JSON()
			seq++
			begin := time.Now()
			f.post(e)
			if got := f.block(s, "data: "); got.Data != e {
				t.Fatalf("got %s, want %s", got.Data, e)
			}
			took[i] = time.Since(begin)
		}
		slices.Sort(took[:])
		t.Logf("from before the post to the event: median %v, longest %v", took[25], took[49])
		if took[25] <= quick {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("median %v, want less than %v", took[25], quick)
		}
	}
}

// R274, R330, R331: pings pass. Nothing else is sent for 25 s meanwhile.
func TestPingsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 25 s")
	}
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		s, w := f.live(), f.socket()
		const wait = 25*time.Second + patience
		if b, err := s.Next(wait); err != nil || b.Raw != ": ping" {
			t.Errorf("R274: %q, %v, want a ping", b.Raw, err)
		}
		var frame, protocol bool
		for !frame || !protocol {
			m, err := w.Next(wait)
			if err != nil {
				t.Fatalf("R331: %v, ping frame %v, protocol ping %v", err, frame, protocol)
			}
			frame = frame || m.Opcode == relaytest.OpText && strings.HasPrefix(string(m.Data), `{"type":"ping"`)
			protocol = protocol || m.Opcode == relaytest.OpPing
		}
	})
}

// A replay of 10 MB passes whole and ends regularly, and a position for each
// of 500 sessions fits into a request (R10, R47).
func TestReplayPasses(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		var from []string
		var events []string
		for session := range 500 {
			name := "5f0c6b1e-2a8d-4c3e-9b7a-" + strconv.Itoa(1e11+session)
			from = append(from, `{"session":"`+name+`","epoch":0,"seq":`+strconv.Itoa(1)+`}`)
			for seq := range uint64(20) {
				events = append(events, relaytest.Padded(name, seq, "", 1000).JSON())
			}
		}
		for part := range slices.Chunk(events, 2000) {
			f.post(part...)
		}
		query := url.Values{"live": {"0"}, "from": {"[" + strings.Join(from, ",") + "]"}}.Encode()
		begin := time.Now()
		s := f.stream("/stream?" + query)
		f.block(s, ": open ")
		for i := range 500 * 18 {
			if b := f.block(s, "data: "); !strings.Contains(b.Data, `"pad":"xxx`) {
				t.Fatalf("event %d: %.200s", i, b.Data)
			}
		}
		f.block(s, ": replay-complete")
		if _, err := s.Next(patience); errors.Is(err, relaytest.ErrTorn) || !errors.Is(err, io.EOF) {
			t.Errorf("R279: end of a finite replay: %v", err)
		}
		t.Logf("query of %d bytes, 9,000 events of 1.2 KB in %v", len(query), time.Since(begin))
	})
}

// forgotten is within which a connection is forgotten that has ended, on a busy
// machine too: less than until the next ping, which would notice it as well.
const forgotten = 15 * time.Second

// R281, R334: who goes away is forgotten at once, and so is who breaks off.
func TestDisconnectFrees(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		const each = 10
		var streams []*relaytest.Stream
		var sockets []*relaytest.WS
		for range each {
			w := f.socket()
			f.send(w, `{"type":"subscribe","id":1}`)
			f.frame(w, "subscribed")
			streams, sockets = append(streams, f.live()), append(sockets, w)
		}
		f.awaitSubscribers(2 * each)
		for i, s := range streams {
			if i%2 == 0 {
				_ = s.Close()
			} else {
				_ = s.Reset()
			}
		}
		tookStreams := f.awaitSubscribers(each)
		for _, w := range sockets {
			_ = w.Close()
		}
		tookSockets := f.awaitSubscribers(0)
		t.Logf("%d streams gone after %v, %d sockets after %v", each, tookStreams, each, tookSockets)
		if longest := max(tookStreams, tookSockets); longest > forgotten {
			t.Errorf("forgotten after %v, want less than %v", longest, forgotten)
		}
	})
}

// R420 to R428: a reader that stops is felt by the relay through the proxy. It
// is cut, alone, and a proxy does not take in what it does not read.
func TestStoppedReaderIsCut(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		stopped, direct := f.live(), f.live(f.back)
		f.awaitSubscribers(2)
		const size = 64 << 10
		sent := uint64(0)
		for ; sent < 1000 && f.subscribers() == 2; sent++ {
			e := relaytest.Padded("s", sent, "notice", size)
			f.post(e.JSON())
			f.block(direct, "data: ")
		}
		t.Logf("cut after %d KiB, of which the relay queues up to 8,192", sent*size>>10)
		if f.subscribers() != 1 {
			t.Errorf("not cut after %d KiB", sent*size>>10)
		}
		for seq := uint64(0); ; seq++ {
			b, err := stopped.Next(patience)
			if err != nil {
				if !errors.Is(err, relaytest.ErrTorn) {
					t.Errorf("R427: a cut stream must not end like a complete one: %v", err)
				}
				break
			}
			if e, err := relaytest.ParseEnvelope(b.Data); err != nil || e.SeqNumber() != seq {
				t.Fatalf("got seq %d (%v), want %d", e.SeqNumber(), err, seq)
			}
		}
	})
}

// Browsers and net/http speak HTTP/2 to both proxies.
func TestStreamOverHTTP2(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		transport := &http.Transport{TLSClientConfig: f.proxy.clientTLS(t), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+f.proxy.addr+"/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = serverName
		request.Header.Set("Authorization", "Bearer "+testToken)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
			t.Fatalf("%s %s, want HTTP/2 and 200", response.Proto, response.Status)
		}
		buf := make([]byte, 64<<10)
		read := func(want string) {
			t.Helper()
			n, err := io.ReadAtLeast(response.Body, buf, 1)
			if err != nil || !strings.Contains(string(buf[:n]), want) {
				t.Fatalf("%q, %v, want %q", buf[:n], err, want)
			}
		}
		read(": open ")
		for seq := range uint64(3) {
			e := relaytest.Event{Session: "s", Seq: seq}.JSON()
			f.post(e)
			read("data: " + e)
		}
		_ = response.Body.Close() // resets the stream, keeps the connection
		if took := f.awaitSubscribers(0); took > forgotten {
			t.Errorf("R281: forgotten after %v, want less than %v", took, forgotten)
		}
	})
}
