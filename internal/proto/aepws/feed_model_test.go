package aepws

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/simloop"
)

// modelSub is what a test knows of one subscription.
type modelSub struct {
	name   string
	n      *line
	id     string
	wish   codec.Mode
	source string // "" for all
	tenant string

	first    int64 // number of the first event that it may get
	until    int64 // of its replay; below first without one
	hasReply bool  // it has a cursor: event.replayed has to come
	replayed bool
	count    int64
	last     int64 // number of the last event it got, or first-1
	ended    bool
	asked    bool // cancelled by the test
	sends    map[int64]int
	told     map[int64]int // attempts announced and not yet sent
	acked    map[int64]bool
}

// modelEvent is a published event.
type modelEvent struct {
	mode   codec.Mode
	source string
	tenant string
	never  bool // had expired when it was stored
}

// feedModel runs a hub beside what the contract says of each subscription.
type feedModel struct {
	*feedRig
	rnd    *rand.Rand
	events []modelEvent // number 1 is at 0
	subs   []*modelSub
	lines  []*line
	made   map[*line]int
	sq     int64

	drops, slow, repeats, replays int
}

// B45 to B62: any sequence of publishes, partial writes, joins with and without
// cursors, cancels, acknowledgements and evictions gives each subscription what
// the contract says: each event once and in order, or told that it is missing.
func TestFeedModel(t *testing.T) {
	rounds := uint64(120)
	if testing.Short() {
		rounds = 20
	}
	drops, slow, repeats, replays := 0, 0, 0, 0
	seeds(rounds, func(seed uint64) {
		m := newFeedModel(t, seed)
		for range 250 {
			m.act()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		m.end()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		drops, slow, repeats, replays = drops+m.drops, slow+m.slow, repeats+m.repeats, replays+m.replays
	})
	if *seedFlag == 0 && (drops < 20 || slow < 20 || repeats < 20 || replays < 50) {
		t.Errorf("%d were told of drops, %d too slow, %d sent again, %d replays: the runs prove too little", drops, slow, repeats, replays)
	}
}

func newFeedModel(t *testing.T, seed uint64) *feedModel {
	rnd := rand.New(rand.NewPCG(seed, 11))
	cfg := feedConfig{
		loops: 1 + rnd.IntN(2), keep: int64(4 + rnd.IntN(60)), tail: 1 << (1 + rnd.IntN(7)), sendQueue: 1 + rnd.IntN(12), subs: 4,
		retry: retryPolicy{ackTimeout: time.Second, backoff: 300 * time.Millisecond, maxBackoff: time.Second, attempts: 1 + rnd.IntN(3), unacked: 1 + rnd.IntN(12)},
	}
	m := &feedModel{feedRig: newFeedRig(t, cfg), rnd: rnd, sq: int64(cfg.sendQueue), made: map[*line]int{}}
	for _, f := range m.hub.feeds {
		f.bounds = feedBounds{frames: 1 + rnd.IntN(6), tries: 1 + rnd.IntN(5), writes: 1 + rnd.IntN(3), step: int64(1 + rnd.IntN(20))}
	}
	return m
}

// cut lets the loops have a few turns that end after some looks at the clock, so
// that what follows happens in the middle of a pass.
func (m *feedModel) cut() {
	for range 1 + m.rnd.IntN(4) {
		l := m.loops[m.rnd.IntN(len(m.loops))]
		l.Poll()
		l.Turn(1 + m.rnd.IntN(4))
		if m.rnd.IntN(3) == 0 {
			m.jobs.work()
		}
	}
}

func (m *feedModel) act() {
	switch n := m.rnd.IntN(20); {
	case n < 8:
		for range 1 + m.rnd.IntN(4) {
			m.publishOne()
			if m.rnd.IntN(4) > 0 { // most often the loop keeps up
				m.run()
			}
		}
	case n < 11:
		m.join()
	case n < 15 && len(m.lines) > 0:
		n := m.lines[m.rnd.IntN(len(m.lines))]
		switch m.rnd.IntN(4) {
		case 0:
			n.Stall()
		case 1:
			n.Room(simloop.Unlimited)
		default:
			n.Room(m.rnd.IntN(900))
		}
	case n < 16 && len(m.subs) > 0:
		m.cancelOne(m.subs[m.rnd.IntN(len(m.subs))])
	case n < 18:
		m.ackSome()
	case n < 19 && len(m.lines) > 0 && m.rnd.IntN(4) == 0:
		m.leaveOne(m.lines[m.rnd.IntN(len(m.lines))])
	default:
		m.passTime(time.Duration(m.rnd.IntN(20)) * dueTick)
	}
	if m.rnd.IntN(3) > 0 {
		m.cut()
		return
	}
	m.run()
	m.compare()
}

func (m *feedModel) publishOne() {
	e := modelEvent{mode: codec.Mode(m.rnd.IntN(4)), source: fmt.Sprint("agent:", m.rnd.IntN(3)), never: m.rnd.IntN(15) == 0}
	if m.rnd.IntN(8) == 0 {
		e.tenant = "t1"
	}
	p := eventOf{mode: e.mode.String(), source: e.source, tenant: e.tenant, size: m.rnd.IntN(200)}
	if e.never {
		p.expires = -time.Second
	}
	m.events = append(m.events, e)
	m.publish(p)
}

// wants tells whether an event is for a subscription.
func (s *modelSub) wants(e *modelEvent) bool {
	return !e.never && e.tenant == s.tenant && (s.source == "" || s.source == e.source)
}

// firm tells whether an event has to be acknowledged by a subscription.
func (s *modelSub) isFirm(e *modelEvent) bool {
	return codec.Effective(e.mode, s.wish) != codec.BestEffort
}

// between counts the events for a subscription that come after one number and
// before another, and those of them that must not be dropped.
func (m *feedModel) between(s *modelSub, after, before int64) (count, firm int64) {
	for n := after + 1; n < before; n++ {
		if e := &m.events[n-1]; s.wants(e) {
			count++
			if s.isFirm(e) {
				firm++
			}
		}
	}
	return count, firm
}

func (m *feedModel) join() {
	var n *line
	if len(m.lines) < 6 || m.rnd.IntN(8) == 0 && len(m.lines) < 12 {
		tenant := []string{"", "", "", "t1"}[m.rnd.IntN(4)]
		n = m.openOf(tenant, m.rnd.IntN(len(m.loops)))
		m.lines = append(m.lines, n)
	} else {
		n = m.lines[m.rnd.IntN(len(m.lines))]
	}
	if len(n.kept.list)+len(n.kept.asking) >= m.hub.cfg.maxSubscriptions {
		return
	}
	m.hearAll()
	s := &modelSub{n: n, tenant: n.of, wish: codec.Mode(m.rnd.IntN(4)), sends: map[int64]int{}, told: map[int64]int{}, acked: map[int64]bool{}}
	parts := []string{`"types":"*"`}
	if s.wish != codec.ModeAbsent {
		parts = append(parts, fmt.Sprintf(`"delivery_mode":%q`, s.wish))
	}
	if m.rnd.IntN(3) == 0 {
		s.source = fmt.Sprint("agent:", m.rnd.IntN(3))
		parts = append(parts, fmt.Sprintf(`"source":%q`, s.source))
	}
	newest := int64(len(m.events))
	evicted := m.log.State().Evicted
	s.first, s.until = newest+1, newest
	status := ""
	if m.rnd.IntN(2) == 0 {
		s.hasReply = true
		number := m.rnd.Int64N(newest + 3)
		id := fmt.Sprint("e", number)
		if m.rnd.IntN(6) == 0 {
			id = "other"
		}
		parts = append(parts, fmt.Sprintf(`"from_cursor":"%s:%d"`, id, number))
		switch { // B51
		case number == 0 && evicted == 0:
			s.first, status = 1, "complete"
		case number > newest:
			s.first, status = evicted+1, "gap cursor_in_future"
		case number < evicted:
			s.first, status = evicted+1, "gap"
		case number == evicted:
			s.first, status = number+1, "complete"
		case id == "other":
			s.first, status = evicted+1, "gap cursor_unknown"
		default:
			s.first, status = number+1, "complete"
		}
		if strings.HasPrefix(status, "gap") && evicted < newest {
			status += fmt.Sprintf(" e%d:%d", evicted+1, evicted+1)
		}
		m.replays++
	}
	s.last = s.first - 1
	m.made[n]++
	s.id = fmt.Sprint("sub_", m.made[n])
	filter := "{" + strings.Join(parts, ",") + "}"
	s.name = fmt.Sprintf("%s of %s, %s at H %d, E %d", s.id, n.id, filter, newest, evicted)
	m.subs = append(m.subs, s)
	n.expect = append(n.expect, joinWords("created", s.id, status))
	n.ask(filter)
	if len(n.kept.asking) > 0 { // the log answers before it changes
		m.run()
	}
}

func (m *feedModel) find(n *line, id string) *modelSub {
	for _, s := range m.subs {
		if s.n == n && s.id == id {
			return s
		}
	}
	m.t.Fatalf("%s: nobody knows %s", n.id, id)
	return nil
}

func (m *feedModel) cancelOne(s *modelSub) {
	m.hearAll()
	if s.ended || s.asked || s.n.Gone() {
		return
	}
	alive := false
	for _, other := range s.n.kept.list {
		alive = alive || other.group.key.id == s.id
	}
	if !alive { // its end is under way
		return
	}
	s.asked = true
	s.n.f.cancel(s.n, s.id, cause{})
}

// ackSome acknowledges some of what a line got, if its socket owes nothing: what
// comes later is then known to have been sent later.
func (m *feedModel) ackSome() {
	m.hearAll()
	for _, s := range m.subs {
		if s.n.Gone() || s.n.conn.Owes() || m.rnd.IntN(2) == 0 {
			continue
		}
		for _, number := range slices.Sorted(maps.Keys(s.sends)) {
			if !s.acked[number] && m.rnd.IntN(3) > 0 && s.isFirm(&m.events[number-1]) {
				s.acked[number] = true
				s.n.f.acknowledge(s.n, &codec.AckRequest{EventID: fmt.Appendf(nil, "e%d", number), SubscriptionID: []byte(s.id)})
			}
		}
	}
}

func (m *feedModel) leaveOne(n *line) {
	for _, s := range m.subs {
		if s.n == n {
			s.ended = true
		}
	}
	n.Reset()
	for i, other := range m.lines {
		if other == n {
			m.lines = append(m.lines[:i], m.lines[i+1:]...)
			break
		}
	}
}

// compare looks at every subscription, with all loops at rest.
func (m *feedModel) compare() {
	m.t.Helper()
	m.hearAll()
	for _, s := range m.subs {
		m.atRest(s)
	}
}

// hearAll looks at what every line got.
func (m *feedModel) hearAll() {
	m.t.Helper()
	for _, n := range m.lines {
		for {
			e, ok := n.next()
			if !ok {
				break
			}
			m.hear(n, &e)
			if m.t.Failed() {
				return
			}
		}
		if n.unacked != nil && n.unacked.used > n.unacked.plan.unacked {
			m.t.Errorf("%s: B60: %d are unacknowledged", n.id, n.unacked.used)
		}
		if owed := n.conn.QueuedBytes(); owed > 20_000 {
			m.t.Errorf("%s: case 38: %d bytes are owed, answers included", n.id, owed)
		}
	}
}

// atRest wants that a subscription whose socket has room has all that there is
// for it, or may not be sent more.
func (m *feedModel) atRest(s *modelSub) {
	if s.ended || s.asked || s.n.conn.Owes() {
		return
	}
	if s.hasReply && !s.replayed && !m.full(s.n) {
		m.t.Errorf("%s: B52: it has room, and its replay does not end", s.name)
	}
	owed, firm := m.between(s, s.last, int64(len(m.events)+1))
	if firm == 0 && owed > 0 { // what had left the log may have been dropped, which the next event tells
		owed, _ = m.between(s, max(s.last, m.log.State().Evicted, m.hub.tail.oldest()-1), int64(len(m.events)+1))
	}
	if owed > 0 && !m.full(s.n) {
		m.t.Errorf("%s: it has room, got %d last and is owed %d events of %d", s.name, s.last, owed, len(m.events))
	}
}

// full tells whether a session may be sent nothing that has to be acknowledged.
func (m *feedModel) full(n *line) bool { return n.unacked != nil && n.unacked.full() }

// hear takes one message.
func (m *feedModel) hear(n *line, e *heard) {
	m.t.Helper()
	if e.Delivery.Sequence > 0 {
		m.hearEvent(m.find(n, e.Delivery.Subscription), e)
		return
	}
	text := n.words(e)
	words := strings.Fields(text)
	switch words[0] {
	case "created":
		if len(n.expect) == 0 || text != n.expect[0] {
			m.t.Errorf("B51: %s, want %q", text, n.expect)
			return
		}
		n.expect = n.expect[1:]
	case "cancelled":
		s := m.find(n, words[1])
		if !s.asked || s.ended {
			m.t.Errorf("%s: B53: %s", s.name, text)
		}
		s.ended = true
	case "expired":
		m.hearExpired(m.find(n, words[1]), text)
	case "replayed":
		s := m.find(n, words[1])
		if missed, _ := m.between(s, s.last, s.until+1); s.ended || s.replayed || !s.hasReply || missed > 0 || words[len(words)-1] != fmt.Sprint(s.count) {
			m.t.Errorf("%s: B52: %s after %d events, the last one %d of %d; %d are missing", s.name, text, s.count, s.last, s.until, missed)
		}
		s.replayed, s.last = true, max(s.last, s.until)
	case "redelivered":
		s := m.find(n, words[1])
		var number int64
		var attempt int
		if _, err := fmt.Sscanf(words[2]+" "+words[3], "e%d %d", &number, &attempt); err != nil {
			m.t.Fatal(err)
		}
		s.told[number] = attempt
	default:
		m.t.Errorf("%s: %s", n.id, text)
	}
}

func (m *feedModel) hearExpired(s *modelSub, text string) {
	m.slow++
	evicted := m.log.State().Evicted
	oldest := s.last + 1 // what it waited for, or an event that it has not acknowledged
	for _, number := range slices.Sorted(maps.Keys(s.sends)) {
		if !s.acked[number] && s.isFirm(&m.events[number-1]) {
			oldest = min(oldest, number)
		}
	}
	if s.ended || !strings.Contains(text, "consumer_too_slow") || oldest > evicted {
		m.t.Errorf("%s: B60: %s, got %d last, needs %d, and E is %d", s.name, text, s.last, oldest, evicted)
	}
	s.ended = true
}

func (m *feedModel) hearEvent(s *modelSub, e *heard) {
	m.t.Helper()
	d := &e.Delivery
	event := &m.events[d.Sequence-1]
	if want := codec.Effective(event.mode, s.wish).String(); s.ended || !s.wants(event) || d.Mode != want || e.ID != fmt.Sprint("e", d.Sequence) {
		m.t.Errorf("%s: B48, B53, B57: got %+v of %+v, ended %v", s.name, *d, *event, s.ended)
	}
	if d.Attempt > 0 { // B58
		m.repeats++
		if s.acked[d.Sequence] || !s.isFirm(event) || s.sends[d.Sequence] != d.Attempt-1 || s.told[d.Sequence] != d.Attempt || d.Attempt > s.n.unacked.plan.attempts {
			m.t.Errorf("%s: B58: attempt %d of %d, sent %d times, told %d, acked %v", s.name, d.Attempt, d.Sequence,
				s.sends[d.Sequence], s.told[d.Sequence], s.acked[d.Sequence])
		}
		s.sends[d.Sequence]++
		return
	}
	missed, firm := m.between(s, s.last, d.Sequence)
	inReplay := s.hasReply && !s.replayed
	switch {
	case d.Sequence <= s.last || d.Sequence < s.first:
		m.t.Errorf("%s: B52: got %d after %d", s.name, d.Sequence, s.last)
	case inReplay && d.Sequence > s.until:
		m.t.Errorf("%s: B52: got %d in a replay to %d", s.name, d.Sequence, s.until)
	case missed != d.Dropped || firm > 0 || inReplay && missed > 0:
		m.t.Errorf("%s: B60: got %d after %d: %d are missing, %d of them firm, and it is told %d", s.name, d.Sequence, s.last, missed, firm, d.Dropped)
	}
	if d.Dropped > 0 {
		m.drops++
		if kept, _ := m.between(s, d.Sequence-1, int64(len(m.events)+1)); kept < m.sq && s.last >= m.log.State().Evicted {
			m.t.Errorf("%s: B60: %d are dropped though it owed %d from %d on only", s.name, d.Dropped, kept, d.Sequence)
		}
	}
	s.last = d.Sequence
	s.sends[d.Sequence]++
	if inReplay {
		s.count++
	}
}

// end lets everybody read, acknowledges all and compares what came.
func (m *feedModel) end() {
	for _, n := range m.lines {
		n.Room(simloop.Unlimited)
	}
	for range 400 {
		m.run()
		m.compare()
		if m.t.Failed() {
			return
		}
		quiet := true
		for _, s := range m.subs {
			for _, number := range slices.Sorted(maps.Keys(s.sends)) {
				if !s.acked[number] && !s.ended && s.isFirm(&m.events[number-1]) {
					s.acked[number], quiet = true, false
					s.n.f.acknowledge(s.n, &codec.AckRequest{EventID: fmt.Appendf(nil, "e%d", number), SubscriptionID: []byte(s.id)})
				}
			}
		}
		if quiet {
			break
		}
	}
	for _, s := range m.subs {
		if s.ended {
			continue
		}
		if m.atRest(s); s.hasReply && !s.replayed {
			m.t.Errorf("%s: B52: at the end it has not been replayed", s.name)
		}
	}
}
