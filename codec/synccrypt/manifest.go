package synccrypt

import (
	"fmt"
	"strconv"
	"time"
)

const (
	manifestVersion = 1
	maxMimeBytes    = 255
	maxOwnerChars   = 128
	maxTimeChars    = 64
)

// Chunk is one chunk of a blob, as its manifest lists it (D51).
type Chunk struct {
	Hash          string // of the sealed bytes: their name at relays
	Size          int64  // sealed: PlaintextSize + SealedExtra
	PlaintextSize int64
}

// Manifest says how a blob is put together. It travels as the row of table
// BlobTable whose id is BlobID (D51).
type Manifest struct {
	Version   int    // 1
	OwnerID   string // whose key sealed the chunks; part of each seal
	BlobID    string // the row's id
	MimeType  string // up to 255 printable ASCII characters, "" when not known
	ByteSize  int64  // of the plain text
	ChunkSize int64  // plain text of each chunk but the last, up to ChunkBytes
	Chunks    []Chunk
	SHA256    string // of the plain text, spelled as HashText does
	CreatedAt string // RFC 3339
}

// Append appends the manifest as canonical JSON. ErrManifest: what
// DecodeManifest would not take. Room for MaxChunks chunks is in a row.
func (m *Manifest) Append(dst []byte) ([]byte, error) {
	if err := m.check(); err != nil {
		return dst, fmt.Errorf("synccrypt: %w", err)
	}
	out := append(dst, `{"blobId":`...)
	out = appendString(out, m.BlobID)
	out = append(out, `,"byteSize":`...)
	out = strconv.AppendInt(out, m.ByteSize, 10)
	out = append(out, `,"chunkSize":`...)
	out = strconv.AppendInt(out, m.ChunkSize, 10)
	out = append(out, `,"chunks":[`...)
	for i := range m.Chunks {
		if i > 0 {
			out = append(out, ',')
		}
		out = m.Chunks[i].append(out)
	}
	out = append(out, `],"createdAt":`...)
	out = appendString(out, m.CreatedAt)
	out = append(out, `,"mimeType":`...)
	out = appendString(out, m.MimeType)
	out = append(out, `,"ownerId":`...)
	out = appendString(out, m.OwnerID)
	out = append(out, `,"sha256":`...)
	out = appendString(out, m.SHA256)
	return append(out, `,"version":1}`...), nil
}

func (c *Chunk) append(dst []byte) []byte {
	dst = append(dst, `{"hash":"`...)
	dst = append(dst, c.Hash...)
	dst = append(dst, `","plaintextSize":`...)
	dst = strconv.AppendInt(dst, c.PlaintextSize, 10)
	dst = append(dst, `,"size":`...)
	dst = strconv.AppendInt(dst, c.Size, 10)
	return append(dst, '}')
}

// DecodeManifest reads a row of table BlobTable, and checks that its numbers
// fit each other (D51, D52): what it returns can be fetched in bounded memory.
// It borrows row. Whether BlobID is the row's id, and OwnerID the owner's, is
// the caller's to compare. ErrUnknown: another version. ErrManifest: anything
// else.
func DecodeManifest(row []byte) (Manifest, error) {
	s := getScratch()
	defer s.put()
	m, err := s.decodeManifest(row)
	if err != nil {
		return Manifest{}, fmt.Errorf("synccrypt: %w", err)
	}
	return m, nil
}

