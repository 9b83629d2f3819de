package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// Hard case 29 (F59): keys out of order become sorted.
func TestUnsortedKeys(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	for _, vector := range readVectors(t).NonCanonicalAccepted {
		p.send(unhex(t, vector.Hex))
		if vector.Name == "unsorted-body" {
			r.want("F59", "identity 5")
			if got := r.stream.all()[0]; !bytes.Equal(got, unhex(t, vector.CanonicalHex)) {
				t.Errorf("%s: %x", vector.Name, got)
			}
		}
	}
	if h := r.of(o.name); h.Infos != 1 || h.Frames != 2 {
		t.Errorf("F62: %+v", h)
	}
}

// Hard case 30 (F58, F59): each breach has its reaction.
func TestInvalidFrames(t *testing.T) {
	for _, vector := range readVectors(t).Invalid {
		t.Run(vector.Name, func(t *testing.T) {
			o := newOrigin(t, nil)
			r := newRig(t, newMemory(t), []string{o.url()}, nil)
			p := o.next()
			p.send(identity(t, 1, did('a')), unhex(t, vector.Hex))
			switch vector.OurDecoder {
			case "skip-frame":
				p.send(identity(t, 2, did('a')))
				r.want("skipped", "identity 1", "identity 2")
				if h := r.of(o.name); total(h.Dropped) != 1 || total(h.Failures) != 0 || !h.Connected {
					t.Errorf("%+v", h)
				}
			case "drop-connection":
				p.dropped("dropped")
				r.until("a failure", o.name, func(h HostStats) bool { return total(h.Failures) == 1 })
				if h := r.of(o.name); h.LastSeq != 1 || h.Failures[failLost] != 0 {
					t.Errorf("%+v", h)
				}
				r.clock.end(t, time.Second)
				again := o.next()
				if again.cursor != "1" {
					t.Errorf("F54: cursor %q", again.cursor)
				}
				again.send(identity(t, 2, did('a')))
				r.want("reconnected", "identity 1", "identity 2")
			default:
				t.Fatalf("reaction %s", vector.OurDecoder)
			}
		})
	}
}

func total(words map[string]int64) (n int64) {
	for _, count := range words {
		n += count
	}
	return n
}

// Hard case 31 (F61): all fields survive but the number.
func TestRenumbered(t *testing.T) {
	v := readVectors(t)
	for _, pair := range v.Resequence {
		t.Run(pair.Input, func(t *testing.T) {
			o := newOrigin(t, nil)
			got := make(chan []byte, 1)
			newRig(t, newMemory(t), []string{o.url()}, func(c *Config) {
				c.Publish = func(f *firehose.Frame) (int64, error) {
					message, err := f.Append(nil, pair.NewSeq)
					got <- message
					return pair.NewSeq, err
				}
			})
			o.next().send(v.frame(t, pair.Input))
			select {
			case message := <-got:
				if !bytes.Equal(message, unhex(t, pair.OutputHex)) {
					t.Errorf("%x", message)
				}
			case <-time.After(patience):
				t.Fatal("nothing is published")
			}
		})
	}
}

// Hard case 32 (F60), and 41: numbers grow within one connection, and may fall
// from one to the next, where rev is what tells.
func TestNumbersGrow(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	if p.cursor != "-" {
		t.Errorf("F54: a new host starts live, not at %q", p.cursor)
	}
	p.send(commit(t, 10, did('a'), 1), commit(t, 9, did('b'), 1), commit(t, 10, did('c'), 1), commit(t, 11, did('d'), 1))
	r.want("F60", "commit 10", "commit 11")
	r.at(o.name, 11)
	p.close()
	r.clock.end(t, time.Second)
	again := o.next()
	if again.cursor != "11" {
		t.Errorf("cursor %q", again.cursor)
	}
	again.send(commit(t, 3, did('a'), 1), commit(t, 4, did('a'), 2))
	r.want("case 41", "commit 10", "commit 11", "commit 4")
	r.at(o.name, 4) // which is noted after it is published
	if h := r.of(o.name); h.Dropped[dropOldSeq] != 2 || h.Dropped[dropOldRev] != 1 || h.LastSeq != 4 {
		t.Errorf("%+v", h)
	}
}

