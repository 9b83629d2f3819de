package syncmodel

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/store"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience bounds each request. It is used up only when a test fails.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	testrelay.Main()
	flag.Parse()
	os.Exit(m.Run())
}

// raceDetector tells whether the relay carries the race detector, with which
// SQLite takes 50 times as long.
var raceDetector = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// scale returns full, or less under -short and with the race detector.
func scale[T any](full, less T) T {
	if testing.Short() || raceDetector {
		return less
	}
	return full
}

// site is where one relay lives: its data directory and how it is started. Its
// address changes with each start; its URL, by which devices know it, does not.
type site struct {
	t        testing.TB
	dir      string
	settings []string
	own      bool // in a process of its own
	relay    *relay.Relay
	process  *faults.Process
	addr     atomic.Pointer[string]
	http     *http.Client
}

// adminToken is the sites' SYNC_ADMIN_TOKEN.
const adminToken = "admin-of-the-site"

// newSite starts a relay in this process with settings as NAME=value. When the
// test ends it is stopped and its store is checked (M6).
func newSite(t testing.TB, settings ...string) *site { return startSite(t, false, settings...) }

func startSite(t testing.TB, own bool, settings ...string) *site {
	s := &site{t: t, dir: t.TempDir(), settings: settings, own: own}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		addr := s.addr.Load()
		if addr == nil {
			return nil, errDown
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", *addr)
	}
	s.http = &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableCompression: true},
		Timeout:   patience,
	}
	t.Cleanup(func() {
		s.stop()
		s.check()
	})
	s.start()
	return s
}

var errDown = errors.New("syncmodel: the relay is down")

// start starts the relay, with further settings for this run.
func (s *site) start(more ...string) {
	s.t.Helper()
	settings := append([]string{
		"SLUICE_SURFACES=sync", "SLUICE_DATA=" + s.dir, "SLUICE_LOOPS=2", "SYNC_ADMIN_TOKEN=" + adminToken,
	}, s.settings...)
	settings = append(settings, more...)
	var addr string
	if s.own {
		p, err := testrelay.Spawn(settings...)
		if err != nil {
			s.t.Fatal(err)
		}
		s.process, addr = p, p.Addr
	} else {
		s.relay = testrelay.Start(s.t, settings...)
		addr = s.relay.Addr()
	}
	s.addr.Store(&addr)
}

// stop ends the relay in an orderly way, if it runs.
func (s *site) stop() {
	s.t.Helper()
	s.addr.Store(nil)
	s.http.CloseIdleConnections()
	if s.relay != nil {
		testrelay.Stop(s.t, s.relay)
	}
	if s.process != nil {
		if err := s.process.Stop(); err != nil {
			s.t.Error(err)
		}
		for _, line := range s.process.Problems() {
			s.t.Errorf("log of the relay: %s", line)
		}
	}
	s.relay, s.process = nil, nil
}

// kill is SIGKILL.
func (s *site) kill() {
	s.process.Kill()
	s.addr.Store(nil)
	s.http.CloseIdleConnections()
	s.process = nil
}

func (s *site) restart(more ...string) {
	s.t.Helper()
	s.stop()
	s.start(more...)
}

func (s *site) database() string { return filepath.Join(s.dir, relay.SyncFile) }

// wipe deletes the database. The relay is stopped.
func (s *site) wipe() {
	s.t.Helper()
	for _, tail := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.database() + tail); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.t.Fatal(err)
		}
	}
}

// copyAway copies the database of a relay that is stopped, killed or idle to a
// fresh place. False: there is no database yet.
func (s *site) copyAway() (string, bool) {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), "copy.db")
	return to, s.copyFiles(s.database(), to)
}

// restore puts a copy in the place of the database. The relay is stopped.
func (s *site) restore(from string) {
	s.t.Helper()
	s.wipe()
	if !s.copyFiles(from, s.database()) {
		s.t.Fatalf("%s is gone", from)
	}
}

func (s *site) copyFiles(from, to string) (there bool) {
	s.t.Helper()
	for _, tail := range []string{"", "-wal"} {
		content, err := os.ReadFile(from + tail)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(to+tail, content, 0o600)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		there = there || tail == ""
	}
	return there
}

// open opens the database as another process would; it issues no numbers.
func (s *site) open() *store.Store {
	s.t.Helper()
	db, err := store.Open(store.Config{
		Path: s.database(), CompactionInterval: -1, Floor: store.Floor{Mode: store.FloorFixed},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

// backup makes a copy of the database while the relay runs. False: there is no
// database yet.
func (s *site) backup() (string, bool) {
	s.t.Helper()
	if _, err := os.Stat(s.database()); err != nil {
		return "", false
	}
	to := filepath.Join(s.t.TempDir(), "backup.db")
	db := s.open()
	if err := errors.Join(db.Backup(to), db.Close()); err != nil {
		s.t.Fatal(err)
	}
	return to, true
}

// check tests the store's invariants (M6, S49).
func (s *site) check() {
	s.t.Helper()
	if _, err := os.Stat(s.database()); err != nil {
		return // nothing was ever stored
	}
	db := s.open()
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		s.t.Errorf("S49: %v", err)
	}
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// try sends one request; token may be empty.
func (s *site) try(method, path, token, body string, fields ...string) (answer, error) {
	req, err := http.NewRequest(method, "http://relay"+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	return s.send(req)
}

func (s *site) send(req *http.Request) (answer, error) {
	res, err := s.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text)}, errors.Join(err, res.Body.Close())
}

// do is try for a request that must be answered.
func (s *site) do(method, path, token, body string, fields ...string) answer {
	s.t.Helper()
	a, err := s.try(method, path, token, body, fields...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}
