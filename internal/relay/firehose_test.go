package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	streamPath  = "/xrpc/com.atproto.sync.subscribeRepos"
	publishAuth = "Authorization: Bearer " + testToken
)

// firehoseEnv is the environment of a relay with the firehose alone, whose
// numbers begin at 1.
func firehoseEnv(pairs ...string) map[string]string {
	env := map[string]string{
		"SLUICE_SURFACES": "firehose", "FIREHOSE_SEQ_FLOOR": "1", "FIREHOSE_PUBLISH_TOKEN": testToken,
	}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return env
}

// identityFrame is an #identity with a number.
func identityFrame(t *testing.T, seq int64) string {
	t.Helper()
	frame, err := (&codec.Identity{DID: "did:plc:a", Time: "2026-07-09T10:00:00Z"}).Append(nil, seq)
	if err != nil {
		t.Fatal(err)
	}
	return string(frame)
}

// publishFrame publishes a small frame, which has to get the number seq.
func (f *fixture) publishFrame(t *testing.T, seq int64) {
	t.Helper()
	f.publishBody(t, identityFrame(t, 1), seq)
}

// publishBody publishes a frame over HTTP, which has to get the number seq.
func (f *fixture) publishBody(t *testing.T, body string, seq int64) {
	t.Helper()
	r := f.do(t, "POST", f.request("POST", "/firehose/publish", publishAuth, fmt.Sprintf("Content-Length: %d", len(body)))+body)
	if want := fmt.Sprintf(`{"seq":%d}`, seq); r.Status != 200 || string(r.Body) != want {
		t.Fatalf("F52: publish is %d %s, want %s", r.Status, r.Body, want)
	}
}

// follow opens a stream of the firehose.
func (f *fixture) follow(t *testing.T, query string, o relaytest.WSOptions) *relaytest.WS {
	t.Helper()
	w, err := relaytest.DialWS(f.addr, streamPath+query, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func wantFrame(t *testing.T, w *relaytest.WS, seq int64) {
	t.Helper()
	m, err := w.Next(patience)
	if err != nil || m.Opcode != relaytest.OpBinary || string(m.Data) != identityFrame(t, seq) {
		t.Fatalf("frame %d: opcode %d, % x: %v", seq, m.Opcode, m.Data, err)
	}
}

// F2, F8: the surface's rules hold on its own paths, and its answers name the
// server by mode. Another surface's answers do not.
func TestFirehosePaths(t *testing.T) {
	f := func(server string, pairs ...string) {
		t.Helper()
		f := startRelay(t, firehoseEnv(append(pairs, "SLUICE_SURFACES", "aep,sync,firehose")...))
		for path, status := range map[string]int{
			streamPath: 426, "/xrpc": 404, "/xrpc/x": 404, "/firehose/publish": 405, "/firehose": 404,
			"/admin/firehose/host": 404, "/xrpc/_health": 200,
		} {
			r := f.do(t, "GET", f.request("GET", path))
			if r.Status != status || r.Header.Get("Server") != server || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("GET %s: %d, Server %q, want %d, %q", path, r.Status, r.Header.Get("Server"), status, server)
			}
		}
		for _, path := range []string{"/healthz", "/xrpcs", "/firehoses", "/admin/firehos", "/v1/status"} {
			if r := f.do(t, "GET", f.request("GET", path)); r.Header.Get("Server") != "" {
				t.Errorf("GET %s: Server %q", path, r.Header.Get("Server"))
			}
		}
		if w := f.follow(t, "", relaytest.WSOptions{}); w.Response.Header.Get("Server") != server {
			t.Errorf("101 has Server %q, want %q", w.Response.Header.Get("Server"), server)
		}
	}
	f("sluice")
	f("mine", "FIREHOSE_SERVER_HEADER", "mine")
}

// Without the surface its paths are another's.
func TestFirehoseOff(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "aep,sync", "FIREHOSE_PUBLISH_TOKEN": testToken})
	for _, path := range []string{streamPath, "/xrpc/_health", "/firehose/publish"} {
		if r := f.do(t, "GET", f.request("GET", path)); r.Status != 404 || r.Header.Get("Server") != "" {
			t.Errorf("GET %s: %d %v", path, r.Status, r.Header)
		}
	}
}

// F52 without the token's setting: there is no such route.
func TestFirehosePublishOff(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "firehose"})
	r := f.do(t, "POST", f.request("POST", "/firehose/publish", publishAuth, "Content-Length: 0"))
	if r.Status != 404 || !strings.Contains(string(r.Body), `"NotFound"`) {
		t.Errorf("F52: %d %s", r.Status, r.Body)
	}
}

