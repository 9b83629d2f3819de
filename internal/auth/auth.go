package auth

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync/atomic"
)

// bearerPrefix is the scheme of RFC 6750 with its one space. The scheme is
// matched without regard to case, the space exactly (R43).
const bearerPrefix = "bearer "

// queryStackBytes is the length up to which a query value is hashed from the
// stack; a string cannot be handed to the hash without a copy.
const queryStackBytes = 512

// ErrNoToken is returned by [Auth.Set] for a set that would turn
// authentication off.
var ErrNoToken = errors.New("no token: a running relay does not give up its authentication")

// Auth compares presented tokens with the valid ones, of which there may be
// several at once, so that a token can be rotated. The zero value has none
// and allows everything. Any goroutine; not to be copied.
type Auth struct {
	// atomic
	valid atomic.Pointer[digests] // nil without a token
}

// digest is the SHA-256 of a token in four words: comparing words takes 2 to
// 3 ns a token, subtle.ConstantTimeCompare 35 ns, which a thousand tokens
// would make the most expensive part of a request.
type digest [sha256.Size / 8]uint64

// digests has the digest of each valid token; the tokens are not kept.
// Immutable.
type digests []digest

// New returns the check for the tokens. Empty ones do not count, and none at
// all means no authentication (R40): the result allows every request.
func New(tokens ...string) *Auth {
	a := &Auth{}
	if set := digestAll(tokens); len(set) > 0 {
		a.valid.Store(&set)
	}
	return a
}

// Set replaces the valid tokens, all of them at once: a request sees the old
// set or the new one. Empty tokens do not count. An Auth that has tokens
// refuses a set without one with ErrNoToken and keeps what it has. tokens is
// borrowed until return.
func (a *Auth) Set(tokens []string) error {
	set := digestAll(tokens)
	if len(set) > 0 {
		a.valid.Store(&set)
		return nil
	}
	// Nothing is stored here, so that no order of concurrent calls can end
	// without a token.
	if a.Enabled() {
		return ErrNoToken
	}
	return nil
}

// digestAll returns the digests of the tokens that are not empty.
func digestAll(tokens []string) digests {
	var set digests
	for _, token := range tokens {
		if token != "" {
			set = append(set, digestOf([]byte(token)))
		}
	}
	return set
}

func digestOf(token []byte) (d digest) {
	sum := sha256.Sum256(token)
	for i := range d {
		d[i] = binary.NativeEndian.Uint64(sum[8*i:])
	}
	return d
}

// Enabled reports whether there is a token. Once true it stays so.
func (a *Auth) Enabled() bool { return a.valid.Load() != nil }

// Allow reports whether a request may pass (R40). authorization is the value
// of the Authorization header without surrounding white space, nil when
// there is none; query is the decoded first access_token parameter, "" when
// there is none or it is empty (R34). Either may match: a wrong header with
// a right query passes.
//
// Both are compared as SHA-256 digests in constant time with every valid
// token, so that the time taken depends on what the caller sent and on how
// many tokens there are, but not on which of them matches, on a token or on
// its length (R42). authorization is borrowed until return. Does not
// allocate, unless the query value is longer than any sensible token.
func (a *Auth) Allow(authorization []byte, query string) bool {
	valid := a.valid.Load()
	if valid == nil {
		return true
	}
	var ok uint64
	if presented, found := bearerToken(authorization); found {
		ok |= valid.match(digestOf(presented))
	}
	if query != "" {
		var buf [queryStackBytes]byte
		ok |= valid.match(digestOf(append(buf[:0], query...)))
	}
	return ok == 1
}

// match returns 1 if a digest is that of a valid token, 0 if not. It looks at
// all of them, also after a match, and never branches on one.
func (d digests) match(presented digest) (ok uint64) {
	for i := range d {
		differing := (presented[0] ^ d[i][0]) | (presented[1] ^ d[i][1]) |
			(presented[2] ^ d[i][2]) | (presented[3] ^ d[i][3])
		// The top bit of x|-x is set for every x but 0.
		ok |= 1 ^ (differing|-differing)>>63
	}
	return ok
}

// bearerToken returns what follows "Bearer " in an Authorization value. A
// second space belongs to the token and so does not match (R43).
func bearerToken(authorization []byte) ([]byte, bool) {
	if len(authorization) <= len(bearerPrefix) ||
		!equalFold(authorization[:len(bearerPrefix)], bearerPrefix) {
		return nil, false
	}
	return authorization[len(bearerPrefix):], true
}
