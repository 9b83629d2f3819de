package faults

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// The text of a sealed event: members before the session are constant, and the
// seal is the last member of data.
const (
	sealHead  = `{"aep":"0.1","type":"progress.status","time":"2026-07-03T10:00:00Z","source":"aep://test/faults","agent":"faults","session":"`
	sealSeq   = `","seq":`
	sealID    = `,"id":"`
	sealLevel = `","severity":"`
	sealStamp = `","data":{"t":`
	sealPad   = `,"pad":"`
	sealSum   = `","sum":"`
	sealEnd   = `"}}`
	sealTail  = len(sealSum) + 2*sha256.Size + len(sealEnd)
)

// ErrSeal tells that a text is not one that Seal has made.
var ErrSeal = errors.New("faults: event was altered")

// padding is what paddings are cut from. A text that was mixed up with another
// one must not have the same octets in the same place.
var padding = func() []byte {
	var key [32]byte
	raw := make([]byte, 768<<10)
	_, _ = rand.NewChaCha8(key).Read(raw) // never fails
	return base64.RawURLEncoding.AppendEncode(nil, raw)
}()

// MaxPad is the largest padding of a sealed event, in bytes.
const MaxPad = 512 << 10

// Event is what Unseal reads from a text.
type Event struct {
	Session  []byte // borrowed from the text
	Seq      uint64
	Severity []byte // borrowed from the text
	Stamp    int64  // as given to Seal
}

// Sealing describes an event to seal. Session and Severity hold only letters,
// digits, dots and hyphens.
type Sealing struct {
	Session  string
	Seq      uint64
	Severity string
	Stamp    int64 // anything, such as the time in ns
	PadBytes int   // at most MaxPad
}

// Seal appends the text of an event to dst: a valid ordinary event on one line,
// whose id is the session and sequence, and which ends with the SHA-256 of all
// its text before the sum.
func Seal(dst []byte, s Sealing) []byte {
	begin := len(dst)
	dst = append(dst, sealHead...)
	dst = append(dst, s.Session...)
	dst = append(dst, sealSeq...)
	dst = strconv.AppendUint(dst, s.Seq, 10)
	dst = append(dst, sealID...)
	dst = append(dst, s.Session...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, s.Seq, 10)
	dst = append(dst, sealLevel...)
	dst = append(dst, s.Severity...)
	dst = append(dst, sealStamp...)
	dst = strconv.AppendInt(dst, s.Stamp, 10)
	dst = append(dst, sealPad...)
	off := s.Seq
	for _, c := range []byte(s.Session) {
		off = off*131 + uint64(c)
	}
	off = off * 7919 % uint64(len(padding)-MaxPad)
	dst = append(dst, padding[off:off+uint64(min(s.PadBytes, MaxPad))]...)
	sum := sha256.Sum256(dst[begin:])
	dst = append(dst, sealSum...)
	dst = hex.AppendEncode(dst, sum[:])
	return append(dst, sealEnd...)
}

// Unseal checks every octet of a text that Seal has made and returns what it
// says. text is borrowed.
func Unseal(text []byte) (Event, error) {
	if len(text) < len(sealHead)+sealTail {
		return Event{}, broken(text)
	}
	body, tail := text[:len(text)-sealTail], text[len(text)-sealTail:]
	sum := sha256.Sum256(body)
	var want [2 * sha256.Size]byte
	hex.Encode(want[:], sum[:])
	if string(tail[:len(sealSum)]) != sealSum || string(tail[len(tail)-len(sealEnd):]) != sealEnd ||
		!bytes.Equal(tail[len(sealSum):len(tail)-len(sealEnd)], want[:]) {
		return Event{}, broken(text)
	}
	rest, ok := bytes.CutPrefix(body, []byte(sealHead))
	session, rest, ok1 := bytes.Cut(rest, []byte(sealSeq))
	seqText, rest, ok2 := bytes.Cut(rest, []byte(sealID))
	_, rest, ok3 := bytes.Cut(rest, []byte(sealLevel))
	severity, rest, ok4 := bytes.Cut(rest, []byte(sealStamp))
	stampText, _, ok5 := bytes.Cut(rest, []byte(sealPad))
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return Event{}, broken(text)
	}
	seq, err := strconv.ParseUint(string(seqText), 10, 64)
	stamp, err2 := strconv.ParseInt(string(stampText), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return Event{}, fmt.Errorf("%w: %w", broken(text), err)
	}
	return Event{Session: session, Seq: seq, Severity: severity, Stamp: stamp}, nil
}

func broken(text []byte) error {
	return fmt.Errorf("%w: %d bytes: %.240q", ErrSeal, len(text), text)
}
