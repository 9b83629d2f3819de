package firehosefaults

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

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

// untilRefused publishes until five were refused in a row, tries at most. Each
// refusal has to be 503 (F28, F52).
func untilRefused(t *testing.T, pub *publisher, book *ledger, tries int) (taken int) {
	t.Helper()
	refused := 0
	for range tries {
		m := newRepo(0).identity()
		seq, status, err := pub.publish(m)
		switch {
		case err != nil:
			t.Fatal(err)
		case status == http.StatusServiceUnavailable:
			if refused++; refused == 5 {
				return taken
			}
			continue
		case status != http.StatusOK:
			t.Fatalf("publish without room: %d", status)
		case seq <= book.top():
			t.Fatalf("N1: number %d after %d", seq, book.top())
		}
		refused = 0
		taken++
		if err := book.enter(seq, m.id); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%d frames were taken: the disk did not fill up", taken)
	return 0
}

// TestFullDisk: F28 on a file system that is really full: publishing answers
// 503, consumers stay and miss nothing, and with room it goes on, after a kill
// too. No number comes twice.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 2<<20)
	settings := []string{"FIREHOSE_SEQ_FLOOR=1", "FIREHOSE_SEQ_RESERVE=1"}
	book := newLedger()
	p := start(t, dir, settings...)
	pub := newPublisher(p.Addr)
	f := follow(t, p.Addr, noCursor)
	pub.must(t, book, newRepo(0).identity())
	for round := range 3 {
		ballast := fillUp(t, dir)
		before := book.top()
		taken := untilRefused(t, pub, book, 2000)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		seq := pub.must(t, book, newRepo(0).identity())
		if seq != before+int64(taken)+1 {
			t.Errorf("round %d: number %d after %d and %d frames: a refused one took a number", round, seq, before, taken)
		}
	}
	await(t, "all frames", func() bool { return f.last() == book.top() })

	ballast := fillUp(t, dir)
	untilRefused(t, pub, book, 2000)
	p.Kill() // a full disk is often met with a restart
	pub.close()
	book.run(t, "a consumer of the full disk", f.end(t), false, 1)
	p = start(t, dir, settings...)
	pub = newPublisher(p.Addr)
	defer func() { pub.close() }()
	f = follow(t, p.Addr, noCursor)
	before := book.top()
	untilRefused(t, pub, book, 2000)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if seq := pub.must(t, book, newRepo(0).identity()); seq <= before {
		t.Errorf("N1: number %d after %d", seq, before)
	}
	await(t, "the frames after the start", func() bool { return f.last() == book.top() })
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	items := f.end(t)
	book.run(t, "a consumer of the next life", items, false, items[0].seq)
}

// TestFileLimit: the same where no file system can be mounted: the files of the
// process may not grow. Then it is started without the limit.
func TestFileLimit(t *testing.T) {
	dir := t.TempDir()
	// In blocks of 512 bytes (POSIX, ulimit): 256 KiB.
	p, err := faults.Start("/bin/sh", []string{"-c", `ulimit -f 512 && exec "$0" serve`, program},
		"SLUICE_SURFACES=aep,firehose", "SLUICE_DATA="+dir, "FIREHOSE_PUBLISH_TOKEN="+publishToken, "FIREHOSE_SEQ_RESERVE=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	book := newLedger()
	pub := newPublisher(p.Addr)
	defer pub.close()
	f := follow(t, p.Addr, noCursor)
	taken := untilRefused(t, pub, book, 5000)
	await(t, "all frames", func() bool { return f.last() == book.top() })
	p.Kill()
	book.run(t, "a consumer at the limit", f.end(t), false, 1)
	publishSome(t, book, dir, "auto", 20)
	t.Logf("%d frames before the limit", taken)
}
