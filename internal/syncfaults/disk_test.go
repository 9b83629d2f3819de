package syncfaults

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

// smallDisk mounts a file system of so many bytes and returns its directory.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		t.Skipf("a file system cannot be mounted here (%v); TestFileLimit is near it", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// filling is an owner whose device pushes until there is no room.
type filling struct {
	api    *api
	stored map[string]string // event id -> envelope
	count  int               // of ids that were used
}

const fillingOwner = "o"

// fill pushes events of 20 kB until five were refused, tries at most. Each
// refusal has to be the status, or 503 busy.
func (f *filling) fill(t *testing.T, tries, status int) (refused int) {
	t.Helper()
	for i := 0; i < tries && refused < 5; i++ {
		f.count++
		id := fmt.Sprintf("e%06d", f.count)
		e := event(fillingOwner, id, "", strings.Repeat("x", 20_000))
		switch got, answer, err := f.api.push(fillingOwner, e); {
		case err != nil:
			t.Fatal(err)
		case got == http.StatusOK:
			f.stored[id] = e
		case got == http.StatusServiceUnavailable && strings.Contains(string(answer), `"busy"`), got == status:
			refused++
		default:
			t.Fatalf("push without room: %d %s", got, answer)
		}
	}
	return refused
}

// same holds what the relay has to what it acknowledged, byte for byte.
func (f *filling) same(t *testing.T, when string) {
	t.Helper()
	got, status, err := f.api.pull(fillingOwner, "0")
	if err != nil || status != http.StatusOK || len(got.envelopes) != len(f.stored) {
		t.Fatalf("%s: pull: %d, %v, %d events, want %d", when, status, err, len(got.envelopes), len(f.stored))
	}
	for id, want := range f.stored {
		if got.envelopes[id] != want {
			t.Fatalf("%s: %s is %.80q", when, id, got.envelopes[id])
		}
	}
}

// TestFullDisk: hard case 43 on a file system that is really full: pushes and
// uploads get 503, large ones whose body is spooled too; nothing is half there;
// reads go on, after a kill too; and with room pushes go on, without a restart.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	p := start(t, dir)
	f := &filling{api: newAPI(p.Addr), stored: map[string]string{}}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	full := http.StatusServiceUnavailable
	if refused := f.fill(t, 1000, full); refused < 5 || len(f.stored) == 0 {
		t.Fatalf("%d pushes stored, %d refused: the disk did not fill up", len(f.stored), refused)
	}
	f.same(t, "full")
	big := make([]string, 30) // more than memory takes: its spool file has no room
	for i := range big {
		big[i] = event(fillingOwner, fmt.Sprint("big", i), "", strings.Repeat("y", 200_000))
	}
	if status, answer, err := f.api.push(fillingOwner, big...); err != nil || status != full {
		t.Errorf("a push of 6 MB: %d %s %v", status, answer, err)
	}
	if status, _, err := f.api.do("GET", "/health", "", nil); err != nil || status != http.StatusOK {
		t.Errorf("health: %d %v", status, err)
	}
	f.same(t, "after a large push")

	p.Kill() // a full disk is often met with a restart
	f.api.close()
	noRoomAtAll(t, dir)
	p = start(t, dir)
	f.api = newAPI(p.Addr)
	defer func() { f.api.close() }()
	f.same(t, "started while full")
	if refused := f.fill(t, 1000, full); refused < 5 {
		t.Fatal("it was started, and is not full")
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	before := len(f.stored)
	f.fill(t, 10, full)
	if len(f.stored) == before {
		t.Error("there is room, and no push is taken")
	}
	f.same(t, "with room")
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	checkStore(t, dir, true)
}

// noRoomAtAll: without the little that SQLite needs to read, the start says that
// it is room which is missing.
func noRoomAtAll(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "sync.db")
	if err := os.Remove(path + "-shm"); err != nil { // it is made anew from the log
		t.Fatal(err)
	}
	last := filepath.Join(dir, "last")
	if err := os.WriteFile(last, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if out := startFails(t, dir); !strings.Contains(out, path) || !strings.Contains(out, "full") {
		t.Errorf("started without any room: %s", out)
	}
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
}

// TestFileLimit: hard case 43 where no file system can be mounted: the files of
// the process may not grow. The kernel calls that another error than a full
// disk, so 500 may be the answer too.
func TestFileLimit(t *testing.T) {
	dir := t.TempDir()
	// In blocks of 512 bytes (POSIX, ulimit): 1 MiB.
	p, err := faults.Start("/bin/sh", []string{"-c", `ulimit -f 2048 && exec "$0" serve`, program},
		"SLUICE_SURFACES=aep,sync", "SLUICE_DATA="+dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	f := &filling{api: newAPI(p.Addr), stored: map[string]string{}}
	if refused := f.fill(t, 1000, http.StatusInternalServerError); refused < 5 || len(f.stored) == 0 {
		t.Fatalf("%d pushes stored, %d refused: the limit was not met", len(f.stored), refused)
	}
	f.same(t, "at the limit")
	if status, _, err := f.api.do("GET", "/healthz", "", nil); err != nil || status != http.StatusOK {
		t.Errorf("the AEP relay: %d %v", status, err)
	}
	f.api.close()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	checkStore(t, dir, true)
	p = start(t, dir)
	f.api = newAPI(p.Addr)
	defer func() { f.api.close() }()
	if refused := f.fill(t, 10, 0); refused > 0 {
		t.Errorf("%d pushes are refused without a limit", refused)
	}
	f.same(t, "without a limit")
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
	go func() { answered <- pushPlainly(a, owner, event(owner, "e2", "", "x")) }()
	aep := faults.NewPublisher(p.Addr, "beside-the-lock")
	defer aep.Close()
	during := 0
	var got string
	for got == "" {
		select {
		case got = <-answered:
		case <-time.After(20 * time.Millisecond):
			if r, status, err := a.pull(owner, "0"); err != nil || status != http.StatusOK || len(r.envelopes) != 1 {
				t.Fatalf("pull while locked: %d %v, %d events", status, err, len(r.envelopes))
			}
			if err := aep.Publish(1); err != nil {
				t.Fatalf("the AEP relay while the database is locked: %v", err)
			}
			during++
		}
	}
	// Reads that wait for the lock would make it one.
	if !strings.HasPrefix(got, `503 in 1 s: {"error":"busy"`) || during < 3 {
		t.Errorf("push while locked: %s, after %d reads", got, during)
	}
	unlock()
	if status, answer, err := a.push(owner, event(owner, "e2", "", "x")); err != nil || status != http.StatusOK {
		t.Errorf("push after the lock: %d %s %v", status, answer, err)
	}
}

// pushPlainly pushes one event and returns the answer with its Retry-After.
func pushPlainly(a *api, owner, event string) string {
	req, err := http.NewRequest("POST", a.base+"/v1/events", strings.NewReader(`{"ownerId":"`+owner+`","events":[`+event+`]}`))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf(owner))
	res, err := a.http.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d in %s s: %s %v", res.StatusCode, res.Header.Get("Retry-After"), answer, err)
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
	// It waits for a write that is under way.
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLKW, &lock); err != nil {
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
