package firehose

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/stream"
)

// body is a message whose frame is its name and number as text.
type body struct {
	kind  uint8
	name  string
	size  int // 0: what its name needs
	check error
	bad   error // what Append fails with
}

func (b body) Kind() uint8  { return b.kind }
func (b body) Check() error { return b.check }

func (b body) SizeBytes() int {
	if b.size > 0 {
		return b.size
	}
	return len(b.name) + 20
}

func (b body) Append(dst []byte, seq int64) ([]byte, error) {
	return fmt.Appendf(dst, "%s=%d", b.name, seq), b.bad
}

// log is a producer's log: what was written and what is synced.
type log struct {
	mu      sync.Mutex
	written uint64
	syncs   int
	fail    error
	entered chan struct{} // told of each sync, if not nil
	gate    chan struct{} // each sync takes one of it, if not nil
}

func (l *log) sync() (uint64, error) {
	if l.gate != nil {
		l.entered <- struct{}{}
		<-l.gate
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncs++
	return l.written, l.fail
}

func (l *log) set(written uint64, fail error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written, l.fail = written, fail
}

// rig is a producer with all that it works with.
type rig struct {
	*Producer
	t    testing.TB
	ring *stream.Ring
	disk *disk
	log  *log
	tick chan time.Time // the background loop's interval ends with each

	mu     sync.Mutex
	failed []error
}

func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, disk: &disk{t: t}, log: &log{}, tick: make(chan time.Time)}
	r.ring = stream.NewRing(stream.Bounds{Frames: 100, Bytes: 1 << 20})
	numbers, err := OpenNumbers(r.disk, NumbersConfig{Mode: FloorNumber, Floor: 1, Block: 8})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Ring: r.ring, Numbers: numbers, SyncLog: r.log.sync,
		After: func(time.Duration) <-chan time.Time { return r.tick },
		Failed: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.failed = append(r.failed, err)
		},
	}
	if change != nil {
		change(&cfg)
	}
	r.Producer = NewProducer(cfg)
	t.Cleanup(func() { _ = r.Stop(nil, nil) })
	if err := r.Booting(); err != nil {
		t.Fatal(err)
	}
	return r
}

// failures returns what Failed was told.
func (r *rig) failures() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failed)
}

