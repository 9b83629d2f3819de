package simloop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/stream"
)

var commands = map[string]func(*Driver, *args) error{
	"append":      (*Driver).append,
	"socket":      (*Driver).socket,
	"subscribe":   (*Driver).subscribe,
	"unsubscribe": (*Driver).unsubscribe,
	"poll":        (*Driver).poll,
	"turn":        (*Driver).turn,
	"drain":       (*Driver).drain,
	"advance":     (*Driver).advance,
	"reply":       each(sendWord((*Conn).Reply)),
	"urgent":      each(sendWord((*Conn).Urgent)),
	"stop":        each(func(c *Conn, _ *args) { c.Member.StopLive() }),
	"close":       each(func(c *Conn, _ *args) { c.Close() }),
	"reset":       each(func(c *Conn, _ *args) { c.Socket.Reset() }),
	"room": each(func(c *Conn, a *args) {
		switch text := a.word(); text {
		case "none":
			c.Socket.Stall()
		default:
			c.Socket.Room(a.room(text))
		}
	}),
}

// each makes a command of what is done to each connection of a range.
func each(f func(*Conn, *args)) func(*Driver, *args) error {
	return func(d *Driver, a *args) error {
		conns, err := d.named(a.word())
		if err != nil {
			return err
		}
		for _, c := range conns {
			own := &args{words: slices.Clone(a.words), values: slices.Clone(a.values)}
			f(c, own)
			if err := own.done(); err != nil {
				return err
			}
		}
		a.words, a.values = nil, nil
		return a.err
	}
}

