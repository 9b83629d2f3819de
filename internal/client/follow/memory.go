package follow

import (
	"crypto/sha256"
	"encoding/binary"
)

// identityBytes is the length of an identity: long enough that no emitter can
// make two events look the same, so that one would hide the other.
const identityBytes = 16

// maxRecent is how many of the newest identities the state file keeps. An
// emitter that lost its connection sends its last events again, and they come
// live again (R190), maybe to a reader that was started in between.
const maxRecent = 4096

// identity stands for the pair (source, id) of an event.
type identity [identityBytes]byte

// identify returns the identity of a pair. buf is scratch.
func identify(buf []byte, source, id string) (identity, []byte) {
	buf = binary.AppendUvarint(buf[:0], uint64(len(source)))
	buf = append(append(buf, source...), id...)
	sum := sha256.Sum256(buf)
	return identity(sum[:identityBytes]), buf
}

// memory remembers the newest identities: at least limit of them, at most
// twice as many. What is met again counts as new.
type memory struct {
	limit      int
	young, old map[identity]struct{}

	recent []identity // a ring once it has grown to maxRecent
	next   int        // its oldest
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, young: map[identity]struct{}{}}
}

// has reports whether id is remembered.
func (m *memory) has(id identity) bool {
	if _, ok := m.young[id]; ok {
		return true
	}
	if _, ok := m.old[id]; !ok {
		return false
	}
	m.put(id)
	return true
}

// add remembers id, which is new.
func (m *memory) add(id identity) {
	m.put(id)
	if len(m.recent) < maxRecent {
		m.recent = append(m.recent, id)
		return
	}
	m.recent[m.next] = id
	m.next = (m.next + 1) % maxRecent
}

func (m *memory) put(id identity) {
	if len(m.young) >= m.limit {
		m.young, m.old = make(map[identity]struct{}, m.limit), m.young
	}
	m.young[id] = struct{}{}
}

// appendRecent appends the newest identities, oldest first.
func (m *memory) appendRecent(dst []byte) []byte {
	for i := range m.recent {
		id := m.recent[(m.next+i)%len(m.recent)]
		dst = append(dst, id[:]...)
	}
	return dst
}
