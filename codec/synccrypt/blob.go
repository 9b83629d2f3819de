package synccrypt

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
)

const (
	// ChunkBytes is the size of a chunk's plain text; the last of a blob may be
	// shorter (D50).
	ChunkBytes = 256 << 10
	// SealedExtra is what sealing adds to a chunk: nonce and tag.
	SealedExtra = nonceBytes + tagBytes
	// MaxChunks is how many chunks a blob may have, so that its manifest fits into
	// one row: 512 MiB.
	MaxChunks = 2048
)

// SealChunk encrypts chunk index, from 0, of a blob and appends nonce and
// ciphertext (D50): SealedExtra bytes more than plain, which it borrows and
// which does not overlap dst. random is read once, 12 bytes; nil for the
// system's source. ErrChunk: plain is longer than ChunkBytes, the blob id is no
// row id, or index is not below MaxChunks. Other errors are those of random.
func (id *Identity) SealChunk(dst, plain []byte, blob string, index int, random io.Reader) ([]byte, error) {
	if err := checkChunk(len(plain), blob, index); err != nil {
		return dst, err
	}
	s := getScratch()
	defer s.put()
	if err := readRandom(random, s.nonce[:]); err != nil {
		return dst, err
	}
	s.chunkData(id.OwnerID, blob, index)
	return id.aead.Seal(append(dst, s.nonce[:]...), s.nonce[:], plain, s.aad), nil
}

// OpenChunk checks and decrypts what SealChunk made and appends the plain text
// to dst, which does not overlap it. ErrChunk: the length or an argument is out
// of bounds. ErrTag: changed, or another chunk than the one that was asked for.
func (id *Identity) OpenChunk(dst, sealed []byte, blob string, index int) ([]byte, error) {
	if len(sealed) < SealedExtra {
		return dst, fmt.Errorf("synccrypt: chunk %d: %w: shorter than nonce and tag", index, ErrChunk)
	}
	if err := checkChunk(len(sealed)-SealedExtra, blob, index); err != nil {
		return dst, err
	}
	s := getScratch()
	defer s.put()
	s.chunkData(id.OwnerID, blob, index)
	plain, err := id.aead.Open(dst, sealed[:nonceBytes], sealed[nonceBytes:], s.aad)
	if err != nil {
		return dst, fmt.Errorf("synccrypt: chunk %d: %w", index, ErrTag)
	}
	return plain, nil
}

func checkChunk(size int, blob string, index int) error {
	switch {
	case size > ChunkBytes:
		return fmt.Errorf("synccrypt: chunk %d: %w: %d bytes of %d", index, ErrChunk, size, ChunkBytes)
	case index < 0 || index >= MaxChunks:
		return fmt.Errorf("synccrypt: chunk %d: %w: a blob has up to %d", index, ErrChunk, MaxChunks)
	case !ValidRowID(blob):
		return fmt.Errorf("synccrypt: chunk %d: %w: the blob id is no row id", index, ErrChunk)
	}
	return nil
}

// chunkData writes the additional data of D50 into s.aad.
func (s *scratch) chunkData(owner, blob string, index int) {
	aad := append(s.aad[:0], `{"blobId":`...)
	aad = appendString(aad, blob)
	aad = append(aad, `,"index":`...)
	aad = strconv.AppendInt(aad, int64(index), 10)
	aad = append(aad, `,"ownerId":`...)
	aad = appendString(aad, owner)
	s.aad = append(aad, `,"v":1}`...)
}

// ChunkHash returns the name of a sealed chunk at relays: base64url of its
// SHA-256, 43 characters (D50).
func ChunkHash(sealed []byte) string { return HashText(sha256.Sum256(sealed)) }

// HashText spells a SHA-256 as chunks and manifests do: base64url, 43
// characters.
func HashText(sum [sha256.Size]byte) string { return base64url.EncodeToString(sum[:]) }

const hashChars = 43

func validHash(s string) bool {
	var sum [sha256.Size]byte
	return len(s) == hashChars && decodeBytes(sum[:0], []byte(s))
}