// named returns the connections of a name or a range.
func (d *Driver) named(text string) ([]*Conn, error) {
	names, err := expandRange(text)
	if err != nil {
		return nil, err
	}
	var conns []*Conn
	for _, name := range names {
		c := d.conns[name]
		if c == nil {
			return nil, fmt.Errorf("%w: no connection %q", ErrCommand, name)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// expandRange reads a name, or a range of names that end in numbers: c1..c40.
func expandRange(text string) ([]string, error) {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return []string{text}, nil
	}
	stem := strings.TrimRight(from, "0123456789")
	first, err1 := strconv.Atoi(from[len(stem):])
	last, err2 := strconv.Atoi(strings.TrimPrefix(to, stem))
	if err1 != nil || err2 != nil || last < first || last-first >= maxConns {
		return nil, fmt.Errorf("%w: range %q", ErrCommand, text)
	}
	var names []string
	for n := first; n <= last; n++ {
		names = append(names, stem+strconv.Itoa(n))
	}
	return names, nil
}

// plain tells whether a text can be part of a frame.
func plain(text string) bool { return text != "" && !strings.ContainsAny(text, "[]") }

// plainWord takes a word that can be part of a frame; "" when it cannot.
func plainWord(a *args) string {
	w := a.word()
	if !plain(w) {
		a.fail("text %q", w)
		return ""
	}
	return w
}

func sendWord(send func(*Conn, string)) func(*Conn, *args) {
	return func(c *Conn, a *args) {
		if w := plainWord(a); w != "" {
			send(c, w)
		}
	}
}

func (d *Driver) append(a *args) error {
	name := plainWord(a)
	seq, err := ParseSequence(a.word())
	if err != nil {
		return err
	}
	n := clamp(a.value("n", 1), 1, maxCount)
	id, key, size := a.text("id", ""), a.text("key", ""), min(a.value("size", 0), 1<<20)
	severity := slices.Index(severityNames, a.text("sev", "notice"))
	attrs := a.values
	a.values = nil
	switch {
	case a.err != nil:
		return a.err
	case severity < 0, id != "" && (!plain(id) || n > 1), strings.ContainsAny(strings.Join(attrs, ""), "[]"):
		return fmt.Errorf("%w: severity or id", ErrCommand)
	case n*max(size, eventCost) > d.Budget:
		return fmt.Errorf("%w: more events than the budget allows", ErrCommand)
	}
	d.Budget -= n * max(size, eventCost)
	for range n {
		d.Engine().Append(&Event{
			Session: name, Seq: seq, Name: id, ID: key, Attrs: attrs,
			Severity: Severity(severity), Bytes: size,
		})
		seq = seq.Next()
	}
	return nil
}

func (d *Driver) socket(a *args) error {
	names, err := expandRange(a.word())
	if err != nil {
		return err
	}
	loop, room, finite := a.value("loop", 0), a.room(a.text("accept", "all")), a.flag("finite")
	e := d.Engine()
	switch {
	case a.err != nil:
		return a.err
	case loop >= len(e.Loops):
		return fmt.Errorf("%w: no loop %d", ErrCommand, loop)
	case len(e.Conns)+len(names) > maxConns:
		return fmt.Errorf("%w: too many connections", ErrCommand)
	}
	for _, name := range names {
		if d.conns[name] != nil {
			return fmt.Errorf("%w: connection %q is there", ErrCommand, name)
		}
		d.conns[name] = e.Connect(name, loop, room, finite)
	}
	return nil
}

func (d *Driver) subscribe(a *args) error {
	conns, err := d.named(a.word())
	if err != nil {
		return err
	}
	selector, err := ParseFilter(a.text("filter", "all"))
	if err != nil {
		return err
	}
	plan, err := parsePlan(a.text("from", ""), a.text("extra", ""))
	if err != nil {
		return err
	}
	id, form := a.text("id", "a"), a.value("form", 0)
	track, ack := !a.flag("notrack"), !a.flag("noack")
	switch {
	case a.err != nil:
		return a.err
	case !plain(id), form >= stream.MaxForms:
		return fmt.Errorf("%w: id or form", ErrCommand)
	}
	for _, c := range conns {
		if c.Ended() {
			continue
		}
		sub := &fanout.Sub{ID: id, Selector: selector, Form: stream.Form(form), Track: track}
		if ack {
			c.Subscribe(sub, plan)
		} else {
			c.Member.Subscribe(sub, plan, nil)
		}
	}
	return nil
}

// parsePlan reads from=s1@0:3,s2@- or from=all, and extra=s3,s4.
func parsePlan(from, extra string) (p fanout.Plan, err error) {
	if extra != "" {
		p.Extra = strings.Split(extra, ",")
	}
	if from == "" || from == "all" {
		p.All = from == "all"
		return p, nil
	}
	for part := range strings.SplitSeq(from, ",") {
		name, seq, ok := strings.Cut(part, "@")
		if !ok {
			return p, fmt.Errorf("%w: from %q", ErrCommand, part)
		}
		at, err := ParseSequence(seq)
		if err != nil {
			return p, err
		}
		p.From = append(p.From, fanout.From{Session: name, After: at})
	}
	return p, nil
}

func (d *Driver) unsubscribe(a *args) error {
	conns, err := d.named(a.word())
	if err != nil {
		return err
	}
	id, ack := plainWord(a), !a.flag("noack")
	if a.err != nil {
		return a.err
	}
	for _, c := range conns {
		if ack {
			c.Unsubscribe(id)
		} else if !c.Ended() {
			c.Member.Unsubscribe(id, nil)
		}
	}
	return nil
}

// loops returns the loop that is named, or all.
func (d *Driver) loops(a *args) ([]*Loop, error) {
	e := d.Engine()
	n := a.value("loop", len(e.Loops))
	switch {
	case a.err != nil:
		return nil, a.err
	case n == len(e.Loops):
		return e.Loops, nil
	case n > len(e.Loops):
		return nil, fmt.Errorf("%w: no loop %d", ErrCommand, n)
	}
	return e.Loops[n : n+1], nil
}

func (d *Driver) poll(a *args) error {
	loops, err := d.loops(a)
	for _, l := range loops {
		l.Poll()
	}
	return err
}

func (d *Driver) turn(a *args) error {
	loops, err := d.loops(a)
	budget, n := a.value("budget", 0), min(a.value("n", 1), maxCount)
	for range n {
		for _, l := range loops {
			l.Turn(budget)
		}
	}
	return err
}

func (d *Driver) drain(a *args) error {
	if len(a.words) > 0 {
		conns, err := d.named(a.word())
		if err != nil {
			return err
		}
		return d.drainConns(conns)
	}
	loops, err := d.loops(a)
	if err != nil || len(loops) == len(d.Engine().Loops) {
		return d.settle(err)
	}
	if !loops[0].Run(settleSteps) {
		return ErrRestless
	}
	return nil
}

func (d *Driver) settle(err error) error {
	if err != nil {
		return err
	}
	return d.Engine().Settle(settleSteps)
}

// drainConns lets the peers take everything, and then nothing more.
func (d *Driver) drainConns(conns []*Conn) error {
	for _, c := range conns {
		c.Socket.Room(Unlimited)
	}
	err := d.settle(nil)
	for _, c := range conns {
		c.Socket.Stall()
	}
	return err
}

func (d *Driver) advance(a *args) error {
	by, err := time.ParseDuration(a.word())
	if err != nil || by < 0 || by > 1000*time.Hour {
		return fmt.Errorf("%w: duration", ErrCommand)
	}
	d.Engine().Clock.Advance(by)
	return nil
}