// Hard case 33 (F63, F64): a kill loses nothing, and repeats are dropped.
func TestKilled(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, nil)
	var frames [][]byte
	var lines []string
	for n := range 100 {
		frames = append(frames, commit(t, int64(n+1), did('a'), n+1))
		lines = append(lines, fmt.Sprintf("commit %d", n+1))
	}
	p := o.next()
	p.send(frames[:60]...)
	r.at(o.name, 60)
	r.tick() // notes 60
	p.send(frames[60:80]...)
	r.at(o.name, 80)
	r.tick() // writes 60, notes 80
	p.send(frames[80:]...)
	r.want("F61", lines...)
	after := store.clone()
	r.kill()

	if got := after.host(o.name).LastSeq; got != 60 {
		t.Fatalf("stored cursor %d", got)
	}
	r2 := newRig(t, after, []string{o.url()}, nil)
	p = o.next()
	if p.cursor != "60" {
		t.Fatalf("cursor %q", p.cursor)
	}
	p.send(frames[50:]...) // a host that replays more than was asked for
	p.send(commit(t, 101, did('a'), 101))
	r2.want("F64", append(slices.Clone(lines[60:]), "commit 101")...)
	if h := r2.of(o.name); h.Dropped[dropOldRev] != 10 || total(h.Misfits) != 0 || h.AccountCount != 1 {
		t.Errorf("%+v", h)
	}
}

// Hard case 34 (F64): the same commit from two hosts.
func TestTwoHosts(t *testing.T) {
	x, y := newOrigin(t, nil), newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{x.url(), y.url()}, nil)
	px, py := x.next(), y.next()
	const count = 50
	for n := 1; n <= count; n++ {
		px.send(commit(t, int64(n), did('a'), n))
		py.send(commit(t, int64(n+1000), did('a'), n))
	}
	r.at(x.name, count)
	r.at(y.name, count+1000)
	revs := map[string]bool{}
	var s firehose.Scanner
	last := ""
	for _, message := range r.stream.all() {
		var f firehose.Frame
		if err := s.Scan(message, &f); err != nil {
			t.Fatal(err)
		}
		if string(f.Rev) <= last {
			t.Errorf("rev %s after %s", f.Rev, last)
		}
		last = string(f.Rev)
		revs[last] = true
	}
	hx, hy := r.of(x.name), r.of(y.name)
	if hx.Published+hy.Published != int64(len(revs)) || hx.Dropped[dropOldRev]+hy.Dropped[dropOldRev] != 2*count-int64(len(revs)) {
		t.Errorf("%d revs: %+v, %+v", len(revs), hx, hy)
	}
	if last != rev(count) || hx.AccountCount+hy.AccountCount != 1 {
		t.Errorf("last %s, accounts %d and %d", last, hx.AccountCount, hy.AccountCount)
	}
}

// Hard case 35 (F62): a cursor of the future stops the host until an operator
// says connect, and then it resumes live.
func TestFutureCursor(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, nil)
	p := o.next()
	p.send(identity(t, 7, did('a')))
	r.at(o.name, 7)
	r.tick()
	r.tick()
	p.send((&firehose.Error{Name: firehose.FutureCursor}).Append(nil))
	p.dropped("F62")
	r.until("idle", o.name, func(h HostStats) bool { return h.Status == state.Idle && !h.Connected })
	if h := r.of(o.name); h.Failures[failFuture] != 1 || r.clock.waiting(time.Second) != 0 {
		t.Errorf("%+v: retried", h)
	}
	await(t, "the stored status", func() bool { return store.host(o.name).Status == state.Idle })
	if err := r.Host(o.name, "connect"); err != nil {
		t.Fatal(err)
	}
	again := o.next()
	if again.cursor != "-" {
		t.Errorf("F62: resumed at %q", again.cursor)
	}
	again.send(identity(t, 3, did('a')))
	r.want("resumed", "identity 7", "identity 3")
	if got := store.host(o.name); got.Status != state.Active || got.LastSeq != state.NoSeq {
		t.Errorf("%+v", got)
	}
}

// F62: other error frames count as a failed connection.
func TestErrorFrame(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	p.send((&firehose.Error{Name: firehose.ConsumerTooSlow}).Append(nil))
	p.dropped("F62")
	r.until("a failure", o.name, func(h HostStats) bool { return h.Failures[failError] == 1 })
	r.clock.end(t, time.Second)
	o.next()
}