// stream returns what was published, as "name=number name=number".
func (r *rig) stream() string {
	var all []string
	frames := make([]*stream.Frame, 64)
	for p := r.ring.Oldest(); ; {
		n, next, err := r.ring.Fetch(p, frames, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if n == 0 {
			return strings.Join(all, " ")
		}
		for _, f := range frames[:n] {
			// An unmasked binary message of less than 126 bytes.
			if f.Bytes[0] != 0x82 || int(f.Bytes[1]) != len(f.Bytes)-2 {
				r.t.Fatalf("header % x of a frame of %d bytes", f.Bytes[:2], len(f.Bytes))
			}
			text := string(f.Bytes[2:])
			if !strings.HasSuffix(text, fmt.Sprintf("=%d", f.Seq)) {
				r.t.Fatalf("frame %q has number %d", text, f.Seq)
			}
			all = append(all, text)
		}
		p = next
	}
}

func (r *rig) want(rule, stream string) {
	r.t.Helper()
	if got := r.stream(); got != stream {
		r.t.Errorf("%s: stream is %q, want %q", rule, got, stream)
	}
}

func (r *rig) commit(name string, position uint64) {
	r.t.Helper()
	if err := r.Commit(body{name: name}, position); err != nil {
		r.t.Fatalf("commit %s: %v", name, err)
	}
}

// Case 21 and F43: the number is assigned at publishing.
func TestCommitWaitsForLog(t *testing.T) {
	r := newRig(t, nil)
	r.LogSynced(4)
	r.commit("c5", 5)
	r.commit("c3", 3) // synced already, and yet behind c5
	r.want("case 21, synced to 4", "")
	if n, bytes := r.Held(); n != 2 || bytes != 44 {
		t.Errorf("held %d, %d bytes", n, bytes)
	}
	r.LogSynced(5)
	r.want("case 21, synced to 5", "c5=1 c3=2")
	r.LogSynced(2) // never back
	r.commit("c4", 4)
	r.want("F43", "c5=1 c3=2 c4=3")
	if n, bytes := r.Held(); n != 0 || bytes != 0 {
		t.Errorf("held %d, %d bytes", n, bytes)
	}
}

// Case 22 and F44.
func TestOthersSyncFirst(t *testing.T) {
	r := newRig(t, nil)
	r.log.set(7, nil)
	r.commit("c1", 6)
	r.commit("c2", 7)
	seq, err := r.Account(body{kind: KindAccount, name: "a"})
	if seq != 3 || err != nil || r.log.syncs != 1 {
		t.Errorf("account: %d, %v, %d syncs", seq, err, r.log.syncs)
	}
	r.want("case 22", "c1=1 c2=2 a=3")
	if seq, err := r.Identity(body{kind: KindIdentity, name: "i"}); seq != 4 || err != nil {
		t.Errorf("identity: %d, %v", seq, err)
	}
	if seq, err := r.Sync(body{kind: KindSync, name: "s"}); seq != 5 || err != nil {
		t.Errorf("sync: %d, %v", seq, err)
	}
	if r.log.syncs != 3 {
		t.Errorf("%d syncs", r.log.syncs)
	}
	if seq, err := r.Publish(body{name: "p"}); seq != 6 || err != nil || r.log.syncs != 3 {
		t.Errorf("F52: %d, %v, %d syncs", seq, err, r.log.syncs)
	}
	r.log.set(9, nil)
	r.commit("c3", 9)
	if seq, err := r.Publish(body{name: "q"}); seq != 8 || err != nil || r.log.syncs != 4 {
		t.Errorf("F52 behind a held commit: %d, %v, %d syncs", seq, err, r.log.syncs)
	}
	r.want("F44", "c1=1 c2=2 a=3 i=4 s=5 p=6 c3=7 q=8")
}

// Case 23 and F46: a failed sync loses nothing, also in the background, and a
// failing record (F28) neither.
func TestFailuresKeepOrder(t *testing.T) {
	r := newRig(t, nil)
	r.log.set(2, errDisk)
	r.commit("c1", 1)
	r.commit("c2", 2)
	if _, err := r.Account(body{kind: KindAccount, name: "lost"}); !errors.Is(err, errDisk) {
		t.Errorf("F46: %v", err)
	}
	r.tick <- time.Time{}
	for deadline := time.Now().Add(patience); len(r.failures()) == 0 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if failed := r.failures(); len(failed) != 1 || !errors.Is(failed[0], errDisk) {
		t.Errorf("F46, background: %v", failed)
	}
	r.want("case 23, failing", "")
	r.log.set(2, nil)
	r.disk.setFail(errCrash)
	if _, err := r.Account(body{kind: KindAccount, name: "lost"}); !errors.Is(err, errCrash) {
		t.Errorf("F28: %v", err)
	}
	if n, _ := r.Held(); n != 2 {
		t.Errorf("F28: %d held", n)
	}
	r.disk.setFail(nil)
	if seq, err := r.Account(body{kind: KindAccount, name: "a"}); seq != 3 || err != nil {
		t.Errorf("case 23: %d, %v", seq, err)
	}
	r.want("case 23", "c1=1 c2=2 a=3")
	r.log.set(3, nil)
	r.commit("c4", 4)
	if _, err := r.Account(body{kind: KindAccount, name: "lost"}); !errors.Is(err, ErrLogBehind) {
		t.Errorf("log behind: %v", err)
	}
	r.LogSynced(4)
	r.want("P1", "c1=1 c2=2 a=3 c4=4")
}

// F45: the background loop syncs while something is held.
func TestBackgroundSync(t *testing.T) {
	published := make(chan struct{}, 10)
	r := newRig(t, func(c *Config) { c.Published = func() { published <- struct{}{} } })
	r.log.set(1, nil)
	r.commit("c1", 1)
	r.want("F45, before the interval", "")
	r.tick <- time.Time{}
	<-published
	r.want("F45", "c1=1")
	select { // nothing is held: nobody waits for the interval
	case r.tick <- time.Time{}:
		t.Error("F45: the loop goes on with nothing held")
	default:
	}
	r.log.set(2, nil)
	r.commit("c2", 2)
	r.tick <- time.Time{}
	<-published
	r.want("F45, again", "c1=1 c2=2")
}

// F51: what enters while a sync runs stays behind what entered before, and a
// commit does not wait for the disk.
func TestOrderOfEntry(t *testing.T) {
	r := newRig(t, nil)
	r.log.entered, r.log.gate = make(chan struct{}), make(chan struct{})
	r.commit("c1", 0)
	var done sync.WaitGroup
	call := func(name string) {
		done.Go(func() {
			if _, err := r.Account(body{kind: KindAccount, name: name}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	call("a")
	<-r.log.entered // a is in the queue, and its sync runs
	r.commit("c2", 0)
	r.LogSynced(100)
	r.want("F51, during the sync", "c1=1")
	r.log.gate <- struct{}{}
	done.Wait()
	r.want("F51", "c1=1 a=2 c2=3")
}

func TestRefusals(t *testing.T) {
	r := newRig(t, func(c *Config) { c.HeldBytes, c.MaxFrameBytes = 100, 60 })
	for _, c := range []struct {
		rule string
		body body
		want error
	}{
		{"F50", body{name: "x", check: errDisk}, errDisk},
		{"kind", body{name: "x", kind: KindAccount}, ErrKind},
		{"F17", body{name: "x", size: 61}, ErrFrameTooBig},
	} {
		if err := r.Commit(c.body, 1); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
	if _, err := r.Publish(body{name: "x", kind: KindAccount + 1}); !errors.Is(err, ErrKind) {
		t.Errorf("unknown kind: %v", err)
	}
	if err := r.Commit(body{name: "c1", size: 60}, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(body{name: "c2", size: 41}, 1); !errors.Is(err, ErrHeldFull) {
		t.Errorf("F46: %v", err)
	}
	if err := r.Commit(body{name: "c3", size: 40, bad: errCrash}, 1); err != nil {
		t.Errorf("F46: %v", err)
	}
	r.LogSynced(1)
	r.commit("c4", 1)
	r.want("a commit that cannot be encoded takes no number", "c1=1 c4=2")
	if failed := r.failures(); len(failed) != 1 || !errors.Is(failed[0], errCrash) {
		t.Errorf("dropped: %v", failed)
	}
	if _, err := r.Account(body{kind: KindAccount, bad: errCrash}); !errors.Is(err, errCrash) {
		t.Errorf("encode: %v", err)
	}
}

// F39, F2 and F41: the phases, and who may do what in them.
func TestPhases(t *testing.T) {
	r := newRig(t, nil)
	pin := r.ring.Pin()
	if _, _, err := r.Join(pin, 0); !errors.Is(err, ErrPhase) {
		t.Errorf("case 20: %v", err)
	}
	if err := r.Booting(); !errors.Is(err, ErrPhase) {
		t.Errorf("F39: %v", err)
	}
	r.log.set(1, errDisk)
	r.commit("c1", 1)
	if err := r.Listening(); !errors.Is(err, errDisk) || r.Phase() != PhaseBooting {
		t.Errorf("F41: %v, phase %d", err, r.Phase())
	}
	r.log.set(1, nil)
	if err := r.Listening(); err != nil || r.Phase() != PhaseListening {
		t.Errorf("F39: %v, phase %d", err, r.Phase())
	}
	r.want("F41: held commits are boot frames", "c1=1")
	if err := r.Listening(); !errors.Is(err, ErrPhase) {
		t.Errorf("F39: %v", err)
	}
	if p, answer, err := r.Join(pin, 0); p != 1 || answer != stream.Replay || err != nil {
		t.Errorf("F20: %d, %d, %v", p, answer, err)
	}
	if err := r.Stop(nil, nil); err != nil {
		t.Error(err)
	}
	if err := r.Commit(body{name: "x"}, 0); !errors.Is(err, ErrPhase) {
		t.Errorf("F48: %v", err)
	}
	if _, _, err := r.Join(pin, 0); !errors.Is(err, ErrPhase) {
		t.Errorf("F48: %v", err)
	}
	if err := r.Stop(nil, nil); !errors.Is(err, ErrPhase) {
		t.Errorf("second stop: %v", err)
	}
}

// F48: the order of the steps, and F27 over the next start.
func TestStop(t *testing.T) {
	r := newRig(t, nil)
	if err := r.Listening(); err != nil {
		t.Fatal(err)
	}
	r.log.set(1, nil)
	r.commit("c1", 1)
	var steps []string
	step := func(name string) func() {
		return func() {
			r.disk.mu.Lock()
			defer r.disk.mu.Unlock()
			steps = append(steps, fmt.Sprintf("%s: clean %v, last %d", name, r.disk.state.Clean, r.disk.state.Last))
			r.want("F48 "+name, "c1=1")
		}
	}
	if err := r.Stop(step("drain"), step("drop")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"drain: clean false, last 0", "drop: clean true, last 1"}; !slices.Equal(steps, want) {
		t.Errorf("F48: %q", steps)
	}

	failing := newRig(t, nil)
	failing.log.set(1, errDisk)
	failing.commit("c1", 1)
	if err := failing.Stop(nil, nil); !errors.Is(err, errDisk) || failing.disk.state.Clean {
		t.Errorf("F47: %v, %+v", err, failing.disk.state)
	}

	behind := newRig(t, nil)
	behind.log.set(1, nil)
	behind.commit("c1", 1)
	behind.commit("c2", 2)
	if err := behind.Stop(nil, nil); !errors.Is(err, ErrLogBehind) || behind.disk.state.Clean {
		t.Errorf("F47: synced through less than what is held: %v, %+v", err, behind.disk.state)
	}
	behind.want("F47", "c1=1")
}

// F26: a cursor of a lost state is outdated, and not from the future.
func TestLostStateCursor(t *testing.T) {
	c := newClock()
	ring := stream.NewRing(stream.Bounds{Frames: 10, Bytes: 1 << 20})
	p := NewProducer(Config{Ring: ring, Numbers: open(t, &disk{t: t}, c, FloorAuto, 0, 10)})
	defer func() { _ = p.Stop(nil, nil) }()
	if err := errors.Join(p.Booting(), p.Listening()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := p.Publish(body{name: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	f := func(cursor int64, wantPos stream.Pos, want stream.Answer) {
		t.Helper()
		pin := ring.Pin()
		defer pin.Close()
		if pos, answer, err := p.Join(pin, cursor); pos != wantPos || answer != want || err != nil {
			t.Errorf("cursor %d: %d, %d, %v", cursor, pos, answer, err)
		}
	}
	f(99, 0, stream.Future)
	f(1, 2, stream.Replay)
	f(c.floor()+1, 0, stream.Future)
	f(c.floor()-5, 1, stream.Outdated)
	f(c.floor()-6, 1, stream.Outdated)
	f(1, 2, stream.Replay)
	if seq, err := p.Publish(body{name: "y"}); seq != c.floor() || err != nil {
		t.Errorf("%d, %v", seq, err)
	}
	f(c.floor(), 5, stream.Live)
	f(3, 4, stream.Replay)
}
