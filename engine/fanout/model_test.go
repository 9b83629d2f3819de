package fanout_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

// never is a position that no entry gets.
const never = ^stream.Pos(0)

// model is the naive idea of a run: every entry, and what each connection asked
// for. It knows nothing of groups, batches, queues or passes.
type model struct {
	engine  *simloop.Engine
	entries []*stream.Entry // by position - 1
	byName  map[string]*stream.Entry
	conns   []*modelConn
	hard    int64 // bytes over which a member is cut
}

// modelConn is one connection as its peer knows it.
type modelConn struct {
	*simloop.Conn
	subs    []*modelSub // in the order of their making, ended ones too
	replies []modelReply
	urgents int
	finite  bool

	stopped   bool // live delivery was stopped
	stoppedAt int  // bytes received then
	atStop    []fanout.Position
	oldest    stream.Pos // of the log, when it was cut
}

// modelReply is a frame that answers a request.
type modelReply struct {
	text   string
	before stream.Pos // strict: what was ingested before this comes first
	strict bool
	subs   int       // of the connection then
	begins *modelSub // its acknowledgement
	ends   *modelSub // none of its events come after
}

// modelSub is one subscription, from its request to its end.
type modelSub struct {
	sub    *fanout.Sub
	order  int
	from   stream.Pos // live entries are from <= Pos < until
	until  stream.Pos
	abrupt bool // it ended without what was live before

	named []*owed          // replay of sessions by name, in order
	all   map[string]*owed // replay of every session

	walk
}

// owed is the replay of one session: what was held of it, and what is known of
// how it went.
type owed struct {
	session   string
	entries   []*stream.Entry
	exhausted bool
	earliest  stream.Sequence

	at       int             // next of entries
	begun    bool            // one was delivered
	marked   bool            // a marker was sent
	cover    stream.Sequence // what is before it was announced as gone
	finished bool
}

// snapshot returns what a session holds after a position.
func (m *model) snapshot(session string, after stream.Sequence) *owed {
	o := &owed{session: session}
	r, exhausted, earliest := m.engine.Buffers.Start(session, after, m.engine.Log.Next())
	o.exhausted, o.earliest = exhausted, earliest
	o.entries, _, _, _ = m.engine.Buffers.Next(&r, nil, 1<<30, 1<<30)
	o.cover = stream.Sequence{Epoch: -1}
	return o
}

// sessions returns the names of all sessions that are held, in order.
func (m *model) sessions() (names []string) {
	for shard := range 64 {
		names = m.engine.Buffers.AppendNames(names, shard)
	}
	slices.Sort(names)
	return names
}

// held returns every entry that is in a buffer now.
func (m *model) held() map[*stream.Entry]bool {
	all := map[*stream.Entry]bool{}
	for _, name := range m.sessions() {
		for _, e := range m.snapshot(name, stream.Sequence{Seq: -1}).entries {
			all[e] = true
		}
	}
	return all
}

func (s *modelSub) selects(e *stream.Entry) bool {
	match := false
	func() {
		defer func() { _ = recover() }()
		match = s.sub.Selector.Match(e.Event)
	}()
	return match
}

func (s *modelSub) String() string {
	return fmt.Sprintf("subscription %s#%d (form %d, %s)", s.sub.ID, s.order, s.sub.Form, s.sub.Selector.Canonical())
}

// current returns the subscription of an id that has not been ended.
func (c *modelConn) current(id string) *modelSub {
	for _, s := range c.subs {
		if s.sub.ID == id && s.until == never {
			return s
		}
	}
	return nil
}

// end ends a subscription at the log's next position.
func (m *model) end(c *modelConn, s *modelSub) {
	s.until = m.engine.Log.Next()
	waiting := s.replayUnfinished(c)
	s.abrupt = c.Member.Replaying() || waiting || c.Member.Endings() >= 256
}

// replayUnfinished tells whether s may have a replay that is not over. Only the
// member knows; a subscription that asked for none has none.
func (s *modelSub) replayUnfinished(c *modelConn) bool {
	return (s.all != nil || len(s.named) > 0) && !c.Member.Live()
}

