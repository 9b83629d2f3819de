package synccrypt

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/unicode/norm"
)

const (
	nativePrefix = "sf1_"
	nativeBytes  = 32
	nativeChars  = 43
	// maxCredentialBytes is far above 24 words with generous blanks.
	maxCredentialBytes = 4096
)

// CredentialError says what is wrong with a credential. It never holds the
// credential or a word of it (D5). It wraps ErrCredential.
type CredentialError struct {
	Reason string
	Word   int // position of the wrong word, from 1; 0: it is about the whole
}

func (e *CredentialError) Error() string {
	if e.Word > 0 {
		return fmt.Sprintf("synccrypt: %v: word %d %s", ErrCredential, e.Word, e.Reason)
	}
	return fmt.Sprintf("synccrypt: %v: %s", ErrCredential, e.Reason)
}

// Unwrap returns ErrCredential.
func (e *CredentialError) Unwrap() error { return ErrCredential }

// ParseCredential reads either form of credential: a native key of D2, or a
// phrase of D3, which may be in any case, in any Unicode spelling of its
// letters, and have blanks and line breaks of any kind and number (D5). The
// string is the credential's normal spelling, in which it is kept: a secret.
// The error is a *CredentialError.
func ParseCredential(text string) (*Identity, string, error) {
	if len(text) > maxCredentialBytes {
		return nil, "", &CredentialError{Reason: fmt.Sprintf("longer than %d bytes", maxCredentialBytes)}
	}
	text = norm.NFKD.String(strings.TrimPrefix(text, "\uFEFF"))
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, "", &CredentialError{Reason: "empty"}
	}
	if head := words[0]; len(head) >= len(nativePrefix) && strings.EqualFold(head[:len(nativePrefix)], nativePrefix) {
		return parseNative(words)
	}
	for i, word := range words {
		words[i] = strings.ToLower(word)
	}
	entropy, err := phraseEntropy(words)
	if err != nil {
		return nil, "", err
	}
	return newIdentity(phraseKeys(entropy)), strings.Join(words, " "), nil
}

func parseNative(words []string) (*Identity, string, error) {
	key := words[0]
	if len(words) > 1 {
		return nil, "", &CredentialError{Reason: "a native key has no blanks inside"}
	}
	if !strings.HasPrefix(key, nativePrefix) {
		return nil, "", &CredentialError{Reason: "a native key begins with " + nativePrefix + " in lower case"}
	}
	text := key[len(nativePrefix):]
	if len(text) != nativeChars {
		return nil, "", &CredentialError{Reason: fmt.Sprintf("a native key has %d characters after %s, this one %d", nativeChars, nativePrefix, len(text))}
	}
	secret, err := base64url.DecodeString(text)
	if err != nil || len(secret) != nativeBytes { // err quotes nothing, but tells where
		return nil, "", &CredentialError{Reason: "a native key is base64url without padding"}
	}
	return newIdentity(nativeKeys(secret)), key, nil
}

// NewPhrase returns a new phrase of 12, 15, 18, 21 or 24 words (D3) from
// random, nil for the system's source. A *CredentialError: another number of
// words. Other errors are those of random.
func NewPhrase(words int, random io.Reader) (string, error) {
	if !validWordCount(words) {
		return "", wordCountError(words)
	}
	entropy := make([]byte, words/3*4)
	if err := readRandom(random, entropy); err != nil {
		return "", err
	}
	return phraseOf(entropy), nil
}

// NewNativeKey returns a new native key (D2) from random, nil for the system's
// source. Errors are those of random.
func NewNativeKey(random io.Reader) (string, error) {
	var secret [nativeBytes]byte
	if err := readRandom(random, secret[:]); err != nil {
		return "", err
	}
	return nativePrefix + base64url.EncodeToString(secret[:]), nil
}

func readRandom(random io.Reader, p []byte) error {
	if random == nil {
		random = rand.Reader
	}
	if _, err := io.ReadFull(random, p); err != nil {
		return fmt.Errorf("synccrypt: random bytes: %w", err)
	}
	return nil
}
