package fanout

import "github.com/sluice-relay/sluice/engine/stream"

// Cut is why a member was ended by the engine.
type Cut uint8

// Reasons for ending a member.
const (
	CutHard    Cut = iota + 1 // it owes its peer more than HardBytes
	CutOverrun                // the log no longer holds what it is owed
	CutPanic                  // serving it failed inside the relay
)

func (c Cut) String() string {
	switch c {
	case CutHard:
		return "hard-limit"
	case CutOverrun:
		return "log-overrun"
	case CutPanic:
		return "internal-error"
	}
	return "none"
}

// Owner is the connection that a member delivers to, as the fan-out core sees
// it. It is called on the loop, and only for lag, overrun and close.
type Owner interface {
	// AppendGap appends the frame which tells that the replay of a session goes
	// on at earliest, because what was before is gone.
	AppendGap(dst []byte, s *Sub, session string, earliest stream.Sequence) []byte
	// AppendShed appends the frame which tells that n events were shed.
	AppendShed(dst []byte, n int64) []byte
	// Replayed tells that a finite member has handed all of its replay to its
	// output.
	Replayed()
	// Finished tells that a member on which Finish was called gets nothing
	// more; what is queued for it is still owed.
	Finished()
	// Cut tells that the member was ended. Its output still holds what it owes,
	// and Delivered still answers.
	Cut(Cut)
}

// Sub is one subscription of a member. Immutable after it was handed over,
// except for the positions, which the member owns, and the selector: members of
// a group share that of the one who came first.
type Sub struct {
	// ID is the owner's name of the subscription; it is unique in a member.
	ID       string
	Selector Selector
	Form     stream.Form
	// Track makes Delivered tell positions of this subscription.
	Track bool
	// Data is the owner's.
	Data any

	from  stream.Pos // live entries are from <= Pos < until
	until stream.Pos
}

// Plan is what a subscription replays before it goes live.
type Plan struct {
	All   bool // every session from its earliest entry
	From  []From
	Extra []string // sessions from their earliest entry, without a marker (R279)
}

// From is one resume position: everything held after it.
type From struct {
	Session string
	After   stream.Sequence
}

type state uint8

const (
	stateIdle    state = iota // no subscription
	stateCatchUp              // reads buffers and log on its own
	stateLive                 // in a group
	stateEnded
)

const never = ^stream.Pos(0)

// maxEnding is how many subscriptions of a member that does not read may wait
// for the last events before their end. More end at once, so that a peer which
// replaces its subscriptions for ever costs no more memory for it (L2).
const maxEnding = 256

// Member is one connection's delivery state. Owned by its loop; all methods are
// loop only.
//
// Idle -> CatchUp -> Live -> CatchUp -> ... -> Ended. A change of the
// subscriptions sends a live member back to CatchUp at the position up to which
// it was served, so that every connection has one cursor and one output order.
// A live member lags while its output or its queue holds something.
//
// Most members are live, owe nothing and wait for nothing: what only the others
// need is behind pointers that are nil at rest.
type Member struct {
	// Immutable after construction.
	set    *Set
	out    *Output
	owner  Owner
	finite bool // ends with its replay

	// Owned by the loop.
	state   state
	replays bool       // CatchUp: the first task has begun
	queued  bool       // CatchUp: in set.ready
	parked  bool       // in set.waiting
	lags    bool       // Live: counted in group.lagging
	place   int32      // Live: in group.members
	group   *Group     // Live
	subs    []*Sub     // while it is live nothing in it changes
	cursor  stream.Pos // in CatchUp: next position of the log to read
	since   stream.Pos // of the last change of subs: no group serves what is before
	start   stream.Pos // what the group serves before it is not for this member

	finishAt stream.Pos // 0 until Finish was called

	tasks   *task  // CatchUp: what is to be replayed, the one under way first
	filling *Batch // what is being read, not yet handed to the output

	lag  *lag  // what is owed and not in the output; nil when nothing is
	left *left // of the last group; nil while it is live

	// base are positions of this member alone: what it replayed and what it got
	// before it joined its group.
	base positions[memberKeyPos]

	replies *replyQueue // nil when none waits
}

// left is what records of a member's last group, still owed, refer to.
type left struct {
	subs   []*Sub                  // that the indexes in those records mean
	before positions[memberKeyPos] // base as it was until the member left
}

// lag is what a member is owed that is not in its output yet.
type lag struct {
	queue   runQueue // records of its group
	shed    int64
	dropped map[groupKeyPos]shedAt
}

