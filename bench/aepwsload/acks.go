package aepwsload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// Flood is so many publishers with so many events each that are not acknowledged
// yet.
type Flood struct {
	Publishers, Window int
	Length             time.Duration
}

// publisher publishes events of its own source, so that its ids are its own (B56
// of the contract), and checks what it is answered.
type publisher struct {
	*conn
	event        shape
	sent, acked  int
	last         int64 // number of the event that was acknowledged last
	numbers      []int64
	id, out      []byte
	firstOfAll   int // of the ids
	keepsNumbers bool
}

// newPublisher opens the session of publisher n, whose events are of a type.
func newPublisher(addr, kind string, n, first int, keepsNumbers bool) (*publisher, error) {
	k, err := dial(addr)
	if err != nil {
		return nil, err
	}
	return &publisher{
		conn: k, firstOfAll: first, keepsNumbers: keepsNumbers,
		event: newShape(fmt.Sprintf(`{"aep_version":"0.1","id":"bench-0000000000","type":%q,"source":"bench.%d",`+
			`"target":"s00000","created_at":"2026-01-01T00:00:00Z","payload":{"text":"%%s"}}`, kind, n), eventBytes),
	}, nil
}

// send publishes n events in one write.
func (p *publisher) send(n int) error {
	p.out = p.out[:0]
	for range n {
		p.out = p.event.append(p.out, p.firstOfAll+p.sent, 0)
		p.sent++
	}
	_, err := p.Write(p.out)
	return err
}

// receive reads acknowledgements: one at least, and all that came with it. They
// come in the order of the events, and so do their numbers (B2).
func (p *publisher) receive() (n int, err error) {
	for n == 0 || p.acked < p.sent && p.in.Buffered() > 0 {
		p.id = append(p.id[:0], "bench-0000000000"...)
		digits(p.id[len("bench-"):], p.firstOfAll+p.acked)
		seq, err := p.acknowledged(p.id)
		if err != nil {
			return n, err
		}
		if seq <= p.last {
			return n, fmt.Errorf("%w: number %d after %d", errWrong, seq, p.last)
		}
		if p.last = seq; p.keepsNumbers {
			p.numbers = append(p.numbers, seq)
		}
		p.acked++
		n++
	}
	return n, nil
}

// publish publishes until more returns false, with so many events unanswered,
// and waits for the answers.
func (p *publisher) publish(window int, more func() bool) error {
	for due := window; ; {
		if more() {
			if err := p.send(due); err != nil {
				return err
			}
		} else if p.acked == p.sent {
			return nil
		}
		n, err := p.receive()
		if err != nil {
			return err
		}
		due = n
	}
}

// flood publishes for a time and returns how many events were acknowledged in a
// second, and the relay's CPU time of one, in microseconds.
func (r *relay) flood(ctx context.Context, f Flood) (perSecond, micros float64, err error) {
	all := make([]*publisher, f.Publishers)
	defer func() {
		for _, p := range all {
			if p != nil {
				_ = p.Close()
			}
		}
	}()
	for i := range all {
		if all[i], err = newPublisher(r.Addr, "bench.flood", i, 0, true); err != nil {
			return 0, 0, err
		}
	}
	if err := r.rest(ctx); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	cpu, err := cpuOf(r.PID(), func() error {
		errs := make([]error, len(all))
		var running sync.WaitGroup
		for i, p := range all {
			running.Go(func() {
				errs[i] = p.publish(f.Window, func() bool { return time.Since(began) < f.Length && ctx.Err() == nil })
			})
		}
		running.Wait()
		return errors.Join(errors.Join(errs...), ctx.Err())
	})
	took := time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	n, err := dense(all)
	return float64(n) / took.Seconds(), cpu.Seconds() * 1e6 / float64(n), err
}