func (s *scratch) decodeManifest(row []byte) (m Manifest, err error) {
	if s.text, err = s.canon.canonical(s.text[:0], row, maxDepth); err != nil {
		return m, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if s.text[0] != '{' {
		return m, fmt.Errorf("%w: no object", ErrManifest)
	}
	var version int64
	var chunks []byte
	err = eachMember(s.text, func(name, value []byte) error {
		ok := true
		switch string(name) {
		case "version":
			version, ok = integer(value)
		case "ownerId":
			m.OwnerID, ok = text(value)
		case "blobId":
			m.BlobID, ok = text(value)
		case "mimeType":
			m.MimeType, ok = text(value)
		case "byteSize":
			m.ByteSize, ok = integer(value)
		case "chunkSize":
			m.ChunkSize, ok = integer(value)
		case "chunks":
			chunks, ok = value, value[0] == '['
		case "sha256":
			m.SHA256, ok = text(value)
		case "createdAt":
			m.CreatedAt, ok = text(value)
		}
		if !ok {
			return fmt.Errorf("%w: %s is of another type", ErrManifest, name)
		}
		return nil
	})
	switch {
	case err != nil:
		return m, err
	case version > manifestVersion:
		return m, fmt.Errorf("%w: manifest version %d", ErrUnknown, version)
	case version != manifestVersion:
		return m, fmt.Errorf("%w: no version", ErrManifest)
	case chunks == nil:
		return m, fmt.Errorf("%w: no chunks", ErrManifest)
	}
	m.Version = manifestVersion
	if m.Chunks, err = decodeChunks(chunks); err != nil {
		return m, err
	}
	return m, m.check()
}

func decodeChunks(list []byte) ([]Chunk, error) {
	var chunks []Chunk
	err := eachElement(list, func(value []byte) error {
		if len(chunks) == MaxChunks {
			return fmt.Errorf("%w: more than %d chunks", ErrManifest, MaxChunks)
		}
		if value[0] != '{' {
			return fmt.Errorf("%w: chunk %d is no object", ErrManifest, len(chunks))
		}
		var c Chunk
		err := eachMember(value, func(name, value []byte) error {
			ok := true
			switch string(name) {
			case "hash":
				c.Hash, ok = text(value)
			case "size":
				c.Size, ok = integer(value)
			case "plaintextSize":
				c.PlaintextSize, ok = integer(value)
			}
			if !ok {
				return fmt.Errorf("%w: %s of chunk %d is of another type", ErrManifest, name, len(chunks))
			}
			return nil
		})
		chunks = append(chunks, c)
		return err
	})
	return chunks, err
}

// check holds a manifest to D51, and its numbers to each other.
func (m *Manifest) check() error {
	wrong := ""
	switch {
	case m.Version != manifestVersion:
		wrong = "the version is not 1"
	case !printable(m.OwnerID, 1, maxOwnerChars):
		wrong = "the owner id is not 1 to 128 printable characters"
	case !ValidRowID(m.BlobID):
		wrong = "the blob id is no row id"
	case !printable(m.MimeType, 0, maxMimeBytes):
		wrong = "the MIME type is not 0 to 255 printable characters"
	case m.ChunkSize < 1 || m.ChunkSize > ChunkBytes:
		wrong = "the chunk size is not 1 to 262144"
	case len(m.Chunks) > MaxChunks:
		wrong = "more than 2048 chunks"
	case !validHash(m.SHA256):
		wrong = "sha256 is not 43 characters of base64url"
	case !validTime(m.CreatedAt):
		wrong = "createdAt is no time of RFC 3339"
	}
	if wrong != "" {
		return fmt.Errorf("%w: %s", ErrManifest, wrong)
	}
	return m.checkChunks()
}

func (m *Manifest) checkChunks() error {
	sum, last := int64(0), len(m.Chunks)-1
	for i, c := range m.Chunks {
		wrong := ""
		switch {
		case !validHash(c.Hash):
			wrong = "the hash is not 43 characters of base64url"
		case c.PlaintextSize < 0 || c.PlaintextSize > m.ChunkSize,
			i < last && c.PlaintextSize != m.ChunkSize,
			i > 0 && c.PlaintextSize == 0:
			wrong = "the plain text is not of the chunk size"
		case c.Size != c.PlaintextSize+SealedExtra:
			wrong = "the size is not that of its plain text and 28"
		}
		if wrong != "" {
			return fmt.Errorf("%w: chunk %d: %s", ErrManifest, i, wrong)
		}
		sum += c.PlaintextSize
	}
	if sum != m.ByteSize {
		return fmt.Errorf("%w: the chunks have %d bytes, the blob %d", ErrManifest, sum, m.ByteSize)
	}
	return nil
}

func printable(s string, least, most int) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func validTime(s string) bool {
	if len(s) > maxTimeChars {
		return false
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}
