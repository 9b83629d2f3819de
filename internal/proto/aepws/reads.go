package aepws

import (
	"errors"

	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// readFor reads the next page for a subscription from the log.
func (f *feed) readFor(s *sub) {
	s.reading = true
	after := s.next - 1
	f.read(read{
		wanted: func() bool { return !s.ended },
		work: func() func() {
			page, err := f.h.page(after, pageEvents)
			return func() { f.gotPage(s, page, err) }
		},
	})
}

// gotPage takes the page that a subscription waited for.
func (f *feed) gotPage(s *sub, page []*entry, err error) {
	if s.ended {
		return
	}
	s.reading = false
	switch {
	case errors.Is(err, eventlog.ErrEvicted) && s.droppable():
		f.jump(s)
	case errors.Is(err, eventlog.ErrEvicted):
		f.tooSlow(s)
		return
	case err != nil:
		f.fail(s)
		return
	case !s.peer.Owes():
		f.takePage(s, page)
	}
	f.enqueue(s.k)
}

// read is something to be read from the log: off the loop, with a completion on
// it.
type read struct {
	wanted func() bool // still; loop only
	work   func() (completion func())
}

// read puts a read behind those that wait. There is at most one for each
// subscription and each connection, and one for the passes.
func (f *feed) read(r read) {
	f.waiting = append(f.waiting, r)
	f.pump()
}

// pump starts reads.
func (f *feed) pump() {
	for f.reads < maxReads && len(f.waiting) > 0 {
		r := f.waiting[0]
		if r.wanted() {
			err := f.h.jobs.Submit(f.w.Loop(), func() func() {
				done := r.work()
				return func() {
					f.reads--
					defer f.pump()
					done()
				}
			})
			switch {
			case errors.Is(err, loop.ErrJobsFull):
				f.w.Loop().Schedule(&f.retry, f.w.Loop().Now().Add(readRetry))
				return
			case err != nil: // closed: the relay is going down
				f.waiting = nil
				return
			}
			f.reads++
		}
		f.waiting[0] = read{}
		if f.waiting = f.waiting[1:]; len(f.waiting) == 0 {
			f.waiting = nil
		}
	}
}

// readPass reads what the next pass begins with: the loop was so late that the
// tail does not hold it any more.
func (f *feed) readPass() {
	p := &f.pass
	if p.asked {
		return
	}
	p.asked = true
	after := f.next - 1
	f.read(read{
		wanted: func() bool { return true },
		work: func() func() {
			page, err := f.h.page(after, pageEvents)
			return func() { f.gotPass(page, err) }
		},
	})
}

func (f *feed) gotPass(page []*entry, err error) {
	p := &f.pass
	p.asked = false
	switch {
	case errors.Is(err, eventlog.ErrEvicted):
		f.lost(f.h.evicted())
	case err != nil: // it is tried again
		p.asked, p.failed = true, true
		f.w.Loop().Schedule(&f.retry, f.w.Loop().Now().Add(readRetry))
		return
	default:
		p.page = page
	}
	f.w.Loop().Ring()
}
