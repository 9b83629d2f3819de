package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// patience is how long a test waits for what must come. It is only used up
// when a test fails.
const patience = time.Minute

// endPatience is the same for what ends by itself in a few seconds.
const endPatience = 30 * time.Second

// testToken is the token of relays that have one. It must never be logged.
const testToken = "t0ken-SECRET123"

// fixture is one running relay with a port of its own.
type fixture struct {
	relay *relay.Relay
	addr  string
	token string
	log   *relaytest.LogBuffer

	stopOnce sync.Once
	stopErr  error
}

// startRelay starts a relay with env over the harness's defaults (port 0,
// loopback, only the AEP surface, no admin listener). When the test ends it is
// shut down, which must succeed, and its log must hold no error and no secret.
func startRelay(t *testing.T, env map[string]string) *fixture {
	t.Helper()
	f := &fixture{token: env["AEP_TOKEN"], log: &relaytest.LogBuffer{}}
	log := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, err := relay.New(testConfig(t, env), log, "test")
	if err != nil {
		t.Fatalf("relay.New: %v", err)
	}
	if err := r.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	f.relay, f.addr = r, r.Addr()
	t.Cleanup(func() {
		if err := f.shutdown(); err != nil {
			t.Errorf("Shutdown with no client left: %v", err)
		}
		f.checkLog(t)
	})
	return f
}

func testConfig(t *testing.T, env map[string]string) config.Config {
	t.Helper()
	all := map[string]string{
		"AEP_PORT": "0", "AEP_HOST": "127.0.0.1",
		"SLUICE_SURFACES": "aep", "SLUICE_ADMIN": "off", "SLUICE_DATA": t.TempDir(),
	}
	for k, v := range env {
		all[k] = v
	}
	cfg, err := config.FromEnv(func(k string) (string, bool) { v, ok := all[k]; return v, ok })
	if err != nil {
		t.Fatalf("config.FromEnv(%v): %v", env, err)
	}
	return cfg
}

// startTokenRelay is startRelay with testToken set.
func startTokenRelay(t *testing.T, env map[string]string) *fixture {
	t.Helper()
	all := map[string]string{"AEP_TOKEN": testToken}
	for k, v := range env {
		all[k] = v
	}
	return startRelay(t, all)
}

// shutdown stops the relay once, as SIGTERM does.
func (f *fixture) shutdown() error {
	f.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endPatience)
		defer cancel()
		f.stopErr = f.relay.Shutdown(ctx)
	})
	return f.stopErr
}

// checkLog holds the relay to R14 and R15: no input is worth an error line, and
// no line shows the token.
func (f *fixture) checkLog(t *testing.T) {
	t.Helper()
	text := f.log.String()
	if i := strings.Index(text, "level=ERROR"); i >= 0 {
		t.Errorf("R14: log has an error line: %.600s", text[i:])
	}
	if strings.Contains(text, "SECRET123") {
		t.Errorf("R15: log shows the token:\n%.2000s", text)
	}
}

// TestMain looks for goroutines of this module that outlive all relays.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(endPatience); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left after all relays were shut down:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines that run code of this module, other
// than the test's own, if any are left after timeout.
func leaked(timeout time.Duration) string {
	deadline := time.Now().Add(timeout)
	for {
		var left []string
		buf := make([]byte, 4<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range strings.Split(string(buf), "\n\n")[1:] {
			if strings.Contains(g, "sluice-relay/sluice/") && !strings.Contains(g, "relay_test.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestShutdownLeavesNoGoroutine runs alone, so that every goroutine counts.
func TestShutdownLeavesNoGoroutine(t *testing.T) {
	if left := leaked(endPatience); left != "" {
		t.Skipf("another test leaked already:\n%s", left)
	}
	for range 5 {
		f := startRelay(t, nil)
		s, w := f.stream(t, "", relaytest.StreamOptions{}), f.socket(t, "")
		w.subscribe(`{"type":"subscribe","id":"a"}`)
		f.post(t, relaytest.Event{Session: "s"}.JSON())
		s.event()
		w.text()
		_ = w.Close()
		_ = s.Close()
		if err := f.shutdown(); err != nil {
			t.Fatalf("Shutdown: %v", err)
		}
	}
	if left := leaked(endPatience); left != "" {
		t.Errorf("goroutines left:\n%s", left)
	}
}

// query builds a query string from pairs of name and value.
func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

// fixtureFile reads a file of the published fixtures, which lie next to the
// checkout. Without them the test is skipped: the rule then has its own table.
func fixtureFile(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	b, err := os.ReadFile(filepath.Join(dir, "..", "shared", "aep", name))
	if err != nil {
		t.Skipf("published fixtures are not next to the checkout: %v", err)
	}
	return b
}

// decode reads JSON with numbers kept as spelled.
func decode(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %.300q", err, text)
	}
	return v
}

// sameJSON tells whether two texts are the same JSON value, numbers compared by
// spelling.
func sameJSON(t *testing.T, got, want string) bool {
	t.Helper()
	return reflect.DeepEqual(decode(t, got), decode(t, want))
}

func wantJSON(t *testing.T, what, got, want string) {
	t.Helper()
	if !sameJSON(t, got, want) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

func wantTexts(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want) {
		return
	}
	t.Errorf("%s:\ngot  %d: %.1500q\nwant %d: %.1500q", what, len(got), got, len(want), want)
}