// subscribe makes a subscription in the engine and in the model.
func (m *model) subscribe(c *modelConn, sub *fanout.Sub, plan fanout.Plan) {
	s := &modelSub{sub: sub, order: len(c.subs), until: never}
	strict := !c.Member.Replaying()
	old := c.current(sub.ID)
	if old != nil {
		m.end(c, old)
	}
	s.from = m.engine.Log.Next()
	for _, f := range plan.From {
		s.named = append(s.named, m.snapshot(f.Session, f.After))
	}
	if plan.All {
		s.all = map[string]*owed{}
		for _, name := range m.sessions() {
			s.all[name] = m.snapshot(name, stream.Sequence{Seq: -1})
		}
	}
	c.subs = append(c.subs, s)
	r := modelReply{
		text: fmt.Sprintf("[subscribed %s#%d]", sub.ID, s.order), before: s.from,
		strict: strict, subs: len(c.subs) - 1, begins: s, ends: old,
	}
	c.replies = append(c.replies, r)
	if c.finite {
		s.until = s.from
	}
	c.Member.Subscribe(sub, plan, []byte(r.text))
}

// unsubscribe ends a subscription in the engine and in the model.
func (m *model) unsubscribe(c *modelConn, id string) {
	r := modelReply{
		text: fmt.Sprintf("[unsubscribed %s#%d]", id, len(c.replies)), before: m.engine.Log.Next(),
		strict: !c.Member.Replaying(), subs: len(c.subs), ends: c.current(id),
	}
	if r.ends == nil {
		r.strict = r.strict && !c.Member.Behind()
	} else {
		m.end(c, r.ends)
	}
	c.replies = append(c.replies, r)
	c.Member.Unsubscribe(id, []byte(r.text))
}

// reply answers a request.
func (m *model) reply(c *modelConn) {
	r := modelReply{
		text: fmt.Sprintf("[reply %d]", len(c.replies)), before: m.engine.Log.Next(),
		strict: !c.Member.Replaying() && !c.Member.Behind(), subs: len(c.subs),
	}
	c.replies = append(c.replies, r)
	c.Member.Reply([]byte(r.text))
}

// stop ends live delivery and notes what the peer is told it got. Answers that
// wait for events which will not come any more are let go.
func (m *model) stop(c *modelConn) {
	frames, _, _ := simloop.ParseFrames(c.Socket.Received())
	answered := 0
	for _, f := range frames {
		if slices.Contains([]string{"subscribed", "unsubscribed", "reply"}, f.Fields[0]) {
			answered++
		}
	}
	for i := range c.replies[answered:] {
		c.replies[answered+i].strict = false
	}
	c.Member.StopLive()
	c.stopped, c.stoppedAt = true, len(c.Socket.Received())
	c.atStop = c.Member.Delivered()
}

// told is what Delivered should answer, given the events that were received in
// order: the last one of each subscription and session, by position.
func (c *modelConn) told(events []delivery) []string {
	last := map[string]delivery{}
	for _, d := range events {
		if d.sub.sub.Track && (d.sub.until == never || c.finite) {
			last[d.sub.sub.ID+"/"+d.entry.Session] = d
		}
	}
	list := slices.SortedFunc(maps.Values(last), func(a, b delivery) int {
		return cmp.Or(cmp.Compare(a.entry.Pos(), b.entry.Pos()), cmp.Compare(a.sub.sub.ID, b.sub.sub.ID))
	})
	var all []string
	for _, d := range list {
		e := d.entry
		all = append(all, fmt.Sprintf("%s/%s@%d:%d", d.sub.sub.ID, e.Session, e.Epoch, e.Seq))
	}
	return all
}

func positionTexts(list []fanout.Position) []string {
	var all []string
	for _, p := range list {
		all = append(all, fmt.Sprintf("%s/%s@%d:%d", p.Sub.ID, p.Session, p.Epoch, p.Seq))
	}
	return all
}

func compareTexts(what string, got, want []string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, " "), strings.Join(want, " "))
	}
	return nil
}
