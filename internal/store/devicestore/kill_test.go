package devicestore

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killPath names the database of the child process of TestKill.
const killPath = "DEVICESTORE_TEST_KILL_PATH"

// killed is what the child processes have said of one database.
type killed struct {
	written   map[string]string // id -> row id, data of each event that Write returned
	last      string            // the greatest of them
	sealedAs  map[string]string // id -> payload that an envelope was pushed with
	delivered map[string]bool   // ids that a page gave back
}

// D21, D30, D31, D32, case 15: kill -9 during writes, seals, acknowledgements
// and pages: no row is lost that Write returned, ids rise over all runs, and
// none stands for two payloads.
func TestKill(t *testing.T) {
	if path := os.Getenv(killPath); path != "" {
		killChild(path)
		return
	}
	rounds := 100
	switch {
	case raceEnabled:
		rounds = 4
	case testing.Short():
		rounds = 10
	}
	s := fresh(t)
	path := s.path
	addRelay(t, s, "http://a")
	addRelay(t, s, "http://b")
	wantErr(t, "close", s.Close(), nil)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	k := killed{written: map[string]string{}, sealedAs: map[string]string{}, delivered: map[string]bool{}}
	for n := range rounds {
		lines := 1 + r.IntN(40)
		if n == 0 {
			lines = 40 // so that one round at least comes to each step
		}
		k.run(t, path, lines, time.Duration(r.IntN(3000))*time.Microsecond)
		k.examine(t, path)
	}
	t.Logf("%d events, %d envelopes, %d delivered", len(k.written), len(k.sealedAs), len(k.delivered))
	if len(k.written) < rounds || len(k.sealedAs) == 0 || len(k.delivered) == 0 {
		t.Error("too little was done")
	}
}

// run lets a child work and kills it so long after so many of its lines.
func (k *killed) run(t *testing.T, path string, lines int, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), killPath+"="+path)
	out, err := cmd.StdoutPipe()
	wantErr(t, "pipe", err, nil)
	wantErr(t, "start", cmd.Start(), nil)
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := in.ReadString('\n')
		if err != nil { // what a kill has cut was not said
			if err != io.EOF || n < lines {
				t.Fatalf("the child ended after %d lines: %v", n, err)
			}
			break
		}
		k.take(t, strings.TrimSuffix(line, "\n"))
		if n == lines {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // killed
}

func (k *killed) take(t *testing.T, line string) {
	t.Helper()
	what, rest, _ := strings.Cut(line, " ")
	id, text, _ := strings.Cut(rest, " ")
	switch what {
	case "wrote":
		if id <= k.last {
			t.Fatalf("%s was given after %s", id, k.last)
		}
		k.last, k.written[id] = id, text
	case "pushed":
		if old, found := k.sealedAs[id]; found && old != text {
			t.Fatalf("%s was pushed as %q and as %q", id, old, text)
		}
		k.sealedAs[id] = text
	case "gave":
		k.delivered[id] = true
	default:
		t.Fatalf("the child says %q", line)
	}
}

