package firehoseload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

// stall is what a relay did beside consumers that stall.
type stall struct {
	rate     float64 // frames a second to those that read
	held     float64 // bytes in the ring then, by its own count
	heap     float64 // growth of the live heap while all is held
	resident float64 // and of the resident memory
	after    float64 // growth of the live heap when those that stall were cut
	slow     float64 // how many were
}

// bound is what F37 allows beside the fixed part: twice the byte bound, and one
// frame for each connection.
func (s *suite) bound() float64 {
	return float64(2*s.o.BoundBytes) + float64((s.o.Stalled+s.o.Healthy)*len(s.sample.frame()))
}

// stalls measures the relay with and without consumers that stall, in turns
// (F36, F37; hard case 18).
func (s *suite) stalls(ctx context.Context) error {
	var with, without, ratio, held, heap, resident, after, slow []float64
	for round := range s.o.Rounds {
		beside, err := s.stallCost(ctx, s.o.Stalled)
		if err != nil {
			return err
		}
		alone, err := s.stallCost(ctx, 0)
		if err != nil {
			return err
		}
		with, without = append(with, beside.rate), append(without, alone.rate)
		ratio = append(ratio, beside.rate/alone.rate)
		held = append(held, beside.held)
		heap, resident = append(heap, beside.heap), append(resident, beside.resident)
		after, slow = append(after, beside.after), append(slow, beside.slow)
		s.say("stalled, round %d: %.0f frames/s, alone %.0f; live heap + %.1f MiB, resident + %.1f MiB, after the cut + %.1f MiB",
			round+1, beside.rate, alone.rate, beside.heap/mib, beside.resident/mib, beside.after/mib)
	}
	name := fmt.Sprintf("%d that stall beside %d that read", s.o.Stalled, s.o.Healthy)
	s.add(name, "frames/s in bursts, with them; without them", "%.0f; %.0f", median(with), median(without))
	s.add(name, "ratio of one round", "%s", spread(ratio))
	s.add(name, "F37: twice the bound and a frame each", "%.1f MiB", s.bound()/mib)
	s.add(name, "held by the ring's count; growth of the live heap; ratio", "%.1f MiB; %.1f MiB; %.3f",
		median(held)/mib, median(heap)/mib, median(heap)/median(held))
	s.add(name, "growth of the live heap as part of F37", "%.3f", median(heap)/s.bound())
	s.add(name, "growth of the resident memory meanwhile, GOGC=100", "%.1f MiB", median(resident)/mib)
	s.add(name, "cut by ConsumerTooSlow past that; growth of the live heap then", "%.0f; %.1f MiB", median(slow), median(after)/mib)
	return nil
}

const (
	mib = 1 << 20
	// socketBytes is more than a stream's socket takes: SLUICE_SEND_BUFFER, and
	// the little that the other side has.
	socketBytes = 512 << 10
)

// stallCost measures a fresh relay: frames up to just below twice the byte
// bound, and then as many again.
func (s *suite) stallCost(ctx context.Context, stalled int) (m stall, err error) {
	r, err := s.p.start(fmt.Sprint("FIREHOSE_REPLAY_BYTES=", s.o.BoundBytes), "FIREHOSE_REPLAY_FRAMES=1000000")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	t := newPosts(r.Addr, s.sample)
	defer t.close()
	all, err := s.consumersOf(r.Addr, s.o.Healthy)
	if err != nil {
		return m, err
	}
	defer all.close()
	if err := all.stall(r.Addr, stalled); err != nil {
		return m, err
	}
	if err := r.settled(ctx, "sluice_firehose_consumers", float64(s.o.Healthy+stalled)); err != nil {
		return m, err
	}
	// A frame's header is not in the ring, and a burst makes the connections that
	// publish: what is fixed.
	if err := burst(ctx, t, all, burstFrames, 1); err != nil {
		return m, err
	}
	heap, resident, err := r.memory()
	if err != nil {
		return m, err
	}
	// The sockets of those that stall are filled first: until then they are
	// consumers like all others.
	fill := socketBytes/len(s.sample.message)/burstFrames + 1
	if err := burst(ctx, t, all, burstFrames, fill); err != nil {
		return m, err
	}
	held := int(2*s.o.BoundBytes)/len(s.sample.message)*95/100/burstFrames - 1 - fill
	began := time.Now()
	if err := burst(ctx, t, all, burstFrames, held); err != nil {
		return m, err
	}
	m.rate = float64(held*burstFrames) / time.Since(began).Seconds()
	if m.slow, err = r.Metric("sluice_firehose_too_slow_total"); err != nil {
		return m, err
	}
	if m.slow > 0 {
		return m, fmt.Errorf("firehoseload: %.0f consumers were cut before twice the bound (F32)", m.slow)
	}
	heapHeld, residentHeld, err := r.memory()
	if err != nil {
		return m, err
	}
	if m.held, err = r.Metric("sluice_firehose_held_bytes"); err != nil {
		return m, err
	}
	m.heap, m.resident = heapHeld-heap, residentHeld-resident
	if err := burst(ctx, t, all, burstFrames, held+2*fill); err != nil {
		return m, err
	}
	if err := r.settled(ctx, "sluice_firehose_too_slow_total", float64(stalled)); err != nil {
		return m, err
	}
	m.slow = float64(stalled)
	heapAfter, _, err := r.memory()
	m.after = heapAfter - heap
	return m, err
}

// memory returns the live heap, and the resident memory before it was collected.
func (r *relay) memory() (heap, resident float64, err error) {
	rss, err := load.RSSBytes(r.PID())
	if err != nil {
		return 0, 0, err
	}
	if err := r.Collect(); err != nil {
		return 0, 0, err
	}
	heap, err = r.Metric("go_memstats_heap_alloc_bytes")
	return heap, float64(rss), err
}
