package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/client"
)

// drive is the loop of a connection.
func (p *publisher) drive(ctx context.Context) (done bool, err error) {
	tick := time.NewTicker(min(p.o.mark/4, time.Second))
	defer tick.Stop()
	for {
		if err := p.launch(); err != nil {
			return false, p.s.broken(err)
		}
		if len(p.queue)+len(p.out) == 0 {
			p.careful = false
			if p.drained {
				return true, nil
			}
		}
		lines, stop := p.lines, p.o.Stop
		if p.drained {
			stop = nil
		}
		if len(p.queue) > 0 || p.drained || !p.room(0) {
			lines = nil
		}
		var later <-chan time.Time
		if wait := time.Until(p.later); wait > 0 && len(p.queue) > 0 {
			later = time.After(wait)
		}
		select {
		case l, open := <-lines:
			p.accept(l, open)
		case <-stop:
			p.drained = true
		case <-p.s.box.more:
			list, ended, err := p.s.take()
			for _, m := range list {
				if err := p.hear(m); err != nil {
					return false, err
				}
			}
			if ended {
				return false, err
			}
		case <-later:
		case <-tick.C:
			if len(p.out) > 0 && time.Since(p.heard) > p.o.mark {
				return false, errNoMark
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// room reports whether another line of n bytes may be under way.
func (p *publisher) room(n int) bool {
	switch {
	case len(p.out) == 0:
		return true
	case p.careful:
		return false
	}
	return len(p.out) < windowLines && p.bytes+n <= windowBytes
}

// launch sends what may be sent.
func (p *publisher) launch() error {
	for len(p.queue) > 0 {
		f := p.queue[0]
		crowded := (f.marks || p.careful) && !p.room(len(f.text))
		if crowded || p.flying(f.id) >= 0 || time.Now().Before(p.later) {
			return nil
		}
		p.queue = p.queue[1:]
		if limit := p.s.maxBytes; limit > 0 && int64(len(f.text)) > limit {
			p.refuse(f, fmt.Sprintf("longer than the %d bytes that the relay takes", limit))
			continue
		}
		if f.sent {
			p.stats.Retries++
		} else {
			p.stats.Bytes += int64(len(f.text))
		}
		f.sent = true
		if f.marks {
			if len(p.out) == 0 {
				p.heard = time.Now()
			}
			p.out, p.bytes = append(p.out, f), p.bytes+len(f.text)
		} else {
			p.stats.BestEffort++
			p.unsure++
			p.remember(f)
		}
		if err := p.s.write(f.text); err != nil {
			return err
		}
	}
	return nil
}

// remember keeps the line of an id that gets no acknowledgement.
func (p *publisher) remember(f *flight) {
	if len(p.order) == recentLines {
		delete(p.recent, p.order[0])
		p.order = p.order[1:]
	}
	p.order = append(p.order, f.id)
	p.recent[f.id] = f.line
}

// accept takes a line of the input.
func (p *publisher) accept(l line, open bool) {
	switch {
	case !open:
		p.drained = true
		return
	case l.err != nil:
		p.drained, p.input = true, l.err
		return
	case l.long:
		p.refuse(&flight{line: l.number}, fmt.Sprintf("longer than %d bytes", maxLineBytes))
		return
	}
	text, id, marks, err := p.filler.fill(l.text, time.Now())
	if err != nil {
		p.refuse(&flight{line: l.number}, clean(err.Error()))
		return
	}
	p.queue = append(p.queue, &flight{line: l.number, id: id, text: text, marks: marks})
}

// flying returns where the line with an id is among those under way, or -1.
func (p *publisher) flying(id string) int {
	return slices.IndexFunc(p.out, func(f *flight) bool { return f.id == id })
}

// settle takes a line from those under way.
func (p *publisher) settle(at int) *flight {
	f := p.out[at]
	p.out = slices.Delete(p.out, at, at+1)
	p.bytes -= len(f.text)
	p.heard, p.outage.useful = time.Now(), true
	return f
}

func (p *publisher) refuse(f *flight, reason string) {
	p.stats.Refused++
	p.o.Refused(f.line, reason)
}

// listen is hear for what comes behind the end.
func (p *publisher) listen(m message) { _ = p.hear(m) }

// hear takes a message of the relay. The error is that of a session that ends.
func (p *publisher) hear(m message) error {
	e := &p.s.env
	if m.faulty != "" || p.s.scanner.Scan(m.text, e) != nil {
		return nil // nothing that is waited for; it is missed in time
	}
	if e.Kind == aepws.KindEventAcknowledged {
		var ack aepws.AckRequest
		if p.s.scanner.ReadAck(e, &ack) != nil {
			return nil // it names nothing
		}
		if at := p.flying(string(ack.EventID)); at >= 0 {
			p.settle(at)
			p.stats.Acknowledged++
		}
		return nil
	}
	a := answerOf(e)
	if err := ending(e.Kind, &a); err != nil {
		return err
	}
	if e.Kind == aepws.KindEventRejected {
		p.rejected(&a)
	}
	return nil
}

// rejected takes a refusal (B25, B29). One that may not come again is tried
// again for a while (B27).
func (p *publisher) rejected(a *answer) {
	reason := a.Error.words()
	at := p.flying(a.Acknowledged)
	if at < 0 {
		number, known := p.recent[a.Acknowledged]
		if !known {
			p.o.Notice(Notice{Kind: Told, Text: joined(clean(a.Acknowledged), reason)})
			return
		}
		delete(p.recent, a.Acknowledged)
		p.stats.BestEffort--
		p.unsure = max(p.unsure-1, 0)
		p.refuse(&flight{line: number}, reason)
		return
	}
	f := p.settle(at)
	if f.tries++; a.Error.Retryable && f.tries < lineTries {
		p.later = time.Now().Add(client.Jitter(f.tries-1, firstWait, maxWait))
		p.queue = append(p.queue, f)
		p.sort()
		return
	}
	p.refuse(f, reason)
}
