package synccrypt

import (
	"crypto/sha256"
	"sync"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// keepBytes is the size of a buffer that outlives one call.
const keepBytes = 64 << 10

// scratch is the memory of one call. Nothing that is returned shares it.
type scratch struct {
	canon canon
	names jsontext.NameSet
	text  []byte // canonical spellings, plain text
	aad   []byte
	bytes []byte // a decoded or sealed body
	nonce [nonceBytes]byte
	sum   [sha256.Size]byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch { return scratches.Get().(*scratch) }

// put gives the memory back, except for what one large call made it.
func (s *scratch) put() {
	for _, buffer := range []*[]byte{&s.text, &s.aad, &s.bytes, &s.canon.sorted} {
		if cap(*buffer) > keepBytes {
			*buffer = nil
		}
	}
	if cap(s.canon.members) > keepBytes/64 {
		s.canon.members = nil
	}
	s.names.Shrink()
	scratches.Put(s)
}
