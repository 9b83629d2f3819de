package syncfaults

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// writer is a device of one owner at a time, and what it knows to be stored.
// Owned by one goroutine while a relay runs, by the test in between.
type writer struct {
	n     int
	rand  *rand.Rand
	count int // of everything it named
	now   *account
	old   []*account
	book  *book
}

// book remembers for the whole test which event had which number, as far as
// pages ended with it. Any goroutine.
type book struct {
	mu     sync.Mutex
	events map[string]string // number -> owner and event id
}

// enter fails when a number was given to another event before (S27).
func (b *book) enter(owner string, numbers map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, id := range numbers {
		id = owner + " " + id
		if was, ok := b.events[n]; ok && was != id {
			return fmt.Errorf("K3: number %s is that of %s, and was that of %s", n, id, was)
		}
		b.events[n] = id
	}
	return nil
}

// account is an owner as its device sees it.
type account struct {
	owner   string
	acked   map[string]string   // event id -> envelope, without streams
	open    []map[string]string // pushes without an answer: all or nothing
	streams map[string]string   // stream -> greatest event id that was acknowledged
	dropped map[string]bool     // streams whose deletion was asked for
	blobs   map[string]string   // hash -> body
	closed  bool                // acknowledged
	closing bool                // asked for
	cursor  string
}

func (w *writer) newOwner() {
	if w.now != nil {
		w.old = append(w.old, w.now)
	}
	w.count++
	w.now = &account{
		owner: fmt.Sprintf("owner-%d-%d", w.n, w.count), acked: map[string]string{}, streams: map[string]string{},
		dropped: map[string]bool{}, blobs: map[string]string{}, cursor: "0",
	}
}

// act does one thing and notes what is known of it.
func (w *writer) act(a *api) error {
	switch n := w.rand.IntN(100); {
	case n < 62:
		return w.push(a, 1+w.rand.IntN(3), 100)
	case n < 70:
		return w.pull(a)
	case n < 76:
		return w.push(a, 100, 200)
	case n < 78: // beyond 1 MiB, so that some of it is spooled (S20a)
		return w.push(a, 6, 200_000)
	case n < 86:
		return w.pushStream(a)
	case n < 89:
		return w.dropStream(a)
	case n < 96:
		return w.putBlob(a)
	case n < 98:
		_, _, err := a.do("POST", "/v1/admin/compact", adminToken, nil)
		return err
	default:
		return w.closeOwner(a)
	}
}

func (w *writer) text(size int) string {
	w.count++
	return strings.Repeat(strconv.Itoa(w.count)+"-", 1+size/(1+len(strconv.Itoa(w.count))))
}

func (w *writer) id() string {
	w.count++
	return fmt.Sprintf("event-%d-%08d", w.n, w.count)
}

func (w *writer) push(a *api, count, size int) error {
	batch := map[string]string{}
	var events []string
	for range count {
		id := w.id()
		batch[id] = event(w.now.owner, id, "", w.text(size))
		events = append(events, batch[id])
	}
	status, answer, err := a.push(w.now.owner, events...)
	switch {
	case err != nil:
		w.now.open = append(w.now.open, batch)
		return err
	case status != http.StatusOK:
		return fmt.Errorf("push: %d %s", status, answer)
	}
	for id, e := range batch {
		w.now.acked[id] = e
	}
	return nil
}

// pull fetches what is new, so that the account holds a cursor that was given
// out shortly before the kill. Its pages are small, so that it learns numbers.
func (w *writer) pull(a *api) error {
	got, status, err := a.pullPages(w.now.owner, w.now.cursor, 3)
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound && w.now.cursor == "0": // it has no owner yet
		return nil
	case status != http.StatusOK:
		return fmt.Errorf("pull from %s: %d", w.now.cursor, status)
	}
	w.now.cursor = got.cursor
	return w.book.enter(w.now.owner, got.numbers)
}

// streamID returns one of a few stream ids.
func (w *writer) streamID() string {
	return base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("stream-%09d", w.rand.IntN(5))))
}

func (w *writer) pushStream(a *api) error {
	stream, id := w.streamID(), w.id()
	status, answer, err := a.push(w.now.owner, event(w.now.owner, id, stream, w.text(50)))
	if err == nil && status != http.StatusOK {
		return fmt.Errorf("push to a stream: %d %s", status, answer)
	}
	if err == nil {
		w.now.streams[stream] = id
	}
	return err
}

func (w *writer) dropStream(a *api) error {
	stream := w.streamID()
	w.now.dropped[stream] = true // until it is pushed to again and acknowledged
	delete(w.now.streams, stream)
	status, answer, err := a.dropStream(w.now.owner, stream)
	if err == nil && status != http.StatusOK && status != http.StatusNotFound { // 404: it has no owner yet
		return fmt.Errorf("compact: %d %s", status, answer)
	}
	return err
}