// examine opens the database as the next run would.
func (k *killed) examine(t *testing.T, path string) {
	t.Helper()
	s, err := Open(path, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { wantErr(t, "close", s.Close(), nil) }()
	verify(t, s)
	current := map[string]string{} // row -> greatest id that was returned
	for id, text := range k.written {
		row, _, _ := strings.Cut(text, " ")
		current[row] = max(current[row], id)
	}
	for row, id := range current {
		got, err := s.Get(Key{"t", row})
		if err != nil || got.HLC < id {
			t.Fatalf("row %s: %+v, %v: %s was returned", row, got, err, id)
		}
		if got.HLC == id && k.written[id] != strings.TrimSpace(row+" "+string(got.Data)) {
			t.Fatalf("row %s: %+v (%s), want %q", row, got, got.Data, k.written[id])
		}
	}
	var owed map[string]bool
	for _, r := range must(s.Relays())(t) {
		if r.URL != "http://b" {
			continue
		}
		owed = make(map[string]bool, r.Owed) // b has acknowledged nothing
		for _, id := range owedIDs(t, s, r.ID) {
			owed[id] = true
		}
	}
	for id := range k.written {
		if !owed[id] && len(owed) < MaxPageEvents {
			t.Fatalf("%s is not owed", id)
		}
	}
}

// killChild writes, seals, pushes, acknowledges and gives back until it is
// killed, and says what was answered.
func killChild(path string) {
	check := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	s, err := Open(path, Options{})
	check(err)
	relays, err := s.Relays()
	check(err)
	a := relays[0]
	cursor := a.Cursor
	acked := []Pending(nil)
	for n := 0; ; n++ {
		e := Edit{Key{"t", fmt.Sprint(n % 7)}, fmt.Appendf(nil, "%d-%d", os.Getpid(), n)}
		more := Edit{Key{"t", fmt.Sprint("b", n%3)}, e.Data}
		rows, err := s.Write(noon.Add(-time.Duration(n)*time.Minute), e, more)
		check(err)
		for _, r := range rows {
			fmt.Println("wrote", r.HLC, r.Key.ID, string(r.Data))
		}
		if n%3 != 0 {
			continue
		}
		_, err = s.Seal("owner-1", 100, func(r Row) ([]byte, error) { return fmt.Appendf(nil, "%s %s", r.Key.ID, r.Data), nil })
		check(err)
		owed, err := s.Owed(a.ID, 10, 1<<20)
		check(err)
		var ids []string
		for _, p := range owed {
			fmt.Println("pushed", p.ID, string(p.Envelope))
			ids = append(ids, p.ID)
		}
		check(s.Acknowledge(a.ID, a.Generation, ids))
		acked = append(acked, owed...)
		if n%9 != 0 {
			continue
		}
		page := Page{After: cursor, Next: fmt.Sprint(os.Getpid(), "-", n), Generation: a.Generation}
		for _, p := range acked {
			_, data, _ := strings.Cut(string(p.Envelope), " ")
			page.Events = append(page.Events, Event{ID: p.ID, Key: p.Key, Data: []byte(data)})
		}
		applied, err := s.ApplyPage(a.ID, page, noon)
		check(err)
		if applied.Stale || applied.Rows > 0 {
			check(fmt.Errorf("%+v", applied))
		}
		for _, p := range acked {
			fmt.Println("gave", p.ID)
		}
		cursor, acked = page.Next, nil
	}
}

// A database whose log is cut at any frame is that of some moment: each write
// is wholly there or wholly not.
func TestCutLog(t *testing.T) {
	s := fresh(t)
	a := addRelay(t, s, "http://a")
	for i := range 20 {
		must(s.Write(noon, Edit{Key{"t", "x"}, fmt.Append(nil, i)}, Edit{Key{"t", "y"}, fmt.Append(nil, i)}))(t)
		pull(t, s, a, upsert(hlcAt(time.Second, uint16(i), "dev-b"), "z", fmt.Sprint(i)))
	}
	db, wal := must(os.ReadFile(s.path))(t), must(os.ReadFile(s.path+"-wal"))(t)
	dir, last, states := t.TempDir(), int64(0), map[int64]bool{}
	const stride = 4*4120 - 13 // no multiple of it is a frame's end, some are near
	for cut := 0; cut <= len(wal); cut += min(stride, max(1, len(wal)-cut)) {
		path := filepath.Join(dir, fmt.Sprint(cut, ".db"))
		wantErr(t, "copy", os.WriteFile(path, db, 0o600), nil)
		wantErr(t, "copy", os.WriteFile(path+"-wal", wal[:cut], 0o600), nil)
		c, err := Open(path, testOptions())
		if err != nil {
			if last > 0 {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue // before there was a device in it
		}
		verify(t, c)
		change := must(c.LastChange())(t)
		if change < last {
			t.Fatalf("cut at %d: change %d after %d", cut, change, last)
		}
		last, states[change] = change, true
		if change >= 2 {
			x, y := must(c.Get(Key{"t", "x"}))(t), must(c.Get(Key{"t", "y"}))(t)
			if string(x.Data) != string(y.Data) {
				t.Fatalf("cut at %d: half of a write is there", cut)
			}
		}
		wantErr(t, "close", c.Close(), nil)
	}
	if last != 60 || len(states) < 10 {
		t.Fatalf("the whole log leads to change %d; %d states were seen", last, len(states))
	}
}
