package syncfaults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/faults"
)

// pageBytes is the size of SQLite's pages.
const pageBytes = 4096

// startFilled starts a relay whose owner "o" has so many events of 20 kB.
func startFilled(t *testing.T, dir string, events int) (*faults.Process, *api) {
	t.Helper()
	p := start(t, dir)
	a := newAPI(p.Addr)
	t.Cleanup(a.close)
	for i := range events {
		status, answer, err := a.push("o", event("o", fmt.Sprint("e", i), "", strings.Repeat("x", 20_000)))
		if err != nil || status != http.StatusOK {
			t.Fatalf("%d %s %v", status, answer, err)
		}
	}
	return p, a
}

// wantHealth asks whether the relay counts itself as well.
func wantHealth(t *testing.T, a *api, want int) {
	t.Helper()
	status, answer, err := a.do("GET", "/health", "", nil)
	if err != nil || status != want || strings.Contains(string(answer), `"ok":true`) != (want == http.StatusOK) {
		t.Errorf("health: %d %s %v, want %d", status, answer, err, want)
	}
}

// scramble overwrites all pages of a file but the first with random bytes.
func scramble(t *testing.T, path string, random *rand.Rand) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	end, err := f.Seek(0, 2)
	if err != nil || end <= pageBytes {
		t.Fatalf("%s has %d bytes, %v", path, end, err)
	}
	noise := make([]byte, end-pageBytes)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	if _, err := f.WriteAt(noise, pageBytes); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDatabaseTakenAway: S25 and the store unreachable: the data directory of a
// running relay is moved away. It acknowledges nothing that would be gone with
// it, and says so in its health; moved back, all goes on.
func TestDatabaseTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p, a := startFilled(t, dir, 3)
	wantHealth(t, a, http.StatusOK)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	lost := event("o", "lost", "", "x")
	if status, answer, err := a.push("o", lost); err != nil || status != http.StatusInternalServerError {
		t.Errorf("push: %d %s %v", status, answer, err)
	}
	wantHealth(t, a, http.StatusServiceUnavailable)
	if got, status, err := a.pull("o", "0"); err != nil || status != http.StatusOK || len(got.envelopes) != 3 {
		t.Errorf("pull: %d %v, %d events", status, err, len(got.envelopes))
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if status, answer, err := a.push("o", lost); err != nil || status != http.StatusOK {
		t.Errorf("push, moved back: %d %s %v", status, answer, err)
	}
	wantHealth(t, a, http.StatusOK)
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	checkStore(t, dir, true)
}

// TestScrambledDatabase: pages of the database turn to noise. A relay that runs
// answers with an error, neither noise nor a crash, and the AEP relay goes on; one
// that starts refuses to, and names the file.
func TestScrambledDatabase(t *testing.T) {
	random := newRand(t)
	dir := t.TempDir()
	p, _ := startFilled(t, dir, 100)
	if err := p.Stop(); err != nil { // all of it goes from the log into the database
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sync.db")
	p = start(t, dir)
	a := newAPI(p.Addr)
	defer a.close()
	scramble(t, path, random)
	if got, status, err := a.pull("o", "0"); err != nil || status != http.StatusInternalServerError || len(got.envelopes) != 0 {
		t.Errorf("pull: %d %v, %d events", status, err, len(got.envelopes))
	}
	status, answer, err := a.push("o", event("o", "new", "", "x"))
	if err != nil || status != http.StatusInternalServerError || strings.Contains(string(answer), "malformed") {
		t.Errorf("push: %d %s %v", status, answer, err)
	}
	if status, _, err := a.do("GET", "/healthz", "", nil); err != nil || status != http.StatusOK {
		t.Errorf("the AEP relay: %d %v", status, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if out := startFails(t, dir); !strings.Contains(out, path) || strings.Contains(out, "panic") {
		t.Error(out)
	}
}
