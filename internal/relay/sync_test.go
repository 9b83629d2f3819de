package relay_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/admin"
)

const (
	pushBody = `{"ownerId":"o","events":[{"version":1,"ownerId":"o","eventId":"e1","deviceId":"d",` +
		`"createdAt":"2026-01-01T00:00:00Z","nonce":"AA","ciphertext":"AA"}]}`
	ownerAuth = "Authorization: Bearer device"
)

func (f *fixture) push(t *testing.T, path string) int {
	t.Helper()
	return f.do(t, "POST", f.request("POST", path, ownerAuth, "Content-Length: "+strconv.Itoa(len(pushBody)))+pushBody).Status
}

// S2: the surface's rules hold on its own paths, before and apart from those of
// the AEP relay, whose token and route table are none of its business.
func TestSyncPaths(t *testing.T) {
	data := filepath.Join(t.TempDir(), "made", "later")
	f := startTokenRelay(t, map[string]string{
		"SLUICE_SURFACES": "aep,sync", "SLUICE_DATA": data, "SYNC_BASE_PATHS": "/v2",
	})
	if r := f.get(t, "/health"); r.Status != http.StatusOK || !strings.Contains(string(r.Body), `"version":"test"`) {
		t.Errorf("/health: %d %s", r.Status, r.Body)
	}
	for path, status := range map[string]int{
		"/v1/nothing": http.StatusNotFound, "/v2/v1/status": http.StatusUnauthorized, "/healthz": http.StatusOK, "/v2": http.StatusUnauthorized,
	} {
		if got := f.do(t, "GET", f.request("GET", path)).Status; got != status {
			t.Errorf("GET %s without a token: %d, want %d", path, got, status)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made before anything was stored")
	}
	if got := f.push(t, "/v2/v1/events"); got != http.StatusOK {
		t.Fatalf("push below a base path: %d", got)
	}
	if _, err := os.Stat(filepath.Join(data, "sync.db")); err != nil {
		t.Error(err)
	}
	if r := f.do(t, "GET", f.request("GET", "/v1/events?ownerId=o", ownerAuth)); r.Status != http.StatusOK || !strings.Contains(string(r.Body), `"eventId":"e1"`) {
		t.Errorf("pull: %d %s", r.Status, r.Body)
	}
}

// Paths of a surface that is off follow the AEP route table, and without the AEP
// surface nothing else is served.
func TestSurfaces(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "aep"})
	if got := f.push(t, "/v1/events"); got == http.StatusOK {
		t.Errorf("sync is off and a push is %d", got)
	}
	f = startRelay(t, map[string]string{"SLUICE_SURFACES": "sync"})
	for _, path := range []string{"/healthz", "/stream", "/connections", "/socket", "/"} {
		if got := f.do(t, "GET", f.request("GET", path)).Status; got != http.StatusNotFound {
			t.Errorf("aep is off and %s is %d", path, got)
		}
	}
	if got := f.push(t, "/v1/events"); got != http.StatusOK {
		t.Errorf("push: %d", got)
	}
}

// S52: a device that waits does not hold the relay up when it goes down, and
// gets the answer of a wait that brought nothing.
func TestShutdownEndsWaits(t *testing.T) {
	f := startRelay(t, map[string]string{"SLUICE_SURFACES": "sync"})
	if got := f.push(t, "/v1/events"); got != http.StatusOK {
		t.Fatalf("push: %d", got)
	}
	status := make(chan int)
	go func() {
		status <- f.do(t, "GET", f.request("GET", "/v1/events/wait?ownerId=o&after=1&timeout=60000", ownerAuth)).Status
	}()
	f.awaitSnapshot(t, "a waiting device", func(s *admin.Snapshot) bool { return s.Sync.Waiting == 1 })
	if err := f.shutdown(); err != nil {
		t.Error(err)
	}
	if got := <-status; got != http.StatusNoContent {
		t.Errorf("the wait was answered with %d, want 204", got)
	}
}

// awaitSnapshot waits until the relay's numbers are as ok wants them.
func (f *fixture) awaitSnapshot(t *testing.T, what string, ok func(*admin.Snapshot) bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s, err := f.relay.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if ok(s) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %s: %+v", what, s)
		}
	}
}
