package firehosefaults

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/firehosestore"
)

// ageMark makes the clean stop of a relay that is not running one of an hour
// ago.
func ageMark(t *testing.T, dir string) {
	t.Helper()
	s, err := firehosestore.Open(firehosestore.Config{Path: database(dir)})
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.Load()
	if err != nil || !st.Clean {
		t.Fatalf("no clean stop is stored: %+v, %v", st, err)
	}
	if err := s.StoreClean(st.Last, st.Outdated, st.At.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// copyState copies the state of a relay that is not running.
func copyState(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range files(t, from) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// publishSome publishes so many messages in one life of a relay, which is
// stopped after that, and returns the first and the last number.
func publishSome(t *testing.T, book *ledger, dir, floor string, count int, cursors ...int64) (first, last int64, got []*follower) {
	t.Helper()
	p := start(t, dir, "FIREHOSE_SEQ_FLOOR="+floor)
	pub := newPublisher(p.Addr)
	defer pub.close()
	for _, cursor := range cursors {
		got = append(got, follow(t, p.Addr, cursor))
	}
	before := book.top()
	r := newRepo(0)
	for i := range count {
		last = pub.must(t, book, r.mixed(i))
		if i == 0 {
			first = last
		}
	}
	if first <= before {
		t.Fatalf("N1: number %d after %d", first, before)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	healthy(t, p)
	return first, last, got
}

// TestStateReplaced: hard case 11, and 9 for an hour: the state is replaced by
// yesterday's copy, which has a clean stop of an hour ago in it. Numbers still
// rise, and a cursor of this morning is told first.
func TestStateReplaced(t *testing.T) {
	for _, floor := range []string{"auto", "clock"} {
		t.Run(floor, func(t *testing.T) {
			dir, yesterday := t.TempDir(), t.TempDir()
			book := newLedger()
			_, old, _ := publishSome(t, book, dir, floor, 20)
			ageMark(t, dir)
			copyState(t, dir, yesterday)

			first, morning, got := publishSome(t, book, dir, floor, 20, old, noCursor)
			book.run(t, "case 9: cursor L of an hour ago", got[0].end(t), true, first)
			book.run(t, "live", got[1].end(t), false, first)

			removeState(t, dir)
			copyState(t, yesterday, dir)
			first, _, got = publishSome(t, book, dir, floor, 20, morning, morning-5, old, 0, noCursor)
			for _, f := range got[:4] {
				book.run(t, "case 11: a cursor from before", f.end(t), true, first)
			}
			book.run(t, "live", got[4].end(t), false, first)
		})
	}
}

// TestStateDeleted: F26's last sentences: the state is gone, and a consumer
// comes with a cursor of it. Numbers rise above the cursor, and it is told that
// it is outdated instead of being stopped.
func TestStateDeleted(t *testing.T) {
	dir := t.TempDir()
	book := newLedger()
	_, old, _ := publishSome(t, book, dir, "clock", 20)
	if old < 1<<40 {
		t.Fatalf("number %d is not of a floor", old)
	}
	removeState(t, dir)

	p := start(t, dir)
	pub := newPublisher(p.Addr)
	defer pub.close()
	wantFuture(t, follow(t, p.Addr, 99)) // case 37: not of a lost state
	wantFuture(t, follow(t, p.Addr, 1<<52))
	f := follow(t, p.Addr, old)
	await(t, "#info", func() bool { return f.count() > 0 })
	again := follow(t, p.Addr, old) // the numbers are above it now
	first := pub.must(t, book, newRepo(0).identity())
	if first <= old {
		t.Fatalf("N1: number %d after %d", first, old)
	}
	for range 20 {
		pub.must(t, book, newRepo(0).identity())
	}
	await(t, "the frames", func() bool { return f.last() == first+20 && again.last() == first+20 })
	p.Kill()
	healthy(t, p)
	book.run(t, "F26: cursor of the lost state", f.end(t), true, first)
	book.run(t, "F26: the same once more", again.end(t), true, first)

	first, _, got := publishSome(t, book, dir, "auto", 3, old)
	book.run(t, "after a kill", got[0].end(t), true, first)
}

// TestStateTakenAway: F28: the data directory of a running relay is moved away.
// It gives out no number that would be forgotten with it, and goes on when it is
// back.
func TestStateTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	book := newLedger()
	p := start(t, dir, "FIREHOSE_SEQ_FLOOR=1", "FIREHOSE_SEQ_RESERVE=1")
	pub := newPublisher(p.Addr)
	defer pub.close()
	f := follow(t, p.Addr, noCursor)
	pub.must(t, book, newRepo(0).identity())
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for range 20 { // what was reserved before may still be used
		if seq, status, err := pub.publish(newRepo(0).identity()); err != nil || status == http.StatusOK && seq > 3 {
			t.Fatalf("F28: %d, %v, number %d without a state", status, err, seq)
		} else if status == http.StatusOK {
			taken++
		}
	}
	if taken > 2 {
		t.Errorf("F28: %d frames were taken without a state", taken)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	last := pub.must(t, book, newRepo(0).identity())
	await(t, "all frames", func() bool { return f.last() == last })
	p.Kill()
	if last = book.top(); len(f.end(t)) != int(last) {
		t.Errorf("N2: %d frames up to number %d", len(f.end(t)), last)
	}
	publishSome(t, book, dir, "1", 3)
}

// TestStateBroken: a state that is there and cannot be read stops the start, with
// the file's name: numbers could repeat. The file is left as it is.
func TestStateBroken(t *testing.T) {
	random := newRand(t)
	dir := t.TempDir()
	publishSome(t, newLedger(), dir, "auto", 20)
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
	publishSome(t, newLedger(), dir, "auto", 1) // it was the damage
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