func (w *writer) putBlob(a *api) error {
	body := w.text(1 + w.rand.IntN(60_000))
	sum := sha256.Sum256([]byte(body))
	hash := base64.RawURLEncoding.EncodeToString(sum[:])
	status, answer, err := a.do("PUT", "/v1/blobs/"+hash+"?ownerId="+w.now.owner, tokenOf(w.now.owner), []byte(body))
	if err == nil && status != http.StatusOK {
		return fmt.Errorf("blob: %d %s", status, answer)
	}
	if err == nil {
		w.now.blobs[hash] = body
	}
	return err
}

func (w *writer) closeOwner(a *api) error {
	acc := w.now
	acc.closing = true
	status, answer, err := a.do("POST", "/v1/owner/close", tokenOf(acc.owner), []byte(`{"ownerId":"`+acc.owner+`"}`))
	switch {
	case err == nil && status == http.StatusOK:
		acc.closed = true
	case err == nil && status == http.StatusNotFound && len(acc.acked)+len(acc.streams)+len(acc.blobs) == 0:
		acc.closing = false // it had stored nothing
	case err == nil:
		return fmt.Errorf("close: %d %s", status, answer)
	}
	w.newOwner()
	return err
}

// verify holds what the relay has of an account to what its device knows.
func (acc *account) verify(t *testing.T, a *api, b *book) {
	t.Helper()
	got, status, err := a.pull(acc.owner, "0")
	switch {
	case err != nil:
		t.Fatalf("%s: %v", acc.owner, err)
	case acc.closed && status != http.StatusGone:
		t.Errorf("K4: %s was closed and is %d", acc.owner, status)
		return
	case status == http.StatusGone && acc.closing:
		acc.closed = true
		return
	case status == http.StatusNotFound && len(acc.acked)+len(acc.streams)+len(acc.blobs) == 0:
		acc.open = nil
		return // nothing of it was acknowledged, and nothing is there
	case status != http.StatusOK:
		t.Errorf("K1: %s: %d", acc.owner, status)
		return
	}
	if err := b.enter(acc.owner, got.numbers); err != nil {
		t.Error(err)
	}
	for id, want := range acc.acked {
		if got.envelopes[id] != want {
			t.Errorf("K1: %s: %s was acknowledged and is %.80q", acc.owner, id, got.envelopes[id])
		}
	}
	for _, batch := range acc.open {
		there := 0
		for id, want := range batch {
			if e, ok := got.envelopes[id]; ok {
				there++
				if e != want {
					t.Errorf("K2: %s: %s has other bytes", acc.owner, id)
				}
			}
		}
		if there != 0 && there != len(batch) {
			t.Errorf("K2: %s: %d of %d events of a push are there", acc.owner, there, len(batch))
		}
		if there != 0 { // it is stored, and has to stay
			for id, e := range batch {
				acc.acked[id] = e
			}
		}
	}
	acc.open = nil
	acc.verifyStreams(t, got)
	if _, status, err := a.pull(acc.owner, acc.cursor); err != nil || status != http.StatusOK {
		t.Errorf("K3: %s: cursor %s is answered with %d, %v", acc.owner, acc.cursor, status, err)
	}
	if number(t, got.cursor) > number(t, acc.cursor) { // compaction may lower the head (S34)
		acc.cursor = got.cursor
	}
	for hash, want := range acc.blobs {
		status, body, err := a.do("GET", "/v1/blobs/"+hash+"?ownerId="+acc.owner, tokenOf(acc.owner), nil)
		if err != nil || status != http.StatusOK || string(body) != want {
			t.Errorf("K1: %s: chunk %s: %d, %d bytes, %v", acc.owner, hash, status, len(body), err)
		}
	}
}

// verifyStreams: of each stream the greatest event that was acknowledged is
// there, or a greater one whose answer was not seen (S37).
func (acc *account) verifyStreams(t *testing.T, got pulled) {
	t.Helper()
	greatest := map[string]string{}
	for id, e := range got.envelopes {
		if _, rest, ok := strings.Cut(e, `"streamId":"`); ok {
			stream, _, _ := strings.Cut(rest, `"`)
			greatest[stream] = max(greatest[stream], id)
		}
	}
	for stream, id := range acc.streams {
		if greatest[stream] < id {
			t.Errorf("K1: %s: stream %s has %q, %q was acknowledged", acc.owner, stream, greatest[stream], id)
		}
	}
}

