package firehose

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-relay/sluice/engine/stream"
)

// enterLocked puts a body at the end of the queue.
func (p *Producer) enterLocked(e *entered) {
	p.lastEntry++
	e.number = p.lastEntry
	p.queue = append(p.queue, e)
}

// publish is the way of everything but commits of the local log.
func (p *Producer) publish(body Body, kind uint8, needsSync bool) (int64, error) {
	if err := p.check(body, kind); err != nil {
		return 0, err
	}
	p.mu.Lock()
	if err := p.openLocked(); err != nil {
		p.mu.Unlock()
		return 0, err
	}
	e := &entered{body: body, waits: true, needsSync: needsSync}
	p.enterLocked(e)
	p.mu.Unlock()
	err := p.syncFor(e)

	p.mu.Lock()
	defer p.mu.Unlock()
	if e.over {
		return e.seq, e.err
	}
	if err == nil {
		// The sync came after it entered, and yet it is not out: the front of
		// the queue is a commit beyond the synced position.
		err = fmt.Errorf("%w: synced through %d", ErrLogBehind, p.synced)
	}
	p.queue = slices.DeleteFunc(p.queue, func(q *entered) bool { return q == e })
	// It may have stood before commits that are ready.
	if later := p.releaseLocked(); later != nil {
		p.cfg.Failed(later)
	}
	return 0, err
}

// syncFor syncs the log unless a sync that began after e entered has made it
// ready already, and publishes what that releases.
func (p *Producer) syncFor(e *entered) error {
	p.syncMu.Lock()
	defer p.syncMu.Unlock()
	p.mu.Lock()
	over, covers := e.over, p.lastEntry
	needed := p.syncNeededLocked(e)
	p.mu.Unlock()
	if over {
		return nil
	}
	var position uint64
	if needed {
		var err error
		if position, err = p.cfg.SyncLog(); err != nil {
			return fmt.Errorf("firehose: sync the log: %w", err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if needed || p.cfg.SyncLog == nil {
		p.syncedLocked(position, covers)
	}
	e.ready = true
	return p.releaseLocked()
}

// syncNeededLocked reports whether the log has to be synced for e: for its own
// sake (F44), or because something stands before it.
func (p *Producer) syncNeededLocked(e *entered) bool {
	return p.cfg.SyncLog != nil && (e.needsSync || len(p.queue) > 0 && p.queue[0] != e)
}

// syncedLocked notes a sync that began when covers was the last entry.
func (p *Producer) syncedLocked(position, covers uint64) {
	p.synced = max(p.synced, position)
	for _, e := range p.queue {
		if e.waits && e.number <= covers {
			e.ready = true
		}
	}
}

// releaseLocked publishes from the front of the queue what is ready. On an
// error of the numbers or the ring, commits stay held, and what waits and is
// ready fails with it (F28, F46).
func (p *Producer) releaseLocked() error {
	published := 0
	defer func() {
		if published > 0 {
			p.cfg.Published()
		}
	}()
	for len(p.queue) > 0 {
		e := p.queue[0]
		if !e.waits && e.position > p.synced || e.waits && !e.ready {
			return nil
		}
		bad := false // the fault is of this body alone
		seq, err := p.cfg.Numbers.Use(func(seq int64) error {
			frame, err := encode(e.body, seq)
			if err != nil {
				bad = true
				return err
			}
			_, err = p.cfg.Ring.Publish(seq, e.body.Kind(), frame)
			return err
		})
		if errors.Is(err, stream.ErrBootFull) {
			p.fatal = err
		}
		if err != nil && !bad {
			p.failReadyLocked(err)
			return err
		}
		if err == nil {
			published++
		} else if !e.waits {
			p.cfg.Failed(fmt.Errorf("firehose: commit dropped: %w", err))
		}
		p.popLocked(seq, err)
	}
	return nil
}

// popLocked ends the front of the queue.
func (p *Producer) popLocked(seq int64, err error) {
	e := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	if !e.waits {
		p.heldBytes -= int64(e.body.SizeBytes())
	}
	e.over, e.seq, e.err = true, seq, err
}

// failReadyLocked ends what waits and is ready, with an error.
func (p *Producer) failReadyLocked(err error) {
	p.queue = slices.DeleteFunc(p.queue, func(e *entered) bool {
		if !e.waits || !e.ready {
			return false
		}
		e.over, e.err = true, err
		return true
	})
}

// flush syncs the log if something is held, and publishes it.
func (p *Producer) flush() error {
	p.syncMu.Lock()
	defer p.syncMu.Unlock()
	p.mu.Lock()
	covers, held := p.lastEntry, len(p.queue)
	p.mu.Unlock()
	if held == 0 {
		return nil
	}
	var position uint64
	if p.cfg.SyncLog != nil {
		var err error
		if position, err = p.cfg.SyncLog(); err != nil {
			return fmt.Errorf("firehose: sync the log: %w", err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncedLocked(position, covers)
	return p.releaseLocked()
}

// wakeBackground tells the background goroutine that something is held.
func (p *Producer) wakeBackground() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// background syncs the log every SyncInterval while something is held (F45).
func (p *Producer) background() {
	defer close(p.done)
	for {
		select {
		case <-p.closing:
			return
		case <-p.wake:
		}
		for p.cfg.SyncLog != nil && p.holds() {
			select {
			case <-p.closing:
				return
			case <-p.cfg.After(p.cfg.SyncInterval):
			}
			if err := p.flush(); err != nil {
				p.cfg.Failed(err)
			}
		}
	}
}

// holds reports whether a commit is held.
func (p *Producer) holds() bool {
	commits, _ := p.Held()
	return commits > 0
}

// Stop is the clean stop (F48), in order: nothing more is taken and nobody
// joins; the log is synced a last time and what is held is published; drain
// gives the streams time to send what they have; L and E are stored; drop cuts
// the connections without a close frame. drain and drop may be nil.
//
// If commits stay held, because the sync failed, no clean mark is stored: the
// next start is one after a crash (F47). A second call returns ErrPhase.
func (p *Producer) Stop(drain, drop func()) error {
	p.mu.Lock()
	if p.Phase() == PhaseStopped {
		p.mu.Unlock()
		return ErrPhase
	}
	p.phase.Store(uint32(PhaseStopped))
	p.mu.Unlock()
	close(p.closing)
	<-p.done
	err := p.flush()
	if drain != nil {
		drain()
	}
	p.mu.Lock()
	held := len(p.queue)
	p.mu.Unlock()
	_, outdated := p.cfg.Ring.Numbers()
	if stopErr := p.cfg.Numbers.Stop(outdated, err == nil && held == 0); stopErr != nil {
		err = errors.Join(err, stopErr)
	}
	if err == nil && held > 0 {
		err = ErrLogBehind
	}
	if drop != nil {
		drop()
	}
	return err
}