// Hard case 36 (F56): a host that is a relay itself.
func TestRelayUpstream(t *testing.T) {
	o := newOrigin(t, func(o *origin) { o.header = "x (atproto-relay)" })
	store := newMemory(t)
	r := newRig(t, store, nil, nil)
	if err := r.Connect(o.url()); err != nil {
		t.Fatal(err)
	}
	p := o.next()
	p.dropped("F56")
	r.until("banned", o.name, func(h HostStats) bool { return h.Status == state.Banned })
	await(t, "the stored status", func() bool { return store.host(o.name).Status == state.Banned })
	r.kill()

	after := store.clone()
	r2 := newRig(t, after, nil, nil)
	if h := r2.of(o.name); h.Status != state.Banned || h.Connected {
		t.Errorf("after a start: %+v", h)
	}
	r2.kill()

	r3 := newRig(t, after.clone(), []string{o.url()}, nil) // listed by the operator
	o.next().send(identity(t, 1, did('a')))
	r3.want("F56", "identity 1")
}

// Hard case 38 (F66), and F64: commits that are dropped and counted.
func TestRefusedCommits(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	v := readVectors(t)
	broken := commitOf(did('a'), "", rev(1))
	broken.Blocks[len(broken.Blocks)-1] ^= 1
	future := tid(r.clock.now().Add(5*time.Minute + time.Second))
	near := tid(r.clock.now().Add(5*time.Minute - time.Second))
	p.send(
		frame(t, broken, 1),
		frame(t, commitOf(did('b'), "", future), 2),
		frame(t, commitOf(did('c'), "", near), 3),
		v.frame(t, "unknown-type"),
	)
	r.at(o.name, 300) // F63: what is dropped is done
	p.send(commit(t, 301, did('a'), 1))
	r.want("case 38", "commit 3", "commit 301")
	r.at(o.name, 301)
	h := r.of(o.name)
	if h.Dropped["root_hash"] != 1 || h.Dropped[dropFuture] != 1 || h.Dropped["unknown_type"] != 1 || h.LastSeq != 301 {
		t.Errorf("%+v", h)
	}
}

// F66: off passes what has no structure.
func TestVerifyOff(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, func(c *Config) { c.Verify = VerifyOff })
	broken := commitOf(did('a'), "", rev(1))
	broken.Blocks = nil
	o.next().send(frame(t, broken, 1), frame(t, broken, 2))
	r.at(o.name, 2)
	r.want("F66", "commit 1")
	r.tick()
	r.tick()
	if got := store.repo(did('a')); got.Rev != rev(1) || !bytes.Equal(got.Commit, broken.Commit) || got.Data != nil {
		t.Errorf("%+v", got)
	}
}

// F64: what does not fit is passed on and counted.
func TestMisfits(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	o.next().send(commit(t, 1, did('a'), 1), commit(t, 2, did('a'), 3), commit(t, 3, did('a'), 4))
	r.want("F64", "commit 1", "commit 2", "commit 3")
	r.at(o.name, 3)
	if h := r.of(o.name); h.Misfits[misfitSince] != 1 || h.Misfits[misfitPrevData] != 1 || total(h.Misfits) != 2 {
		t.Errorf("%+v", h)
	}
}

// Hard case 39 (F67): a takedown here wins.
func TestTakedownWins(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	p.send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	if err := r.Takedown(did('a')); err != nil {
		t.Fatal(err)
	}
	p.send(account(t, 2, did('a'), true, ""), commit(t, 3, did('a'), 2), syncFrame(t, 4, did('a'), 2), identity(t, 5, did('a')), account(t, 6, did('a'), false, "deleted"))
	r.at(o.name, 6)
	if err := r.Restore(did('a')); err != nil {
		t.Fatal(err)
	}
	p.send(account(t, 7, did('a'), true, ""), commit(t, 8, did('a'), 2))
	r.want("F67", "commit 1", "account 1 false takendown", "account 2 false takendown", "identity 5", "account 6 false takendown",
		"account 1 false deleted", "account 7 true", "commit 8")
	if h := r.of(o.name); h.Dropped[dropInactive] != 2 {
		t.Errorf("%+v", h)
	}
}

