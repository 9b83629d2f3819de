package syncwire

import (
	"crypto/sha256"
	"encoding/base64"
)

const (
	streamChars   = 22
	hashChars     = 43
	maxTokenChars = 512
)

// digits64 is the value of a base64url character, 0xFF for any other byte.
var digits64 = func() (values [256]byte) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range values {
		values[i] = 0xFF
	}
	for i := range len(alphabet) {
		values[alphabet[i]] = byte(i)
	}
	return values
}()

// Bearer returns the token of an Authorization field's value (S10): the scheme
// without case, spaces, and 1 to 512 visible ASCII characters. It borrows the
// value. A request with several such fields is for the caller to refuse.
func Bearer(value []byte) (token []byte, ok bool) {
	const scheme = "bearer"
	if len(value) <= len(scheme) || value[len(scheme)] != ' ' {
		return nil, false
	}
	for i := range len(scheme) {
		if value[i]|0x20 != scheme[i] {
			return nil, false
		}
	}
	token = value[len(scheme):]
	for len(token) > 0 && token[0] == ' ' {
		token = token[1:]
	}
	return token, isVisible(token, maxTokenChars)
}

// TokenHash returns the stored form of a token (S12): its SHA-256 in 43
// base64url characters.
func TokenHash(token []byte) string {
	return HashString(sha256.Sum256(token))
}

// HashString spells a SHA-256 as a blob's hash is spelled: 43 base64url
// characters, canonical (S45).
func HashString(sum [sha256.Size]byte) string {
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ValidHash reports whether text is the canonical spelling of a SHA-256: 43
// base64url characters, the last with its two spare bits zero (S45).
func ValidHash[T string | []byte](text T) bool {
	return len(text) == hashChars && isBase64URL(text) && digits64[text[hashChars-1]]&3 == 0
}

// ValidStreamID reports whether id may be compacted by its name: exactly 22
// base64url characters, spare bits as they like (S40).
func ValidStreamID[T string | []byte](id T) bool {
	return len(id) == streamChars && isBase64URL(id)
}

// ValidOwnerID reports whether id is 1 to 128 visible ASCII characters (S11).
func ValidOwnerID[T string | []byte](id T) bool { return isVisible(id, maxOwnerChars) }

func isBase64URL[T string | []byte](text T) bool {
	for i := range len(text) {
		if digits64[text[i]] == 0xFF {
			return false
		}
	}
	return true
}
