package syncfaults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of so many bytes and returns its directory.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		t.Skipf("a file system cannot be mounted here (%v); internal/store has a test with a bounded database", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk: hard case 43 on a file system that is really full: pushes and
// uploads get 503, large ones whose body is spooled too; nothing is half there;
// reads go on; and with room pushes go on, without a restart.
func TestFullDisk(t *testing.T) {
	const owner = "o"
	dir := smallDisk(t, 4<<20)
	p := start(t, dir)
	a := newAPI(p.Addr)
	defer a.close()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	stored, full := map[string]string{}, 0
	fill := func(tries int) {
		t.Helper()
		for i := 0; i < tries && full < 5; i++ {
			id := fmt.Sprintf("e%06d", len(stored)+full)
			e := event(owner, id, "", strings.Repeat("x", 20_000))
			switch status, answer, err := a.push(owner, e); {
			case err != nil:
				t.Fatal(err)
			case status == http.StatusOK:
				stored[id] = e
			case status == http.StatusServiceUnavailable && strings.Contains(string(answer), `"busy"`):
				full++
			default:
				t.Fatalf("push on a full disk: %d %s", status, answer)
			}
		}
	}
	same := func(when string) {
		t.Helper()
		got, status, err := a.pull(owner, "0")
		if err != nil || status != http.StatusOK || len(got.envelopes) != len(stored) {
			t.Fatalf("%s: pull: %d, %v, %d events, want %d", when, status, err, len(got.envelopes), len(stored))
		}
		for id, want := range stored {
			if got.envelopes[id] != want {
				t.Fatalf("%s: %s is %.80q", when, id, got.envelopes[id])
			}
		}
	}
	fill(1000)
	if full < 5 || len(stored) == 0 {
		t.Fatalf("%d pushes stored, %d refused: the disk did not fill up", len(stored), full)
	}
	same("full")
	big := make([]string, 30) // more than memory takes: its spool file has no room
	for i := range big {
		big[i] = event(owner, fmt.Sprint("big", i), "", strings.Repeat("y", 200_000))
	}
	if status, answer, err := a.push(owner, big...); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("a push of 6 MB: %d %s %v", status, answer, err)
	}
	if status, _, err := a.do("GET", "/health", "", nil); err != nil || status != http.StatusOK {
		t.Errorf("health: %d %v", status, err)
	}
	same("after a large push")

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	full = 0
	before := len(stored)
	fill(10)
	if len(stored) == before {
		t.Error("there is room, and no push is taken")
	}
	same("with room")
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	checkStore(t, dir, true)
}

// TestLockedDatabase: another process holds the database: a push waits and is
// told to come again (S4), reads and the AEP relay go on meanwhile, and once the
// lock is gone pushes do.
func TestLockedDatabase(t *testing.T) {
	const owner = "o"
	dir := t.TempDir()
	p := start(t, dir)
	a := newAPI(p.Addr)
	defer a.close()
	if status, answer, err := a.push(owner, event(owner, "e1", "", "x")); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	unlock := lockDatabase(t, filepath.Join(dir, "sync.db"))
	answered := make(chan string, 1)
	go func() {
		status, answer, err := a.push(owner, event(owner, "e2", "", "x"))
		answered <- fmt.Sprint(status, " ", string(answer), " ", err)
	}()
	during := 0
	var got string
	for got == "" {
		select {
		case got = <-answered:
		case <-time.After(20 * time.Millisecond):
			if r, status, err := a.pull(owner, "0"); err != nil || status != http.StatusOK || len(r.envelopes) != 1 {
				t.Fatalf("pull while locked: %d %v, %d events", status, err, len(r.envelopes))
			}
			if status, _, err := a.do("GET", "/healthz", "", nil); err != nil || status != http.StatusOK {
				t.Fatalf("the AEP relay while the database is locked: %d %v", status, err)
			}
			during++
		}
	}
	if !strings.HasPrefix(got, `503 {"error":"busy"`) || during < 50 {
		t.Errorf("push while locked: %s, after %d reads", got, during)
	}
	unlock()
	if status, answer, err := a.push(owner, event(owner, "e2", "", "x")); err != nil || status != http.StatusOK {
		t.Errorf("push after the lock: %d %s %v", status, answer, err)
	}
}

// lockDatabase takes the lock that SQLite's writers take in WAL mode, as another
// process would: byte 120 of the shared memory file ("WAL-index locks" of
// SQLite's file format).
func lockDatabase(t *testing.T, path string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: 120, Len: 1}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

// TestBrokenDatabase: what is no database, or a broken one, stops the start with
// the file's name; the file is left as it is.
func TestBrokenDatabase(t *testing.T) {
	for name, content := range map[string]string{
		"text":    strings.Repeat("this is no database\n", 1000),
		"cut off": "SQLite format 3\x00",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "sync.db")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		out := startFails(t, dir)
		if !strings.Contains(out, path) || strings.Contains(out, "panic") {
			t.Errorf("%s: %s", name, out)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%s: the file was changed (%d bytes, %v)", name, len(got), err)
		}
	}
}
