package synccrypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"sync"
)

// base64url is the one spelling of bytes in this protocol: no padding, and no
// bits that say nothing. It skips line breaks: callers look for them.
var base64url = base64.RawURLEncoding.Strict()

// salt is D2's, for both forms of credential.
const salt = "sbt-local-first-v1"

// keys is what a credential derives to (D2, D3).
type keys struct {
	ownerID, relayAuth string
	data, stream       []byte // 32 bytes each
}

// nativeKeys derives by D2 from the 32 bytes of a native key. Locked: D4.
func nativeKeys(secret []byte) keys {
	return keys{
		ownerID:   base64url.EncodeToString(expand(secret, salt, "owner-id", 16)),
		relayAuth: base64url.EncodeToString(expand(secret, salt, "relay-auth", 32)),
		data:      expand(secret, salt, "data-key", 32),
		stream:    expand(secret, salt, "stream-key", 32),
	}
}

// phraseKeys derives by D3 from the entropy of a phrase, not from the seed that
// wallets make of it. Locked: D4.
func phraseKeys(entropy []byte) keys {
	product := masterNode(entropy).child("SimplySync")
	data := product.child("OwnerEncryptionKey").key()
	return keys{
		ownerID:   base64url.EncodeToString(product.child("OwnerIdBytes").key()[:16]),
		relayAuth: base64url.EncodeToString(product.child("OwnerWriteKey").key()[:16]),
		data:      data,
		stream:    expand(data, salt, "stream-key", 32),
	}
}

// expand is HKDF-SHA256 (RFC 5869), both of its steps. n is at most 255*32,
// beyond which there is no such key.
func expand(secret []byte, salt, info string, n int) []byte {
	key, err := hkdf.Key(sha256.New, secret, []byte(salt), info, n)
	if err != nil {
		panic(err) // a length of ours, not an input
	}
	return key
}

// node is a node of SLIP-21: 32 bytes that derive children, 32 bytes of key.
type node [sha512.Size]byte

func masterNode(seed []byte) node {
	return nodeOf([]byte("Symmetric key seed"), seed)
}

func (n node) child(label string) node {
	return nodeOf(n[:32], append([]byte{0}, label...))
}

func (n node) key() []byte { return n[32:] }

func nodeOf(key, text []byte) (n node) {
	mac := hmac.New(sha512.New, key)
	mac.Write(text)
	mac.Sum(n[:0])
	return n
}

// Identity is an owner with its keys (D1). It is made by ParseCredential, is
// immutable, and may be used by any goroutine, by many at once. It prints as
// its owner's id. It is not copied.
type Identity struct {
	OwnerID   string // 22 base64url characters; public
	RelayAuth string // the bearer token at every relay; secret

	aead    cipher.AEAD
	streams sync.Pool // of hash.Hash keyed with streamKey
}

func newIdentity(k keys) *Identity {
	block, err := aes.NewCipher(k.data)
	if err != nil {
		panic(err) // a length of ours, not an input
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	id := &Identity{OwnerID: k.ownerID, RelayAuth: k.relayAuth, aead: aead}
	id.streams.New = func() any { return hmac.New(sha256.New, k.stream) }
	return id
}

// StreamID returns the pseudonym of a row that relays compact by, 22 base64url
// characters (D13). Names that are valid have one each.
func (id *Identity) StreamID(table, row string) string {
	s := getScratch()
	defer s.put()
	var sum [streamIDChars]byte
	s.aad = id.appendStreamID(s.aad[:0], table, row, s)
	return string(append(sum[:0], s.aad...))
}

const streamIDChars = 22

// appendStreamID is StreamID; it uses s.text and s.sum.
func (id *Identity) appendStreamID(dst []byte, table, row string, s *scratch) []byte {
	s.text = append(s.text[:0], '[')
	s.text = appendString(s.text, table)
	s.text = append(s.text, ',')
	s.text = appendString(s.text, row)
	s.text = append(s.text, ']')
	mac := id.streams.Get().(hash.Hash)
	mac.Reset()
	mac.Write(s.text)
	sum := mac.Sum(s.sum[:0])
	id.streams.Put(mac)
	return base64url.AppendEncode(dst, sum[:16])
}

// String returns the owner's id, so that a log or an error with an Identity in
// it holds no secret (K2).
func (id *Identity) String() string { return id.OwnerID }

// GoString is String.
func (id *Identity) GoString() string { return fmt.Sprintf("synccrypt.Identity(%s)", id.OwnerID) }

// MarshalText is String: JSON and structured logs of an Identity hold no
// secret.
func (id *Identity) MarshalText() ([]byte, error) { return []byte(id.OwnerID), nil }