// Hard case 40 (F55, F58): a frame that is too large, over and over.
func TestFrameTooBig(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, nil, func(c *Config) { c.MaxFrameBytes = 5000 })
	if err := r.Connect(o.url()); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 5001)
	for n := 1; n <= maxFailures; n++ {
		p := o.next()
		if n == 1 {
			p.send(identity(t, 9, did('a')))
		} else if p.cursor != "9" {
			t.Errorf("attempt %d: cursor %q", n, p.cursor)
		}
		// It may be dropped before the last of it is written.
		_ = p.ws.Write(context.Background(), websocket.MessageBinary, large)
		p.dropped("F58")
		if n < maxFailures {
			r.clock.end(t, r.pauseAfter(n))
		}
	}
	r.until("offline", o.name, func(h HostStats) bool { return h.Status == state.Offline && h.Failures["frame_too_big"] == maxFailures })
	await(t, "the stored status", func() bool { return store.host(o.name).Status == state.Offline })
	r.kill()

	r2 := newRig(t, store.clone(), nil, nil) // F55: until a restart
	o.next().send(identity(t, 10, did('a')))
	r2.want("F55", "identity 10")
}

// pauseAfter is the pause of F55 without jitter.
func (r *rig) pauseAfter(failures int) time.Duration {
	return min(time.Minute, time.Second<<min(failures-1, 6))
}

// F58: text drops the connection.
func TestTextMessage(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	if err := p.ws.Write(context.Background(), websocket.MessageText, identity(t, 1, did('a'))); err != nil {
		t.Fatal(err)
	}
	p.dropped("F58")
	r.until("a failure", o.name, func(h HostStats) bool { return h.Failures[failText] == 1 })
	r.want("F58")
}

// F58: a message that does not end is dropped at the bound, before it ends.
func TestEndlessMessage(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, func(c *Config) { c.MaxFrameBytes = 5000 })
	p := o.next()
	w, err := p.ws.Writer(context.Background(), websocket.MessageBinary)
	if err != nil {
		t.Fatal(err)
	}
	// More than is buffered. It may be dropped in the middle of it.
	_, _ = w.Write(make([]byte, 9000))
	p.dropped("F58")
	r.until("a failure", o.name, func(h HostStats) bool { return h.Failures["frame_too_big"] == 1 })
}

// F17: a frame that our number makes too large is dropped, not tried for ever.
func TestRenumberedTooBig(t *testing.T) {
	o := newOrigin(t, nil)
	message := commit(t, 5, did('a'), 1)
	r := newRig(t, newMemory(t), []string{o.url()}, func(c *Config) { c.MaxFrameBytes = len(message) })
	o.next().send(message, identity(t, 6, did('a')))
	r.want("F17", "identity 6")
	if h := r.of(o.name); h.Dropped[dropTooBig] != 1 {
		t.Errorf("%+v", h)
	}
}

// F17, F67: an #account that is too big with the status of a takedown is dropped,
// since trying it again would hold up its host for ever.
func TestTakendownTooBig(t *testing.T) {
	o := newOrigin(t, nil)
	message := account(t, 2, did('a'), true, "")
	r := newRig(t, newMemory(t), []string{o.url()}, func(c *Config) {
		c.MaxFrameBytes = len(message) + 8 // a number may take nine bytes
		publish, most := c.Publish, c.MaxFrameBytes
		c.Publish = func(f *firehose.Frame) (int64, error) {
			if announced := f.Seq == 1; !announced && f.SizeBytes() > most {
				return 0, errors.New("too big")
			}
			return publish(f)
		}
	})
	p := o.next()
	if err := r.Takedown(did('a')); err != nil {
		t.Fatal(err)
	}
	p.send(message, identity(t, 3, did('a')))
	r.at(o.name, 3)
	r.want("F17", "account 1 false takendown", "identity 3")
	if h := r.of(o.name); h.Dropped[dropTooBig] != 1 {
		t.Errorf("%+v", h)
	}
}

// F54: without ws:// the connection is with TLS, and its certificate counts.
func TestTLS(t *testing.T) {
	o := newOrigin(t, func(o *origin) { o.tls = true })
	published := &stream{}
	start := func() *Manager {
		m, err := New(Config{Upstreams: []string{"wss://" + o.name}, Store: newMemory(t), Publish: published.publish, Rand: func() float64 { return 0 }})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	strict, trusting := start(), start()
	trusting.client.Transport = o.server.Client().Transport
	for _, m := range []*Manager{strict, trusting} {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Stop(context.Background()) }()
	}
	await(t, "a refused certificate", func() bool { return strict.Stats().Hosts[0].Failures[failDial] > 0 })
	o.next().send(identity(t, 1, did('a')))
	await(t, "a frame over TLS", func() bool { return len(published.all()) == 1 })
	if s := strict.Stats(); s.Hosts[0].Connected {
		t.Errorf("%+v", s)
	}
}
