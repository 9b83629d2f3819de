package aepwsfaults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wantRefused publishes an event that must be refused as something that may be
// tried again (B27).
func wantRefused(t *testing.T, a *agent, d draft) {
	t.Helper()
	e, err := a.publish(d)
	if err != nil || e.Type != "event.rejected" || e.Payload.Error == nil || e.Payload.Error.Code != "internal_error" || !e.Payload.Error.Retryable {
		t.Fatalf("publish without a log: %v, %v", e, err)
	}
}

// TestTakenAway: the data directory of a running relay is moved away. Nothing is
// acknowledged that would be forgotten with it, subscribers stay, and when it is
// back publishing goes on where it was.
func TestTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, dir)
	pub := join(t, p.Addr, "publisher")
	live := mustFollow(t, p.Addr, "live", filterFrom("", "at_least_once"))
	first, last := pub.mustPublishMany(t, "before-", 10, 0)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		wantRefused(t, pub, plain("refused"))
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if n := pub.mustPublish(t, plain("refused")); n != last+1 {
		t.Errorf("B51: number %d after %d: what was refused took one", n, last)
	}
	_, last = pub.mustPublishMany(t, "after-", 10, 0)
	await(t, "all events", func() bool { return live.last() == last })
	p.Kill()
	wantRun(t, "live", live.end(t), first, last)
	p = start(t, dir)
	wantRun(t, "after the restart", whole(t, p.Addr, last), first, last)
}

// TestLogDeleted: the log of a relay that is not running is deleted. A subscriber
// of the old one is told that its cursor is of no use (case 28).
func TestLogDeleted(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir)
	join(t, p.Addr, "publisher").mustPublishMany(t, "e", 10, 0)
	stop(t, p)
	removeState(t, dir)
	p = start(t, dir)
	f := mustFollow(t, p.Addr, "reader", filterFrom("e9:10", "replayable"))
	if r := f.created.Payload.Replay; r == nil || r.Status != "gap" || r.Reason != "cursor_in_future" {
		t.Errorf("case 28: replay %+v", r)
	}
	if n := join(t, p.Addr, "publisher").mustPublish(t, plain("new")); n != 1 {
		t.Errorf("number %d in a new log", n)
	}
	await(t, "the new event", func() bool { return f.last() == 1 })
	stop(t, p)
	wantRun(t, "the new log", f.end(t), 1, 1)
}

// TestLogBroken: a log that is there and cannot be read stops the start, with the
// file's name: numbers could repeat. The file is left as it is.
func TestLogBroken(t *testing.T) {
	random := newRand(t)
	dir := t.TempDir()
	p := start(t, dir)
	join(t, p.Addr, "publisher").mustPublishMany(t, "e", 100, 1000)
	stop(t, p)
	whole, err := os.ReadFile(database(dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"text":      []byte(strings.Repeat("this is no database\n", 1000)),
		"short":     []byte("SQLite format 3\x00"),
		"half":      whole[:len(whole)/2],
		"scrambled": scramble(whole, random),
	} {
		removeState(t, dir)
		if err := os.WriteFile(database(dir), content, 0o600); err != nil {
			t.Fatal(err)
		}
		out := startFails(t, dir)
		if !strings.Contains(out, database(dir)) || strings.Contains(out, "panic") {
			t.Errorf("%s: %s", name, out)
		}
		if got, err := os.ReadFile(database(dir)); err != nil || string(got) != string(content) {
			t.Errorf("%s: the file was changed (%d bytes, %v)", name, len(got), err)
		}
	}
	removeState(t, dir)
	if err := os.WriteFile(database(dir), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, dir) // it was the damage
	if n := join(t, p.Addr, "publisher").mustPublish(t, plain("next")); n != 101 {
		t.Errorf("B51: number %d after 100", n)
	}
	stop(t, p)
}

// pageBytes is the size of SQLite's pages.
const pageBytes = 4096

// scramble returns a file with all its pages but the first as noise.
func scramble(file []byte, random *rand.Rand) []byte {
	noise := append([]byte(nil), file...)
	for i := pageBytes; i < len(noise); i++ {
		noise[i] = byte(random.Uint32())
	}
	return noise
}
