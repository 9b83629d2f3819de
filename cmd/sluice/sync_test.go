package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/store"
)

// runSync runs "sluice sync" with variables and returns what it leaves.
func runSync(t *testing.T, env map[string]string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{
		lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		stdout: &stdout, stderr: &stderr,
	}
	code := a.main(t.Context(), append([]string{"sluice", "sync"}, args...))
	return outcome{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// wantSync fails the test unless the command left this code and these texts.
func wantSync(t *testing.T, name string, o outcome, code int, stdout, stderr string) {
	t.Helper()
	if o.code != code || !strings.Contains(o.stdout, stdout) || !strings.Contains(o.stderr, stderr) || strings.Contains(o.stderr, "SECRET") {
		t.Errorf("%s: exit %d, %q, %q; want %d, %q, %q", name, o.code, o.stdout, o.stderr, code, stdout, stderr)
	}
}

// stored makes a store in a fresh data directory: two owners, one with an id
// that a terminal must not get, and a stream with a replaced event.
func stored(t *testing.T) (s *store.Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := store.Open(store.Config{Path: filepath.Join(dir, relay.SyncFile), CompactionInterval: -1, Synchronous: "OFF"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, owner := range []string{"alice", "evil\x1b[2J\u202e"} {
		if _, err := s.Push(store.Push{Auth: store.Auth{Owner: owner, Hash: "h"}, Events: envelopes(len(owner)), Count: 3}); err != nil {
			t.Fatal(err)
		}
	}
	return s, dir
}

// envelopes gives three events of so many bytes, two of them of one stream.
func envelopes(size int) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		for i, stream := range []string{"s", "s", ""} {
			if !yield(store.Event{ID: fmt.Sprint(i), Stream: stream, Envelope: make([]byte, size)}, nil) {
				return
			}
		}
	}
}

// The command line: what is wrong with it exits 78, what is not there 1.
func TestSyncUsage(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "none")
	f := func(name string, code int, stderr string, args ...string) {
		t.Helper()
		wantSync(t, name, runSync(t, nil, args...), code, "", stderr)
	}
	f("none", exitUsage, "say which command")
	f("unknown", exitUsage, `unknown command "x"`, "x")
	f("argument", exitUsage, "takes no argument", "status", "x")
	f("argument of check", exitUsage, "takes no argument", "check", "x")
	f("argument of compact", exitUsage, "takes no argument", "compact", "x")
	f("flag", exitUsage, "--help", "status", "--x")
	f("empty", exitUsage, "--data is empty", "status", "--data", "")
	f("owners", exitUsage, "0 to 10000", "status", "--owners", "10001")
	f("epochs", exitUsage, "0 to 10000", "status", "--epochs", "-1")
	f("no file", exitUsage, "say which FILE", "backup")
	f("files", exitUsage, "takes one FILE", "backup", "a", "b")
	f("stdout", exitUsage, "standard output", "backup", "-")
	f("no token", exitUsage, "SYNC_ADMIN_TOKEN is not set: give it to the relay and to this command, or stop the relay", "compact")
	f("offline and url", exitUsage, "do not go with it", "compact", "--offline", "--url", "http://x")
	for _, command := range [][]string{{"status"}, {"check"}, {"backup", filepath.Join(t.TempDir(), "x")}, {"compact", "--offline"}} {
		f(command[0], exitFailed, "there is no database "+filepath.Join(absent, relay.SyncFile)+": ", append(command, "--data", absent)...)
	}
	if _, err := os.Stat(absent); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
	token := map[string]string{config.EnvSyncAdmin: "SECRET"}
	wantSync(t, "data", runSync(t, token, "compact", "--data", "x"), exitUsage, "", "goes with --offline only")
	wantSync(t, "timeout", runSync(t, token, "compact", "--timeout", "0"), exitUsage, "", "not more than 0")
	wantSync(t, "url", runSync(t, token, "compact", "--url", "ftp://x"), exitUsage, "", "bad relay URL")
	wantSync(t, "token", runSync(t, map[string]string{config.EnvSyncAdmin: "SECRET\n"}, "compact"), exitUsage, "", "visible ASCII")
	for _, command := range []string{"status", "check", "compact", "backup"} {
		if o := runSync(t, nil, command, "--help"); o.code != exitOK || !strings.Contains(o.stdout, "--data") {
			t.Errorf("%s --help: %+v", command, o)
		}
	}
}

// S49, S11: beside a running relay and after it; ids cannot reach the terminal.
func TestSyncReads(t *testing.T) {
	s, dir := stored(t)
	env := map[string]string{config.EnvData: dir}
	for _, when := range []string{"live", "stopped"} {
		o := runSync(t, env, "status", "--owners", "5")
		wantSync(t, when, o, exitOK, "owners     2 open, 0 closed\n", "")
		wantSync(t, when, o, exitOK, "owner      evil\\x1b[2J\\u202e: 33 bytes: events 3, of streams 1; chunks 0; since ", "")
		wantSync(t, when, o, exitOK, "last seq   6\n", "")
		wantSync(t, when, o, exitOK, " 1 to 6, opened ", "")
		if strings.ContainsAny(o.stdout, "\x1b\u202e") {
			t.Errorf("%s: %q", when, o.stdout)
		}
		var got store.Summary
		o = runSync(t, nil, "status", "--json", "--data", dir)
		if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || got.Events != 6 || got.StoredBytes != 48 || got.StoreID != s.StoreID() {
			t.Errorf("%s: %v, %q", when, err, o.stdout)
		}
		wantSync(t, when, runSync(t, env, "check", "--quick-check"), exitOK, "", "sluice sync check: all is well (")
		wantSync(t, when, runSync(t, env, "check", "--json"), exitOK, "{\n  \"ok\": true,\n  \"broken\": []\n}\n", "")

		file := filepath.Join(t.TempDir(), "copy.db")
		wantSync(t, when, runSync(t, env, "backup", file), exitOK, ", last seq 6, epoch 1 to 6 of ", "")
		wantSync(t, when, runSync(t, env, "backup", file), exitFailed, "", "file already exists")
		wantSync(t, when, runSync(t, nil, "check", "--data", file), exitOK, "", "all is well")
		o = runSync(t, env, "backup", "--json", file+"2")
		if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || got.Path != file+"2" || got.FileBytes == 0 || got.LastSeq != 6 {
			t.Errorf("%s: %v, %q", when, err, o.stdout)
		}
		if when == "live" {
			wantSync(t, when, runSync(t, env, "compact", "--offline"), exitFailed, "", "another process has the database open")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantSync(t, "offline", runSync(t, env, "compact", "--offline"), exitOK, "deleted events: 2, reclaimed: 16 bytes\n", "")
	wantSync(t, "offline", runSync(t, env, "compact", "--offline", "--json"), exitOK, "{\n  \"deletedEvents\": 0,\n  \"reclaimedBytes\": 0\n}\n", "")
}

// S49: broken invariants are printed and the exit code is 1.
func TestSyncCheckBroken(t *testing.T) {
	s, dir := stored(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, relay.SyncFile)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The id of an owner's row is changed where the table has it, not its index:
	// its events are then of nobody.
	at := bytes.Index(file, []byte("alice"+"h"))
	if at < 0 {
		t.Fatal("no row of alice")
	}
	copy(file[at:], "alic\x1b")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	o := runSync(t, nil, "check", "--quick-check", "--data", dir)
	wantSync(t, "text", o, exitFailed, "stored_bytes: alic\\x1b: 15\n", "sluice sync check: broken: ")
	wantSync(t, "text", o, exitFailed, "stream_count: alic\\x1b: 1\n", "")
	o = runSync(t, nil, "check", "--json", "--data", dir)
	wantSync(t, "JSON", o, exitFailed, "\"ok\": false", "")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantSync(t, "no database", runSync(t, nil, "check", "--data", dir), exitFailed, "", "holds no sync store")
}

// S47: what the relay answers, and what to do about it.
func TestSyncCompactAnswers(t *testing.T) {
	env := map[string]string{config.EnvSyncAdmin: "SECRET"}
	f := func(name string, status int, body string, code int, stdout, stderr string, flags ...string) {
		t.Helper()
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != "POST" || r.URL.Path != "/below/v1/admin/compact" || r.Header.Get("Authorization") != "Bearer SECRET" {
				t.Errorf("%s: %s %s", name, r.Method, r.URL)
			}
			if status == 0 {
				<-r.Context().Done()
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		defer srv.Close()
		wantSync(t, name, runSync(t, env, append([]string{"compact", "--url", srv.URL + "/below"}, flags...)...), code, stdout, stderr)
	}
	const done = `{"deletedEvents":7,"reclaimedBytes":12345}`
	f("done", 200, done, exitOK, "deleted events: 7, reclaimed: 12.3 kB (12345 bytes)\n", "")
	f("JSON", 200, done, exitOK, `"reclaimedBytes": 12345`, "", "--json")
	f("no JSON", 200, "<html>", exitFailed, "", "no sync relay's")
	f("token", 401, "", exitFailed, "", "another SYNC_ADMIN_TOKEN")
	f("route", 404, "", exitFailed, "", "was it started with SYNC_ADMIN_TOKEN")
	f("busy", 503, `{"error":"busy","message":"try\u001b again"}`, exitFailed, "", `503 Service Unavailable: try\x1b again`)
	f("slow", 0, "", exitFailed, "", "no answer within 10ms; the relay goes on", "--timeout", "10ms")
	wantSync(t, "nobody", runSync(t, env, "compact", "--url", "unix:"+filepath.Join(t.TempDir(), "none")), exitFailed, "", "of a stopped relay: --offline")
}

// Case 19, S47: the commands beside a relay's process, and on what it leaves
// when it is killed.
func TestSyncBesideProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startProcess(t, "", config.EnvData+"="+dir, config.EnvSyncAdmin+"=SECRET")
	env := map[string]string{config.EnvData: dir, config.EnvSyncAdmin: "SECRET", envURL: "http://" + p.addr}
	wantSync(t, "before a push", runSync(t, env, "status"), exitFailed, "", "there is no database")
	var events []string
	for i := range 10 {
		events = append(events, fmt.Sprintf(`{"version":1,"ownerId":"o","eventId":"%d","deviceId":"d","streamId":"s","createdAt":"c","nonce":"n","ciphertext":"c"}`, i))
	}
	req, err := http.NewRequest("POST", "http://"+p.addr+"/v1/events", strings.NewReader(`{"ownerId":"o","events":[`+strings.Join(events, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != `{"accepted":10,"duplicate":0}` {
		t.Fatalf("%s, %v", body, err)
	}
	_ = res.Body.Close()
	copied := filepath.Join(t.TempDir(), "copy.db")
	wantSync(t, "live", runSync(t, env, "status"), exitOK, "events 10, of streams 1;", "")
	wantSync(t, "live", runSync(t, env, "check"), exitOK, "", "all is well")
	wantSync(t, "live", runSync(t, env, "backup", copied), exitOK, "last seq 10, epoch 1 to 10 of ", "")
	wantSync(t, "live", runSync(t, env, "compact", "--offline"), exitFailed, "", "leave out --offline")
	wantSync(t, "live", runSync(t, env, "compact"), exitOK, "deleted events: 9, reclaimed: ", "")
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if info, err := os.Stat(filepath.Join(dir, relay.SyncFile+"-wal")); err != nil || info.Size() == 0 {
		t.Fatalf("no log is left: %v", err)
	}
	wantSync(t, "killed", runSync(t, env, "status"), exitOK, "events 1, of streams 1;", "")
	wantSync(t, "killed", runSync(t, env, "check", "--quick-check"), exitOK, "", "all is well")
	wantSync(t, "killed", runSync(t, env, "compact", "--offline"), exitOK, "deleted events: 0", "")

	// The restore that the help tells of.
	if err := os.Rename(copied, filepath.Join(dir, relay.SyncFile)); err != nil {
		t.Fatal(err)
	}
	q := startProcess(t, "", config.EnvData+"="+dir)
	wantSync(t, "restored", runSync(t, env, "status"), exitOK, "events 10, of streams 1;", "")
	if err := q.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := q.exit(t); code != exitOK {
		t.Errorf("exit %d", code)
	}
	wantSync(t, "ended", runSync(t, env, "check"), exitOK, "", "all is well")
}
