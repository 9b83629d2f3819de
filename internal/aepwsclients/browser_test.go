package aepwsclients

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// lineBytes bounds a line that a page posts.
const lineBytes = 1 << 20

// foreign is a name that the browser resolves to loopback, as an attacker's would
// after a change in the DNS (B8).
const foreign = "page.example"

// chromium returns the browser, or skips the test. Like the packages it is used
// only where that is asked for.
func chromium(t *testing.T) string {
	t.Helper()
	if os.Getenv(clients.Variable) == "" {
		t.Skipf("%s is not set: run make test-clients", clients.Variable)
	}
	for _, name := range []string{"chromium", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("chromium is not installed")
	return ""
}

// browser runs the script in a page of a browser of its own.
func browser(t *testing.T, s settings) *client {
	t.Helper()
	return browserAt(t, "", s)
}

// browserAt is browser with the page at another host.
func browserAt(t *testing.T, host string, s settings) *client {
	t.Helper()
	path := chromium(t)
	lines := make(chan line)
	over := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServer(http.Dir("testdata")))
	mux.HandleFunc("GET /settings", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s) // a page that has gone needs none
	})
	mux.HandleFunc("POST /lines", func(w http.ResponseWriter, r *http.Request) {
		var l line
		if err := json.NewDecoder(io.LimitReader(r.Body, lineBytes)).Decode(&l); err != nil {
			t.Error(err)
			return
		}
		select {
		case lines <- l:
		case <-over:
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	origin := server.URL
	if host != "" {
		origin = strings.Replace(origin, "127.0.0.1", host, 1)
	}
	open(t, path, origin+"/page.html")
	c := &client{t: t, read: func(l *line) {
		t.Helper()
		select {
		case *l = <-lines:
		case <-time.After(patience):
			t.Fatalf("the page says nothing for %v", patience)
		}
	}}
	if l := c.next(); l.Event != "page" || l.Text != origin {
		t.Fatalf("got %+v, want the page at %s", l, origin)
	}
	return c
}

// open opens a page in a browser without a window. It is killed, with all that it
// has started, when the test ends.
func open(t *testing.T, path, page string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-browser")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(
		path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--host-resolver-rules=MAP "+foreign+" 127.0.0.1", "--user-data-dir="+dir, page,
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		// Its children end a moment later and may write until then.
		for deadline := time.Now().Add(5 * time.Second); os.RemoveAll(dir) != nil && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// TestBrowser is section 10 with a browser, which has its token in the query (B7),
// offers extensions (B5) and answers Pings by itself.
func TestBrowser(t *testing.T) {
	chromium(t)
	t.Run("emits and replays", func(t *testing.T) { emitsAndReplays(t, browser) })
	t.Run("resumes", func(t *testing.T) { resumes(t, browser) })
	t.Run("relay restarts", func(t *testing.T) { relayRestarts(t, browser) })
}

// TestBrowserElsewhere: hard case 42: a page at another origin opens a socket to an
// open relay on loopback, by its address and by the page's own name. It is refused;
// one of loopback is not.
func TestBrowserElsewhere(t *testing.T) {
	chromium(t)
	s := startSource(t, t.TempDir(), "0", "AEPWS_TOKEN=")
	addr := s.relay.Addr()
	for _, host := range []string{addr, strings.Replace(addr, "127.0.0.1", foreign, 1)} {
		browserAt(t, foreign, session("ws://"+host+socketPath)).lost()
	}
	c := browserAt(t, "", session("ws://"+addr+socketPath))
	c.opened()
	r, err := relaytest.Do(addr, "GET", relaytest.HandshakeRequest(addr, socketPath, relaytest.WSOptions{
		Headers: []string{"Sec-WebSocket-Protocol: " + subprotocol, "Origin: http://" + foreign},
	}), patience)
	if err != nil || r.Status != http.StatusForbidden {
		t.Errorf("case 42: %+v, %v", r, err)
	}
}