// reply is a frame that has to follow the entries before barrier.
type reply struct {
	barrier stream.Pos
	frame   []byte
}

// replyQueue is the replies that wait, in order. The nil queue is empty.
type replyQueue struct {
	list  []reply
	bytes int64
}

func (q *replyQueue) count() int {
	if q == nil {
		return 0
	}
	return len(q.list)
}

// shedAt remembers what a subscription got of a session before entries of it
// were shed, the last of them at last.
type shedAt struct {
	prev position
	last stream.Pos
}

// NewMember returns a member that delivers to out. finite members end with
// their replay: they never go live.
func (s *Set) NewMember(out *Output, owner Owner, finite bool) *Member {
	m := new(Member)
	s.InitMember(m, out, owner, finite)
	return m
}

// InitMember is NewMember for a member that is part of something else, the zero
// value until then.
func (s *Set) InitMember(m *Member, out *Output, owner Owner, finite bool) {
	s.members++
	m.set, m.out, m.owner, m.finite = s, out, owner, finite
}

// QueuedBytes returns Q: the bytes accepted for the connection and not handed
// to the kernel.
func (m *Member) QueuedBytes() int64 {
	n := m.out.OwedBytes()
	if m.lag != nil {
		n += m.lag.queue.bytes
	}
	if m.replies != nil {
		n += m.replies.bytes
	}
	return n
}

// Live tells whether the member is in a group and owes nothing.
func (m *Member) Live() bool { return m.state == stateLive && !m.behind() }

// Subs returns the number of subscriptions.
func (m *Member) Subs() int {
	n := 0
	for _, s := range m.subs {
		if s.until == never {
			n++
		}
	}
	return n
}

// behind tells whether something is owed, so that new entries have to queue.
func (m *Member) behind() bool { return m.out.owed != nil || m.records() > 0 }

// records returns how many records wait behind the output.
func (m *Member) records() int {
	if m.lag == nil {
		return 0
	}
	return m.lag.queue.count
}

func (m *Member) setLagging(v bool) {
	if m.lags == v || m.group == nil {
		return
	}
	m.lags = v
	if v {
		m.group.lagging++
	} else {
		m.group.lagging--
	}
}

// acknowledge sends or queues a frame that belongs to a change of the
// subscriptions at h.
func (m *Member) acknowledge(frame []byte, h stream.Pos) {
	switch {
	case len(frame) == 0 || m.overHard():
	case m.replies.count() == 0 && (m.replays || m.cursor >= h && m.records() == 0):
		m.out.sendOrdered(frame)
	default:
		m.await(h, frame)
	}
}

// await queues a reply until everything before h was delivered.
func (m *Member) await(h stream.Pos, frame []byte) {
	if m.replies == nil {
		m.replies = new(replyQueue)
	}
	m.replies.list = append(m.replies.list, reply{h, frame})
	m.replies.bytes += int64(len(frame))
}

// maxReplies bounds the replies that wait for a pass, which takes milliseconds.
const maxReplies = 1 << 14

// overHard cuts a member that owes more than HardBytes: frames are never
// dropped, so that a peer which asks and never reads is ended (R422).
func (m *Member) overHard() bool {
	if m.state == stateEnded || m.QueuedBytes() <= m.set.limits.HardBytes && m.replies.count() < maxReplies {
		return false
	}
	m.set.cut(m, CutHard)
	return true
}

// Reply sends a frame that answers a request just processed: it follows every
// entry ingested before, unless the connection replays or lags (R329). frame is
// shared from now on.
func (m *Member) Reply(frame []byte) {
	h := m.set.log.Next()
	switch {
	case m.overHard():
	case m.replies.count() > 0: // replies keep their own order
		m.await(h, frame)
	case m.state == stateIdle || m.state == stateEnded:
		m.out.sendOrdered(frame)
	case m.replays || m.behind():
		m.out.sendReply(frame)
	case m.state == stateLive && m.set.servedUpTo(m) >= h,
		m.state == stateCatchUp && m.cursor >= h:
		m.out.sendOrdered(frame)
	default:
		m.await(h, frame)
		m.proceed()
	}
}

// Urgent sends a frame at the next frame boundary. frame is shared from now on.
// It returns false when the peer owes too much, which ends it.
func (m *Member) Urgent(frame []byte) bool {
	if m.overHard() || m.out.dead {
		return false
	}
	m.out.SendUrgent(frame)
	return true
}

