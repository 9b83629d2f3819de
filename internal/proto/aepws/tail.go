package aepws

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// entry is an event of the log as the loops see it. It implements stream.Event.
// Immutable; any goroutine.
type entry struct {
	number     int64
	id         string
	text       []byte // the stored form
	attributes aepws.Attributes
	key        uint64 // hash of the id, for windows
	mode       aepws.Mode
	// stale events go to nobody: they had expired when they were stored (B61), or
	// their text cannot be read.
	stale   bool
	expires int64 // in milliseconds since 1970, 0 for never
}

// idSeed keeps publishers from choosing ids whose hashes meet.
var idSeed = maphash.MakeSeed()

// keyOf returns the hash of an event's id.
func keyOf[T string | []byte](id T) uint64 { return maphash.String(idSeed, string(id)) }

// newEntry returns the entry of a stored event, whose text it shares. An event
// whose text is damaged is stale.
func newEntry(s *aepws.Scanner, e *eventlog.Stored) *entry {
	attributes, err := s.ReadStored(e.Text, e.Tenant)
	n := &entry{
		number: e.Seq, id: e.ID, text: e.Text, attributes: attributes,
		key: keyOf(e.ID), mode: aepws.Mode(e.Mode), stale: err != nil,
	}
	if !e.ExpiresAt.IsZero() {
		n.expires = e.ExpiresAt.UnixMilli()
		n.stale = n.stale || n.expires <= e.StoredAt.UnixMilli()
	}
	return n
}

// expired tells whether the event must not be delivered any more at now (B61).
func (e *entry) expired(now time.Time) bool {
	return e.expires != 0 && e.expires <= now.UnixMilli()
}

// AppendKeys implements stream.Event.
func (e *entry) AppendKeys(dst []uint64) []uint64 { return e.attributes.AppendKeys(dst) }

// Resolve implements stream.Event: there is one form, which the log keeps.
func (e *entry) Resolve(stream.Form) (form, base stream.Form) { return 0, 0 }

// AppendFrame implements stream.Event.
func (e *entry) AppendFrame(dst []byte, _ stream.Form, _ []byte) []byte {
	return append(dst, e.text...)
}

// entryBytes is what an entry takes beside its text and id.
const entryBytes = 320

// tail is the newest events of the log in memory, by their numbers, which are
// dense (eventlog E2). One goroutine appends; everything else may be called by
// any goroutine and takes no lock.
type tail struct {
	// Immutable after construction.
	entries int
	bytes   int64

	scanner aepws.Scanner // owned by the goroutine that appends
	run     atomic.Pointer[tailRun]
}

// tailRun is a run of numbers without a gap. The number of an entry is its
// position and base.
type tailRun struct {
	log  *stream.Log
	base int64
}

// newTail returns the empty tail behind the number newest, for about so many
// entries and bytes.
func newTail(newest int64, entries int, bytes int64) *tail {
	t := &tail{entries: entries, bytes: bytes}
	t.begin(newest)
	return t
}

// begin starts a run behind the number newest.
func (t *tail) begin(newest int64) {
	t.run.Store(&tailRun{log: stream.NewLog(t.entries, t.bytes), base: newest})
}

// append takes the events of a commit. Should their numbers not follow, which the
// log rules out, the tail starts anew there: the loops then read from the log
// what is missing.
func (t *tail) append(batch []eventlog.Stored) {
	for i := range batch {
		switch next := t.next(); {
		case batch[i].Seq < next:
			continue
		case batch[i].Seq > next:
			t.begin(batch[i].Seq - 1)
		}
		e := stream.NewEntry(newEntry(&t.scanner, &batch[i]), nil)
		e.SizeBytes = int32(len(batch[i].Text) + len(batch[i].ID) + entryBytes)
		t.run.Load().log.Append(e)
	}
}

// next returns the number that the next event gets.
func (t *tail) next() int64 {
	r := t.run.Load()
	return r.base + int64(r.log.Next())
}

// oldest returns the lowest number held; next when none is.
func (t *tail) oldest() int64 {
	r := t.run.Load()
	return r.base + int64(r.log.Oldest())
}

// at returns the event with a number below next, nil when it is not held.
func (t *tail) at(number int64) *entry {
	r := t.run.Load()
	if number <= r.base {
		return nil
	}
	e, err := r.log.At(stream.Pos(number - r.base))
	if err != nil {
		return nil
	}
	n, _ := e.Event.(*entry)
	return n
}
