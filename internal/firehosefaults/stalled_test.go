package firehosefaults

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/codec/firehose"
)

const (
	stalledCount  = 1000
	stalledBound  = 128 // FIREHOSE_REPLAY_FRAMES
	stalledRecord = 16 << 10
	// stalledRead is the kernel's receive buffer of one that takes nothing.
	stalledRead = 4 << 10
	// frameSpare is more than what a frame has beside its record.
	frameSpare = 1 << 10
	// stalledSpare is what the relay may use for one: the frame that is half
	// written, and a little.
	stalledSpare = stalledRecord + 4<<10
	// sharedSpare is what it may use for garbage that was not collected yet.
	sharedSpare = 32 << 20
)

// TestStalledConsumers: hard case 18: a thousand consumers take nothing. Every
// publish is answered, memory stays within F37, consumers that read get all, and
// each of the thousand ends with ConsumerTooSlow when its next frame is gone, not
// before (F32, F34, F36).
func TestStalledConsumers(t *testing.T) {
	count := stalledCount
	if testing.Short() || raceEnabled {
		count = 200
	}
	p := start(t, t.TempDir(), "FIREHOSE_SEQ_FLOOR=1", "FIREHOSE_MAX_CONSUMERS=2000",
		"FIREHOSE_WRITE_TIMEOUT_MS=3600000", // cut for what they miss alone
		fmt.Sprint("FIREHOSE_REPLAY_FRAMES=", stalledBound))
	pub := newPublisher(p.Addr)
	defer pub.close()
	book := newLedger()
	readers := []*follower{follow(t, p.Addr, noCursor), follow(t, p.Addr, noCursor), follow(t, p.Addr, 0)}
	stalled := make([]*consumer, count)
	for i := range stalled {
		c, err := subscribe(p.Addr, noCursor, stalledRead)
		if err != nil {
			t.Fatalf("consumer %d: %v", i, err)
		}
		t.Cleanup(c.close)
		stalled[i] = c
	}
	if err := p.Collect(); err != nil {
		t.Fatal(err)
	}
	base, _, err := p.Memory()
	if err != nil {
		t.Fatal(err)
	}

	r := newRepo(1)
	var last, first, heldBytes int64
	slow := 0
	const most = 40 * stalledBound // far more than any socket takes
	for last < most && slow < count {
		last = pub.must(t, book, r.commit(stalledRecord)) // F36: each is answered
		await(t, "the consumers that read", func() bool {
			return !slices.ContainsFunc(readers, func(f *follower) bool { return f.last() < last })
		})
		if slow == 0 && last%16 != 0 {
			continue
		}
		heldBytes = max(heldBytes, int64(metric(t, p, "sluice_firehose_held_bytes")))
		if held := int(metric(t, p, "sluice_firehose_held_frames")); held > 2*stalledBound {
			t.Fatalf("F31: %d frames are held, twice the bound is %d", held, 2*stalledBound)
		}
		if slow = int(metric(t, p, "sluice_firehose_too_slow_total")); slow > 0 && first == 0 {
			first = last
		}
	}
	if slow < count {
		t.Fatalf("%d of %d were too slow after %d frames", slow, count, last)
	}
	now, peak, err := p.Memory()
	if err != nil {
		t.Fatal(err)
	}
	limit := int64(2*stalledBound*(stalledRecord+frameSpare)) + int64(count)*stalledSpare + sharedSpare
	t.Logf("%d frames of %d bytes, the first was too slow after %d; memory %d MiB with %d stalled consumers, then %d MiB, at most %d MiB; %d MiB of frames held at most",
		last, stalledRecord, first, base>>20, count, now>>20, peak>>20, heldBytes>>20)
	if peak > base+limit {
		t.Errorf("F37: memory grew by %d MiB, %d MiB are allowed", (peak-base)>>20, limit>>20)
	}

	ends := make([]end, count)
	var reading sync.WaitGroup
	for i, c := range stalled {
		reading.Go(func() { ends[i] = readOut(c) })
	}
	reading.Wait()
	judge(t, ends, last)
	for i, f := range readers {
		if got := f.got(); len(got) != int(last) || got[0].seq != 1 {
			t.Errorf("healthy consumer %d has %d frames of %d", i, len(got), last)
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	healthy(t, p)
}

// end is how a stalled consumer's stream went once it read.
type end struct {
	frames int64 // 1 to frames came
	item   item  // what came after them
	closed item
	err    error
}

// readOut reads a stream to its end.
func readOut(c *consumer) (e end) {
	for {
		i, err := c.next()
		switch {
		case err != nil:
			e.err = err
			return e
		case i.seq > 0 && i.seq != e.frames+1:
			e.err = fmt.Errorf("N2: %v after %d", i, e.frames)
			return e
		case i.seq > 0:
			e.frames++
		case i.closed != 0:
			e.closed = i
			return e
		default:
			e.item = i
		}
	}
}

// judge wants the end of each to be that of F32 and F49. A reset instead of it is
// for those who began to read 5 s after their frame had gone (F34): a busy
// machine may be that late, for all of them never.
func judge(t *testing.T, ends []end, last int64) {
	t.Helper()
	told, reset := 0, 0
	fewest, most := last, int64(0)
	for n, e := range ends {
		fewest, most = min(fewest, e.frames), max(most, e.frames)
		switch {
		case e.frames+1 > last-2*stalledBound:
			t.Fatalf("F32: consumer %d was ended after frame %d: the next one is among the last %d of %d", n, e.frames, 2*stalledBound, last)
		case errors.Is(e.err, syscall.ECONNRESET):
			reset++
		case e.err != nil:
			t.Fatalf("consumer %d, after %d frames: %v", n, e.frames, e.err)
		case e.item.kind != firehose.KindError || e.item.name != firehose.ConsumerTooSlow ||
			e.closed.closed != 1008 || e.closed.name != firehose.ConsumerTooSlow:
			t.Fatalf("F49: consumer %d, after %d frames: %v, %v", n, e.frames, e.item, e.closed)
		default:
			told++
		}
	}
	t.Logf("%d were told, %d reset; they had taken %d to %d frames", told, reset, fewest, most)
	if told == 0 {
		t.Error("F32: nobody was told")
	}
}
