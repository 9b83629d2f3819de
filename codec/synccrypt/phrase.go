package synccrypt

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"sync"

	"github.com/tyler-smith/go-bip39/wordlists"
)

// A phrase is a string of bits in words of 11: the entropy, then its checksum,
// one bit for each 32 of entropy (BIP39).
const wordBits = 11

// wordIndex has the 2,048 English words, and the number of each.
var wordIndex = sync.OnceValue(func() map[string]int {
	index := make(map[string]int, len(wordlists.English))
	for i, word := range wordlists.English {
		index[word] = i
	}
	return index
})

func validWordCount(n int) bool { return n >= 12 && n <= 24 && n%3 == 0 }

func wordCountError(n int) error {
	return &CredentialError{Reason: fmt.Sprintf("a phrase has 12, 15, 18, 21 or 24 words, this one %d", n)}
}

// phraseEntropy checks a phrase of normal spelling, and returns what it
// encodes.
func phraseEntropy(words []string) ([]byte, error) {
	if !validWordCount(len(words)) {
		return nil, wordCountError(len(words))
	}
	var bits [(24*wordBits + 7) / 8]byte
	for i, word := range words {
		number, ok := wordIndex()[word]
		if !ok {
			return nil, &CredentialError{Word: i + 1, Reason: "is not in the English word list"}
		}
		for b := range wordBits {
			at := i*wordBits + b
			bits[at/8] |= byte(number>>(wordBits-1-b)&1) << (7 - at%8)
		}
	}
	entropy := bits[:len(words)/3*4]
	if subtle.ConstantTimeByteEq(checksum(entropy), bits[len(entropy)]) == 0 {
		return nil, &CredentialError{Reason: "the words' checksum is wrong: a word is mistyped, or they are out of order"}
	}
	return entropy, nil
}

// checksum returns the bits that follow the entropy, 4 to 8, in the high bits.
func checksum(entropy []byte) byte {
	return sha256.Sum256(entropy)[0] &^ (0xFF >> (len(entropy) / 4))
}

// phraseOf spells entropy of 16, 20, 24, 28 or 32 bytes in words.
func phraseOf(entropy []byte) string {
	bits := append(entropy[:len(entropy):len(entropy)], checksum(entropy))
	words := make([]string, len(entropy)/4*3)
	for i := range words {
		number := 0
		for b := range wordBits {
			at := i*wordBits + b
			number = number<<1 | int(bits[at/8]>>(7-at%8)&1)
		}
		words[i] = wordlists.English[number]
	}
	return strings.Join(words, " ")
}
