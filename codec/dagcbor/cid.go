package dagcbor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
)

// Content codecs of a CID that the stream uses (F12).
const (
	CodecRaw     = 0x55
	CodecDAGCBOR = 0x71
)

// Hash functions by their multihash code, of those whose digests have one
// length.
const hashSHA256 = 0x12

var digestLen = map[uint64]uint64{0x11: 20, hashSHA256: 32, 0x13: 64, 0x14: 64, 0x15: 48, 0x16: 32, 0x17: 28, 0x1b: 32, 0x20: 48, 0xb220: 32}

const (
	hashIdentity = 0x00
	maxDigest    = 128
	maxVarint    = 9 // bytes, by the multiformats' unsigned varint
)

// MaxCIDBytes is the length of the longest CID that is accepted: a version of one
// byte, codec, hash function, length of the digest, digest.
const MaxCIDBytes = 1 + maxVarint + maxVarint + 2 + maxDigest

// CID is a content identifier of version 1 in its binary form, without the 00
// that stands before it in a link. A nil CID is none.
type CID []byte

// ParseCID checks that b is exactly one CID. The result is b itself.
func ParseCID(b []byte) (CID, error) {
	n, err := cidLen(b)
	if err != nil {
		return nil, err
	}
	if n != len(b) {
		return nil, ErrCIDTrailing
	}
	return CID(b), nil
}

// CutCID takes the CID at the start of b. Both results point into b.
func CutCID(b []byte) (cid CID, rest []byte, err error) {
	n, err := cidLen(b)
	if err != nil {
		return nil, b, err
	}
	return CID(b[:n:n]), b[n:], nil
}

// ParseCIDText reads the text form: base32 in lower case, with the prefix b.
func ParseCIDText(text string) (CID, error) {
	if len(text) < 2 || text[0] != 'b' {
		return nil, ErrCIDText
	}
	b, err := cidText.DecodeString(text[1:])
	// The decoder skips line ends and does not look at the bits that are left
	// over in the last character, so the text is written again.
	if err != nil || cidText.EncodeToString(b) != text[1:] {
		return nil, ErrCIDText
	}
	return ParseCID(b)
}

// SHA256CID returns the CID of content under a codec below 0x80.
func SHA256CID(codec byte, content []byte) CID {
	digest := sha256.Sum256(content)
	return append(CID{1, codec, hashSHA256, sha256.Size}, digest[:]...)
}

// Codec returns the codec of the content, 0 for no CID.
func (c CID) Codec() uint64 {
	if len(c) == 0 {
		return 0
	}
	codec, _, _ := varint(c[1:])
	return codec
}

// Verify reports whether content hashes to a CID of SHA-256: nil, ErrCIDHash
// for another hash function, or ErrCIDMismatch.
func (c CID) Verify(content []byte) error {
	if len(c) == 0 {
		return ErrCIDTruncated
	}
	_, n, err := varint(c[1:])
	if err != nil {
		return err
	}
	hash := c[1+n:]
	if len(hash) != 2+sha256.Size || hash[0] != hashSHA256 || hash[1] != sha256.Size {
		return ErrCIDHash
	}
	if digest := sha256.Sum256(content); !bytes.Equal(digest[:], hash[2:]) {
		return ErrCIDMismatch
	}
	return nil
}

var cidText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// AppendText appends the text form: base32 in lower case, with the prefix b.
func (c CID) AppendText(dst []byte) []byte { return cidText.AppendEncode(append(dst, 'b'), c) }

// String returns the text form, "" for no CID.
func (c CID) String() string {
	if len(c) == 0 {
		return ""
	}
	return string(c.AppendText(nil))
}

// cidLen returns the length of the CID at the start of b: version, codec, hash
// function, length of the digest, digest.
func cidLen(b []byte) (int, error) {
	if len(b) > 4+sha256.Size-1 && b[0] == 1 && b[1] < 0x80 && b[2] == hashSHA256 && b[3] == sha256.Size {
		return 4 + sha256.Size, nil // nearly all
	}
	var numbers [4]uint64
	at := 0
	for i := range numbers {
		n, size, err := varint(b[at:])
		if err != nil {
			return 0, err
		}
		if numbers[i] = n; i == 0 && n != 1 {
			return 0, ErrCIDVersion
		}
		at += size
	}
	hash, size := numbers[2], numbers[3]
	want, known := digestLen[hash]
	if known && size != want || size > maxDigest || size == 0 && hash != hashIdentity {
		return 0, ErrCIDDigest
	}
	if size > uint64(len(b)-at) {
		return 0, ErrCIDTruncated
	}
	return at + int(size), nil
}

// varint reads an unsigned varint in its shortest form.
func varint(b []byte) (n uint64, size int, err error) {
	for i := range min(len(b), maxVarint) {
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if b[i] == 0 && i > 0 {
				return 0, 0, ErrCIDVarint
			}
			return n, i + 1, nil
		}
	}
	if len(b) >= maxVarint {
		return 0, 0, ErrCIDVarint
	}
	return 0, 0, ErrCIDTruncated
}
