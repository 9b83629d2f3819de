package aep

import "hash/maphash"

// core is one of the seventeen core attributes of the envelope.
type core uint8

// Strings that events keep come first, then the epoch, whose spelling they
// keep; the rest is checked at admission and kept otherwise or not at all.
const (
	coreID core = iota
	coreType
	coreSubject
	coreSource
	coreAgent
	coreSession
	coreRun
	coreStep
	coreCause
	coreEpoch
	coreSeq
	coreSeverity
	coreCapture
	coreAEP
	coreTime
	coreTraceparent
	coreData
	coreNone // an extension attribute

	coreSpans = int(coreEpoch) + 1
)

var coreNames = [coreNone]string{
	"id", "type", "subject", "source", "agent", "session", "run", "step",
	"cause", "epoch", "seq", "severity", "capture", "aep", "time",
	"traceparent", "data",
}

// coreOf returns the core attribute of that name, or coreNone. The compiler
// makes a search by length and value of it, without a hash.
func coreOf(name string) core {
	switch name {
	case "id":
		return coreID
	case "type":
		return coreType
	case "subject":
		return coreSubject
	case "source":
		return coreSource
	case "agent":
		return coreAgent
	case "session":
		return coreSession
	case "run":
		return coreRun
	case "step":
		return coreStep
	case "cause":
		return coreCause
	case "epoch":
		return coreEpoch
	case "seq":
		return coreSeq
	case "severity":
		return coreSeverity
	case "capture":
		return coreCapture
	case "aep":
		return coreAEP
	case "time":
		return coreTime
	case "traceparent":
		return coreTraceparent
	case "data":
		return coreData
	}
	return coreNone
}

// fewAttrs is how many extension attributes are compared one by one. More of
// them get an index, so that neither the check for duplicates (R114) nor a
// lookup is slow for an event with 100,000 members.
const fewAttrs = 16

// hashSeed is drawn at start, so that nobody can prepare names that collide.
var hashSeed = maphash.MakeSeed()

func hashName(name string) uint64 { return maphash.String(hashSeed, name) }

// nameIndex is a hash table with open addressing from names to numbers of
// attributes. At most half of the slots are used.
type nameIndex struct {
	slots []uint32 // number + 1, or 0 for a free slot; a power of two of them
}

func newNameIndex(capacity int) *nameIndex {
	size := 4 * fewAttrs
	for size < 2*capacity {
		size *= 2
	}
	return &nameIndex{slots: make([]uint32, size)}
}

// find returns the number under hash for which same holds. same must not keep
// anything.
func (x *nameIndex) find(hash uint64, same func(i int) bool) (int, bool) {
	mask := uint64(len(x.slots) - 1)
	for at := hash & mask; x.slots[at] != 0; at = (at + 1) & mask {
		if i := int(x.slots[at] - 1); same(i) {
			return i, true
		}
	}
	return 0, false
}

// insert adds a number that is not there yet.
func (x *nameIndex) insert(hash uint64, i int) {
	mask := uint64(len(x.slots) - 1)
	at := hash & mask
	for x.slots[at] != 0 {
		at = (at + 1) & mask
	}
	x.slots[at] = uint32(i + 1)
}