// TestKillDuringEverything: hard case 19 and K1 to K5: the program is killed at
// random moments of pushes, uploads, deletions, compactions and closes.
func TestKillDuringEverything(t *testing.T) {
	kills := 200
	if testing.Short() || raceEnabled {
		kills = 20
	}
	random := newRand(t)
	dir := t.TempDir()
	numbers := &book{events: map[string]string{}}
	writers := make([]*writer, 6)
	for i := range writers {
		writers[i] = &writer{n: i, rand: rand.New(rand.NewPCG(random.Uint64(), uint64(i))), book: numbers}
		writers[i].newOwner()
	}
	var highest int64
	acts := 0
	tooLittle := func() bool { // as on a slow machine
		closed, events := 0, 0
		for _, w := range writers {
			for _, acc := range append(w.old, w.now) {
				events += len(acc.acked)
				if acc.closed {
					closed++
				}
			}
		}
		return acts < kills || closed == 0 || events == 0
	}
	kill := 0
	for ; kill < kills || kill < 10*kills && tooLittle(); kill++ {
		// With 0 nothing but the stored counter keeps numbers apart (S29).
		p := start(t, dir, "SEQ_FLOOR="+[]string{"auto", "0"}[random.IntN(2)])
		a := newAPI(p.Addr)
		for _, w := range writers {
			w.now.verify(t, a, numbers)
			highest = max(highest, number(t, w.now.cursor))
			if len(w.now.acked) > 400 {
				w.newOwner()
			}
		}
		highest = probe(t, a, kill, highest, numbers)
		if t.Failed() {
			t.Fatalf("after kill %d; log of the relay:\n%s", kill, p.Tail())
		}
		if kill%10 == 9 { // nothing was stored since the probe
			p.Kill()
		}
		acts += runUntilKilled(t, p.Kill, a, writers, time.Duration(5+random.IntN(120))*time.Millisecond)
		a.close()
		if lines := p.Problems(); len(lines) > 0 {
			t.Fatalf("log of the relay: %s", strings.Join(lines, "\n"))
		}
		checkStore(t, dir, kill%20 == 0)
	}
	p := start(t, dir)
	a := newAPI(p.Addr)
	defer a.close()
	owners, closed, events := 0, 0, 0
	for _, w := range writers {
		for _, acc := range append(w.old, w.now) {
			acc.verify(t, a, numbers)
			owners++
			events += len(acc.acked)
			if acc.closed {
				closed++
			}
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	checkStore(t, dir, true)
	t.Logf("%d kills, %d requests, %d owners (%d closed), %d events that had to stay, %d numbers",
		kill, acts, owners, closed, events, len(numbers.events))
	if tooLittle() {
		t.Error("too little happened between the kills to prove anything")
	}
}

// probe stores one event of a new owner, whose number must lie above every one
// that was seen (K3), and returns it. The event is deleted again: its row no
// longer tells that the number was used.
func probe(t *testing.T, a *api, kill int, highest int64, b *book) int64 {
	t.Helper()
	owner := fmt.Sprintf("probe-%d", kill)
	stream := strings.Repeat("p", 22)
	if status, answer, err := a.push(owner, event(owner, "e", stream, "x")); err != nil || status != http.StatusOK {
		t.Fatalf("probe: %d %s %v", status, answer, err)
	}
	got, status, err := a.pull(owner, "0")
	if err != nil || status != http.StatusOK {
		t.Fatalf("probe: %d %v", status, err)
	}
	if err := b.enter(owner, got.numbers); err != nil {
		t.Error(err)
	}
	last := number(t, got.cursor)
	if last <= highest {
		t.Errorf("K3: number %d after %d", last, highest)
	}
	if status, answer, err := a.dropStream(owner, stream); err != nil || status != http.StatusOK {
		t.Fatalf("probe: %d %s %v", status, answer, err)
	}
	return last
}

// number reads a cursor.
func number(t *testing.T, cursor string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		t.Fatalf("cursor: %v", err)
	}
	return n
}

// runUntilKilled lets the writers act until the relay is killed, and returns how
// many requests were answered.
func runUntilKilled(t *testing.T, kill func(), a *api, writers []*writer, after time.Duration) int {
	t.Helper()
	var answered, failed atomic.Int64
	var done sync.WaitGroup
	for _, w := range writers {
		done.Go(func() {
			for {
				switch err := w.act(a); {
				case err == nil:
					answered.Add(1)
				case err == errLost:
					return
				default:
					t.Errorf("writer %d, %s: %v", w.n, w.now.owner, err)
					failed.Add(1)
					return
				}
			}
		})
	}
	time.Sleep(after)
	kill()
	done.Wait()
	return int(answered.Load())
}