// proceed puts the member where it will be worked on next. It is called
// whenever its state may allow more.
func (m *Member) proceed() {
	switch m.state {
	case stateLive:
		served := m.set.servedUpTo(m)
		m.sendReplies(served)
		switch {
		case m.finishing() && served >= m.finishAt:
			m.finished()
		case m.replies.count() > 0 || m.finishing():
			m.park()
		}
	case stateCatchUp:
		if !m.behind() && !m.queued && !m.parked {
			m.queued = true
			m.set.ready = append(m.set.ready, m)
			m.set.lp.Ring()
		}
	}
}

// park waits for the end of the next pass.
func (m *Member) park() {
	if !m.parked {
		m.parked = true
		m.set.waiting = append(m.set.waiting, m)
	}
}

// sendReplies sends the replies whose barrier is not after p.
func (m *Member) sendReplies(p stream.Pos) {
	for m.replies.count() > 0 && m.replies.list[0].barrier <= p {
		m.sendReply()
	}
}

func (m *Member) sendReply() {
	q := m.replies
	frame := q.list[0].frame
	q.list[0] = reply{}
	q.bytes -= int64(len(frame))
	if q.list = q.list[1:]; len(q.list) == 0 {
		m.replies = nil
	}
	m.out.sendOrdered(frame)
}

// Close ends the member: it is gone from its group at once, and so is the
// memory of what it was owed. The output is not touched. Closing twice is
// closing once.
func (m *Member) Close() {
	if m.lag != nil {
		m.lag.queue.clear()
	}
	m.StopLive()
	m.replies, m.lag, m.left, m.base, m.filling = nil, nil, nil, nil, nil
}

// StopLive ends replay and live delivery: what is queued stays owed, nothing is
// added (R461, R462).
func (m *Member) StopLive() { m.detach(nil) }

// Finish ends replay and live delivery once the member was served everything
// that is in the log now, so that nothing which was acknowledged before is
// lost to it (R461, R462), and then calls Owner.Finished. A replay that is not
// done is not waited for.
func (m *Member) Finish() {
	if m.finishing() {
		return
	}
	m.finishAt = m.set.log.Next()
	if m.state == stateLive || m.state == stateCatchUp && !m.replays && m.tasks == nil {
		m.proceed()
		return
	}
	m.finished()
}

// finishing tells whether Finish was called. Positions count from 1.
func (m *Member) finishing() bool { return m.finishAt != 0 }

// finished ends a finishing member.
func (m *Member) finished() {
	m.detach(nil)
	m.owner.Finished()
}

// detach takes the member out of everything but its output and queue. undo are
// records that its group counts as served and that it will not get.
func (m *Member) detach(undo []Record) {
	if m.state == stateEnded {
		return
	}
	if m.state == stateLive {
		m.leaveGroup(undo)
	}
	m.state = stateEnded
	delete(m.set.catching, m)
	// What was answered is not taken back. What waits behind the queue leaves
	// when that is empty, see upToDate.
	if m.records() == 0 {
		m.sendReplies(never)
	}
	m.tasks, m.replays = nil, false
	m.set.members--
	m.set.deactivate()
}

// cut ends m for reason c and tells its owner.
func (s *Set) cut(m *Member, c Cut) { s.cutUndo(m, c, nil) }

func (s *Set) cutUndo(m *Member, c Cut, undo []Record) {
	if m.state == stateEnded {
		return
	}
	s.stats.Cut++
	if m.replies != nil {
		m.replies.list = nil // they answer for events that will not come
	}
	m.detach(undo)
	s.lp.Contain(func() { m.owner.Cut(c) })
	m.replies, m.lag = nil, nil
}

// leaveGroup takes a live member out of its group; its positions become its
// own. undo are records of the pass under way that it will not get.
func (m *Member) leaveGroup(undo []Record) {
	if undo == nil {
		undo = m.unserved()
	}
	l := &left{subs: m.subs}
	if m.group.track {
		l.before = m.base
		m.foldPositions(undo)
	}
	m.left = l
	m.set.leave(m)
}

// unserved returns the records of the pass under way that its group counts and
// that this member has not got yet.
func (m *Member) unserved() []Record {
	if b := m.group.batch; b != nil && (m.set.pass.to == 0 || m.set.servedUpTo(m) < m.set.pass.to) {
		return b.recs
	}
	return nil
}
