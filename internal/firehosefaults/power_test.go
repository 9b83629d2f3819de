package firehosefaults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// TestPowerCutBeforeSync: hard case 24, one commit: handed over and not synced,
// it was seen by nobody; synced, it is.
func TestPowerCutBeforeSync(t *testing.T) {
	dir := t.TempDir()
	p := startPDS(t, dir)
	if err := p.Listening(); err != nil {
		t.Fatal(err)
	}
	r := newRepo(1)
	if err := p.commit(r); err != nil {
		t.Fatal(err)
	}
	await(t, "F45: the commit", func() bool { p.look(t); return len(p.seen) == 1 })
	p.log.mu.Lock() // the disk has not answered when the power goes
	m := r.commit(60)
	position := p.log.end + 1
	if err := p.Commit(m.firehoseBody, position); err != nil {
		t.Fatal(err)
	}
	p.log.off = true
	p.log.mu.Unlock()
	p.log.cut(t)
	p.end(t)
	if len(p.seen) != 1 {
		t.Errorf("case 24: %v was seen", p.seen[1:])
	}
}

// TestPowerCuts: hard case 24 and F47 over many lives: commits, announcements and
// syncs from several goroutines, and the power goes at some moment. Every commit
// that a subscriber has seen is in what is left of the log, in its order, and
// numbers ascend over all lives (N1, N4).
func TestPowerCuts(t *testing.T) {
	random := newRand(t)
	dir := t.TempDir()
	book := newLedger()
	cuts := testrelay.Kills(t, 20)
	commits, lost, announced := 0, 0, 0
	var changed []*repo // to be announced at the next start (F47)
	// As on a slow disk.
	tooLittle := func() bool { return commits < cuts || lost == 0 }
	for life := 0; life < cuts || life < 10*cuts && tooLittle(); life++ {
		p := startPDS(t, dir)
		for _, r := range changed {
			if _, err := p.Sync(r.sync().firehoseBody); err != nil {
				t.Fatal(err)
			}
			announced++
		}
		if err := p.Listening(); err != nil {
			t.Fatal(err)
		}
		before := book.top()
		changed = p.work(t, random, life)
		p.end(t)
		held, _ := p.Held()
		lost += held
		left := survivors(t, p.log.file.Name())
		for n, i := range p.seen {
			if i.seq <= before {
				t.Fatalf("N1: life %d: number %d after %d", life, i.seq, before)
			}
			if n > 0 && i.seq <= p.seen[n-1].seq {
				t.Fatalf("N1: life %d: number %d after %d", life, i.seq, p.seen[n-1].seq)
			}
			if err := book.enter(i.seq, i.id); err != nil {
				t.Fatal(err)
			}
			if i.kind != firehose.KindCommit {
				continue
			}
			commits++
			if !left[i.id] {
				t.Fatalf("N4: life %d: commit %q was seen and is not in the log", life, i.id)
			}
		}
	}
	t.Logf("%d power cuts, %d commits seen, %d never published, %d repositories announced", cuts, commits, lost, announced)
	if tooLittle() {
		t.Error("too little happened before the cuts to prove anything")
	}
}

// work hands over frames from several goroutines until the power goes, and
// returns the repositories that were written to.
func (p *pds) work(t *testing.T, random *rand.Rand, life int) (repos []*repo) {
	t.Helper()
	stop := make(chan struct{})
	var working sync.WaitGroup
	for n := range 3 {
		r := newRepo(1 + life*10 + n)
		repos = append(repos, r)
		own := rand.New(rand.NewPCG(random.Uint64(), uint64(n)))
		working.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := p.step(r, own); err != nil {
					return // the power is off
				}
			}
		})
	}
	for end := time.Now().Add(time.Duration(random.Int64N(int64(20 * time.Millisecond)))); time.Now().Before(end); {
		p.look(t)
	}
	// Between handing over and sync, where it matters.
	r := newRepo(1 + life*10 + 9)
	repos = append(repos, r)
	if err := p.commit(r); err != nil {
		t.Fatal(err)
	}
	p.log.cut(t)
	close(stop)
	working.Wait()
	return repos
}

// step is one act of a producer: commits most of all.
func (p *pds) step(r *repo, random *rand.Rand) error {
	switch random.IntN(12) {
	case 0:
		_, err := p.Account(r.account().firehoseBody)
		return err
	case 1:
		_, err := p.Identity(r.identity().firehoseBody)
		return err
	case 2:
		position, err := p.log.sync()
		if err == nil {
			p.LogSynced(position)
		}
		return err
	}
	if err := p.commit(r); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