// dense counts the events that were acknowledged, whose numbers are 1 and those
// that follow, each once (B2): nobody else publishes.
func dense(all []*publisher) (int, error) {
	total := 0
	for _, p := range all {
		total += p.acked
	}
	seen := make([]bool, total)
	for _, p := range all {
		for _, seq := range p.numbers {
			if seq < 1 || seq > int64(total) || seen[seq-1] {
				return 0, fmt.Errorf("%w: number %d of %d events, or twice", errWrong, seq, total)
			}
			seen[seq-1] = true
		}
	}
	return total, nil
}

// floods measures the relay's rate, and that of two logs which differ by the size
// of their commits, in turns.
func (s *suite) floods(ctx context.Context) error {
	f := s.o.Flood
	var relayed, micros, grouped, alone, size []float64
	for round := range s.o.Rounds {
		err := s.p.with(func(r *relay) error {
			rate, cpu, err := r.flood(ctx, f)
			relayed, micros = append(relayed, rate), append(micros, cpu)
			s.say("flood, round %d: %.0f events/s acknowledged, %.2f us each", round+1, rate, cpu)
			return err
		})
		if err != nil {
			return err
		}
		for turn := range 2 {
			group := (turn + round) % 2 // 0 is the log's own bound
			rate, commit, err := appends(ctx, group, f.Publishers*f.Window, f.Length)
			if err != nil {
				return err
			}
			s.say("flood, round %d, log, %s: %.0f events/s, %.1f a commit", round+1, [2]string{"group commit", "a commit each"}[group], rate, commit)
			if group == 1 {
				alone = append(alone, rate)
				continue
			}
			grouped, size = append(grouped, rate), append(size, commit)
		}
	}
	name := fmt.Sprintf("%d publishers, %d events of %d bytes unanswered each", f.Publishers, f.Window, eventBytes)
	s.add(name, "events/s acknowledged by the relay; its CPU of one", "%.0f; %.2f us", median(relayed), median(micros))
	name = fmt.Sprintf("the event log alone, %d events unanswered", f.Publishers*f.Window)
	s.add(name, "events/s, group commit; a commit for each", "%.0f; %.0f", median(grouped), median(alone))
	s.add(name, "ratio of one round", "%s", spread(ratios(grouped, alone)))
	s.add(name, "events of a group commit", "%.1f", median(size))
	return nil
}

// appends stores events in a log of this process for a time, open of them
// unanswered, and returns events a second and events a commit. Their numbers come
// in order and without a gap (B2).
func appends(ctx context.Context, group, open int, d time.Duration) (perSecond, perCommit float64, err error) {
	dir, err := os.MkdirTemp("", "aepwsload")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := eventlog.Open(eventlog.Config{Path: filepath.Join(dir, "log.db"), GroupCount: group, QueueCount: 2 * open, MaxEvents: 1 << 40, MaxBytes: 1 << 40})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	event := newShape(`{"aep_version":"0.1","id":"bench-0000000000","type":"bench.flood","source":"bench",`+
		`"target":"s00000","created_at":"2026-01-01T00:00:00Z","payload":{"text":"%s"}}`, eventBytes)
	free := make(chan struct{}, open)
	failed := make(chan error, 1)
	var last int64 // of the writer's goroutine
	n, began := 0, time.Now()
	for ; time.Since(began) < d && ctx.Err() == nil; n++ {
		free <- struct{}{}
		text := append([]byte(nil), event.text...)
		digits(text[event.id:event.id+idDigits], n)
		id := string(text[event.id-len("bench-") : event.id+idDigits])
		l.Append(eventlog.Event{Source: "bench", ID: id, Type: "bench.flood", Text: text}, func(got eventlog.Result, err error) {
			if err == nil && got.Seq != last+1 {
				err = fmt.Errorf("%w: number %d after %d", errWrong, got.Seq, last)
			}
			last = got.Seq
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
			<-free
		})
	}
	for range open { // all have been answered when all is free
		free <- struct{}{}
	}
	took := time.Since(began).Seconds()
	select {
	case err := <-failed:
		return 0, 0, err
	default:
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	st := l.Stats()
	return float64(n) / took, float64(st.Requests) / float64(st.Groups), nil
}
