package firehosestore

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// killPath names the database of the child process of TestKill.
const killPath = "FIREHOSESTORE_TEST_KILL_PATH"

// F25, F63, F64: kill -9 during reservations, batches and checkpoints: what was
// answered is there, and each batch is wholly there or wholly not.
func TestKill(t *testing.T) {
	if path := os.Getenv(killPath); path != "" {
		killChild(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "data", "firehose.db")
	for round := range 3 {
		reserved, applied := killOnce(t, path, 40+20*round)
		s := reopen(t, path)
		st, err := s.Load()
		if err != nil || st.Reserved < reserved {
			t.Fatalf("%+v, %v, %d was answered", st, err, reserved)
		}
		hosts, err := s.Hosts()
		if err != nil || len(hosts) != 1 || hosts[0].LastSeq < applied {
			t.Fatalf("%+v, %v, cursor %d was answered", hosts, err, applied)
		}
		for _, r := range many(0, killRows, 0) {
			got, found, err := s.Repo(r.DID)
			if err != nil || !found || got.Rev != strconv.FormatInt(hosts[0].LastSeq, 10) {
				t.Fatalf("%+v, %t, %v beside cursor %d", got, found, err, hosts[0].LastSeq)
			}
		}
		wantErr(t, "close", s.Close(), nil)
	}
}

const killRows = 150

// killOnce runs the child, kills it after so many answers and returns the last
// of each kind.
func killOnce(t *testing.T, path string, after int) (reserved, applied int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$", "-test.v")
	cmd.Env = append(os.Environ(), killPath+"="+path)
	out, err := cmd.StdoutPipe()
	wantErr(t, "pipe", err, nil)
	wantErr(t, "start", cmd.Start(), nil)
	lines, count := bufio.NewScanner(out), 0
	for lines.Scan() {
		what, number, _ := strings.Cut(lines.Text(), " ")
		n, _ := strconv.ParseInt(number, 10, 64)
		switch what {
		case "reserved":
			reserved = n
		case "applied":
			applied = n
		default:
			continue
		}
		if count++; count == after {
			wantErr(t, "kill", cmd.Process.Kill(), nil)
		}
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed
	if count < after {
		t.Fatalf("the child ended after %d answers", count)
	}
	return reserved, applied
}

func killChild(t *testing.T, path string) {
	s := reopen(t, path)
	st, err := s.Load()
	wantErr(t, "load", err, nil)
	id := saved(t, s, state.Host{Hostname: "a.example", Status: state.Active, LastSeq: st.Reserved})
	apply := func(n int64) {
		b := state.Batch{Cursors: []state.HostCursor{{ID: id, LastSeq: n}}}
		for _, r := range many(0, killRows, id) {
			r.Rev = strconv.FormatInt(n, 10)
			b.Repos = append(b.Repos, r)
		}
		if err := s.Apply(b); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		fmt.Println("applied", n)
	}
	apply(st.Reserved)
	go func() {
		for n := st.Reserved + 1; ; n++ {
			apply(n)
		}
	}()
	for n := st.Reserved + 1; ; n++ {
		if err := s.Reserve(n); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		fmt.Println("reserved", n)
	}
}

// F28 on a file system that is really full: the database cannot be made, or not
// grow; what was stored stays, and with room all goes on.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(1<<20)); err != nil {
		t.Skipf("a file system cannot be mounted here (%v); TestDiskFull is near it", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill := func() {
		t.Helper()
		f, err := os.Create(ballast)
		wantErr(t, "ballast", err, nil)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		wantErr(t, "ballast", err, syscall.ENOSPC)
		wantErr(t, "ballast", f.Close(), nil)
	}
	fill()
	s := reopen(t, filepath.Join(dir, "data", "firehose.db"))
	if s.Reserve(1) == nil || s.Ping() == nil {
		t.Fatal("stored without room")
	}
	wantErr(t, "room", os.Remove(ballast), nil)
	wantErr(t, "reserve", s.Reserve(1), nil)
	id := saved(t, s, host("a.example"))
	fill()
	var err error
	last := int64(-1)
	for n := int64(0); err == nil && n < 1000; n++ {
		if err = s.Apply(state.Batch{Repos: many(int(n)*50, 50, id), Cursors: []state.HostCursor{{ID: id, LastSeq: n}}}); err == nil {
			last = n
		}
	}
	wantErr(t, "apply", err, ErrDiskFull)
	full := func(s *Store) {
		t.Helper()
		wantState(t, "full", s, unclean(1))
		hosts, err := s.Hosts()
		if err != nil || len(hosts) != 1 || hosts[0].LastSeq != last {
			t.Fatalf("full: %+v, %v, want cursor %d", hosts, err, last)
		}
		if _, found, err := s.Repo(many(int(last+1)*50, 1, id)[0].DID); found || err != nil {
			t.Fatalf("half of a batch is there: %v", err)
		}
	}
	full(s)
	wantErr(t, "room", os.Remove(ballast), nil)
	full(s)
	wantErr(t, "reserve", s.Reserve(2), nil)
	wantErr(t, "apply", s.Apply(state.Batch{Repos: many(0, 50, id), Cursors: []state.HostCursor{{ID: id, LastSeq: 5000}}}), nil)
}
