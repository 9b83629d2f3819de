package fanout

import (
	"slices"

	"github.com/sluice-relay/sluice/engine/stream"
)

// Record is the match of one entry with one subscription of a group or of a
// member that catches up. It is shared by all who get the frame, and immutable
// after its pass was matched. The zero value stands for a frame that is no
// event.
type Record struct {
	entry *stream.Entry
	own   *Sub     // of a member that caught up; nil for a group's record
	n     uint64   // ordinal in its group: dense, so that equal runs are seen
	prev  position // what the same subscription got before of the same session
	size  uint32   // bytes of the frame
	sub   uint16   // index in the group's subscription list
}

func (r *Record) key() groupKeyPos { return groupKeyPos{r.entry.Session, r.sub} }

// position is the last entry of one session that one subscription got.
type position struct {
	seq stream.Sequence
	pos stream.Pos // 0: there is none
}

// groupKeyPos names a position of a group, whose members share subscription
// lists by index.
type groupKeyPos struct {
	session string
	sub     uint16
}

// memberKeyPos names a position of one member.
type memberKeyPos struct {
	session string
	sub     *Sub
}

// maxPositions is how many positions are told when a connection is cut: the
// most recent ones (R430).
const maxPositions = 1024

// positions remembers the last entry of each (subscription, session), for the
// most recent maxPositions at least and twice as many at most.
type positions[K comparable] map[K]position

// swap sets the position of k and returns the one before.
func (p *positions[K]) swap(k K, v position) position {
	if *p == nil {
		*p = make(positions[K])
	}
	old, ok := (*p)[k]
	(*p)[k] = v
	if !ok && len(*p) > 2*maxPositions {
		p.prune()
	}
	return old
}

// prune keeps the maxPositions most recent entries. Its cost is paid for by the
// maxPositions additions before it.
func (p positions[K]) prune() {
	all := make([]stream.Pos, 0, len(p))
	for _, v := range p {
		all = append(all, v.pos)
	}
	slices.Sort(all)
	floor := all[max(0, len(all)-maxPositions)]
	for k, v := range p {
		if v.pos < floor {
			delete(p, k)
		}
	}
}

// run is a stretch of records that a lagging member is owed.
type run struct {
	recs  []Record
	bytes int64
}

// runQueue is a FIFO of runs: references, never bytes.
type runQueue struct {
	runs  []run
	head  int
	bytes int64
	count int // records
}

func (q *runQueue) push(recs []Record, bytes int64) {
	if q.head > 32 && q.head*2 > len(q.runs) {
		n := copy(q.runs, q.runs[q.head:])
		clear(q.runs[n:])
		q.runs, q.head = q.runs[:n], 0
	}
	q.runs = append(q.runs, run{recs, bytes})
	q.bytes += bytes
	q.count += len(recs)
}

// first returns the record at the head of a queue that is not empty.
func (q *runQueue) first() *Record { return &q.runs[q.head].recs[0] }

// pop takes n records off, n at most the length of the head run.
func (q *runQueue) pop(n int) {
	r := &q.runs[q.head]
	for i := range r.recs[:n] {
		r.bytes -= int64(r.recs[i].size)
		q.bytes -= int64(r.recs[i].size)
	}
	q.count -= n
	if r.recs = r.recs[n:]; len(r.recs) == 0 {
		q.runs[q.head] = run{}
		if q.head++; q.head == len(q.runs) {
			q.runs, q.head = nil, 0
		}
	}
}

func (q *runQueue) clear() { *q = runQueue{} }

func (q *runQueue) each(f func(*Record)) {
	for i := q.head; i < len(q.runs); i++ {
		for j := range q.runs[i].recs {
			f(&q.runs[i].recs[j])
		}
	}
}
