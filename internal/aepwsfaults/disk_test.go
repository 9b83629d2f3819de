package aepwsfaults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
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

// fillUp takes all room of a file system and returns the file that has it.
func fillUp(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for page := make([]byte, pageBytes); ; {
		if _, err := f.Write(page); errors.Is(err, syscall.ENOSPC) {
			return path
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// untilRefused publishes until five events were refused in a row, tries at most,
// and returns how many were taken. Each refusal has to be one that may be tried
// again; numbers go on without a gap.
func untilRefused(t *testing.T, a *agent, prefix string, before int64, tries int) (taken int64) {
	t.Helper()
	refused := 0
	for n := range tries {
		d := plain(fmt.Sprint(prefix, n))
		d.padBytes = 1000
		e, err := a.publish(d)
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Type == "event.acknowledged":
			taken++
			refused = 0
			if got := number(e.Payload.Cursor); got != before+taken {
				t.Fatalf("B51: number %d, want %d: what was refused took one", got, before+taken)
			}
			continue
		case e.Payload.Error == nil || e.Payload.Error.Code != "internal_error" || !e.Payload.Error.Retryable:
			t.Fatalf("publish without room: %v", e)
		}
		if refused++; refused == 5 {
			return taken
		}
	}
	t.Fatalf("%d events were taken: the disk did not fill up", taken)
	return 0
}

// TestFullDisk: a file system that is really full: publishers are refused as
// retryable, subscribers stay and miss nothing, and with room it goes on, after a
// kill too. Nothing that was acknowledged is lost.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	p := start(t, dir)
	pub := join(t, p.Addr, "publisher")
	live := mustFollow(t, p.Addr, "live", filterFrom("", "at_least_once"))
	last := pub.mustPublish(t, plain("first"))
	for round := range 3 {
		ballast := fillUp(t, dir)
		last += untilRefused(t, pub, fmt.Sprint("full-", round, "-"), last, 3000)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		n := pub.mustPublish(t, plain(fmt.Sprint("room-", round)))
		if n != last+1 {
			t.Errorf("round %d: number %d after %d: a refused event took one", round, n, last)
		}
		last = n
	}
	await(t, "all events", func() bool { return live.last() == last })

	ballast := fillUp(t, dir)
	last += untilRefused(t, pub, "killed-", last, 3000)
	p.Kill() // a full disk is often met with a restart
	live.end(t)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	p = start(t, dir)
	n := join(t, p.Addr, "publisher").mustPublish(t, plain("after"))
	if n != last+1 {
		t.Errorf("K1: number %d after %d", n, last)
	}
	wantRun(t, "after the restart", whole(t, p.Addr, n), 1, n)
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// TestStartOnFullDisk: a relay starts on a disk that is full, or says what is
// wrong. It refuses what it cannot keep, and gives out what it has.
func TestStartOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	p := start(t, dir)
	_, last := join(t, p.Addr, "publisher").mustPublishMany(t, "e", 100, 100)
	p.Kill()
	ballast := fillUp(t, dir)
	p = start(t, dir)
	wantRun(t, "on the full disk", whole(t, p.Addr, last), 1, last)
	pub := join(t, p.Addr, "publisher")
	last += untilRefused(t, pub, "full-", last, 3000)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if n := pub.mustPublish(t, plain("room")); n != last+1 {
		t.Errorf("K1: number %d after %d", n, last)
	}
	wantRun(t, "with room", whole(t, p.Addr, last+1), 1, last+1)
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// TestFileLimit: the same where no file system can be mounted: the files of the
// process may not grow. Then it is started without the limit.
func TestFileLimit(t *testing.T) {
	dir := t.TempDir()
	// In blocks of 512 bytes (POSIX, ulimit): 1 MiB.
	p := startAs(t, "/bin/sh", []string{"-c", `ulimit -f 2048 && exec "$0" serve`, program}, dir)
	live := mustFollow(t, p.Addr, "live", filterFrom("", "at_least_once"))
	last := untilRefused(t, join(t, p.Addr, "publisher"), "e", 0, 5000)
	await(t, "all events", func() bool { return live.last() == last })
	p.Kill()
	wantRun(t, "at the limit", live.end(t), 1, last)
	p = start(t, dir)
	n := join(t, p.Addr, "publisher").mustPublish(t, plain("after"))
	if n != last+1 {
		t.Errorf("K1: number %d after %d", n, last)
	}
	wantRun(t, "without the limit", whole(t, p.Addr, n), 1, n)
	t.Logf("%d events before the limit", last)
	stop(t, p)
}