// F48, case 42: at a clean stop consumers get what was published, and the
// connection ends without a close frame. The next start goes on behind it, and
// whoever has everything is told nothing (F27, F42).
func TestFirehoseCleanStop(t *testing.T) {
	data := t.TempDir()
	f := startRelay(t, firehoseEnv("SLUICE_DATA", data, "SLUICE_LOOPS", "2"))
	var all []*relaytest.WS
	for range 4 {
		all = append(all, f.follow(t, "", relaytest.WSOptions{}))
	}
	late := f.follow(t, "", relaytest.WSOptions{})
	const frames = 20
	for seq := int64(1); seq <= frames; seq++ {
		f.publishFrame(t, seq)
	}
	all = append(all, f.follow(t, "?cursor=0", relaytest.WSOptions{}))
	drained(t, f.stopping(t))
	for i, w := range append(all, late) {
		for seq := int64(1); seq <= frames; seq++ {
			wantFrame(t, w, seq)
		}
		if m, err := w.Next(patience); !errors.Is(err, io.EOF) {
			t.Errorf("F48: consumer %d ends with opcode %d, %v, want a FIN alone", i, m.Opcode, err)
		}
	}

	f = startRelay(t, firehoseEnv("SLUICE_DATA", data))
	w := f.follow(t, fmt.Sprintf("?cursor=%d", frames), relaytest.WSOptions{})
	f.publishFrame(t, frames+1)
	wantFrame(t, w, frames+1)
}

// F48: a drain window ends consumers one after the other, and those that are
// left still get frames.
func TestFirehoseDrain(t *testing.T) {
	f := startRelay(t, firehoseEnv("SLUICE_DRAIN", "1"))
	var all []*relaytest.WS
	for range 6 {
		all = append(all, f.follow(t, "", relaytest.WSOptions{}))
	}
	f.publishFrame(t, 1)
	done := f.stopping(t)
	for _, w := range all {
		wantFrame(t, w, 1)
		if m, err := w.Next(patience); !errors.Is(err, io.EOF) {
			t.Errorf("F48: opcode %d, %v, want a FIN alone", m.Opcode, err)
		}
	}
	drained(t, done)
}

// F48: a consumer that reads nothing is given 5 s at the stop and no more, which is
// an orderly end.
func TestFirehoseStopWithStalled(t *testing.T) {
	t.Parallel()
	log := &relaytest.LogBuffer{}
	r, err := relay.New(testConfig(t, firehoseEnv("SLUICE_SEND_BUFFER", "16384")), slog.New(slog.NewTextHandler(log, nil)), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	f := &fixture{relay: r, addr: r.Addr(), log: log}
	stuck := f.follow(t, "", relaytest.WSOptions{RecvBytes: 4096})
	other := f.follow(t, "", relaytest.WSOptions{})
	large := func(seq int64) string {
		frame, err := (&codec.Sync{
			DID: "did:plc:a", Rev: "3kdgeujwlq32y", Time: "2026-07-09T10:00:00Z", Blocks: make([]byte, codec.MaxSyncBlockBytes),
		}).Append(nil, seq)
		if err != nil {
			t.Fatal(err)
		}
		return string(frame)
	}
	for seq := int64(1); seq <= 200; seq++ { // more than the buffers of both kernels hold
		f.publishBody(t, large(1), seq)
		if m, err := other.Next(patience); err != nil || string(m.Data) != large(seq) {
			t.Fatalf("F36: frame %d of one that reads: %d bytes, %v", seq, len(m.Data), err)
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown with one that reads nothing: %v", err)
	}
	if took := time.Since(began); took < 4*time.Second || took > 20*time.Second {
		t.Errorf("F48: it was given %v, want about 5 s", took)
	}
	if _, err := other.Next(patience); !errors.Is(err, io.EOF) {
		t.Errorf("the other ends with %v", err)
	}
	if _, err := stuck.Drain(patience); relaytest.IsTimeout(err) {
		t.Error("the connection that was stuck goes on")
	}
}

// F26, F27: two starts on one directory never give a number twice.
func TestFirehoseNumbersGoOn(t *testing.T) {
	data := t.TempDir()
	for n := range int64(4) {
		f := startRelay(t, firehoseEnv("SLUICE_DATA", data))
		f.publishFrame(t, 2*n+1)
		f.publishFrame(t, 2*n+2)
		if err := f.shutdown(); err != nil {
			t.Fatal(err)
		}
	}
}
