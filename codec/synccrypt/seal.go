package synccrypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// MaxEnvelopeBytes is the relay's default MAX_EVENT_BYTES: what any relay
// takes.
const MaxEnvelopeBytes = 262144

// Sizes of the longest envelope around a row, for MaxRowBytes. A row id of 256
// quotes is spelled with two bytes each.
const (
	ownerChars   = 22
	createdChars = len(createdForm)
	eventChars   = clockHead + maxDeviceBytes

	headBytes = len(`{"version":1,"ownerId":"","eventId":"","deviceId":"","createdAt":"","streamId":"","nonce":"","ciphertext":""}`) +
		ownerChars + eventChars + maxDeviceBytes + createdChars + streamIDChars + nonceChars
	rowlessBytes = len(`{"hlc":"","id":"","op":"upsert","row":,"schemaVersion":1,"table":""}`) +
		eventChars + 2*maxRowIDBytes + maxTableBytes
)

// MaxRowBytes is the size of the largest canonical row whose envelope fits into
// MaxEnvelopeBytes whatever its table, its id and its devices are.
const MaxRowBytes = (MaxEnvelopeBytes-headBytes)*3/4 - tagBytes - rowlessBytes

// createdForm is ISO 8601 in UTC with milliseconds, as Date.toISOString writes.
const createdForm = "2006-01-02T15:04:05.000Z"

// Seal encrypts a payload under a new nonce and appends the envelope's JSON
// (D10, D12, D13). device is who seals: another's event that is pushed anew
// keeps its event id and goes under the sealing device's id. created is cut to
// milliseconds. random is read once, 12 bytes; nil for the system's source. It
// borrows the payload.
//
// ErrPayload: the payload breaks D14. ErrHeader: the device id is none of
// D12's, or created is before year 0 or after 9999. ErrTooLarge: the envelope
// would exceed MaxEnvelopeBytes. Other errors are those of random.
func (id *Identity) Seal(dst []byte, p *Payload, device string, created time.Time, random io.Reader) ([]byte, error) {
	s := getScratch()
	defer s.put()
	out, err := id.seal(dst, s, p, device, created.UTC(), random)
	if err != nil {
		return dst, fmt.Errorf("synccrypt: seal: %w", err)
	}
	return out, nil
}

func (id *Identity) seal(dst []byte, s *scratch, p *Payload, device string, created time.Time, random io.Reader) ([]byte, error) {
	if !ValidDeviceID(device) {
		return dst, fmt.Errorf("%w: the device id is not 1 to 64 of a-z, 0-9 and -", ErrHeader)
	}
	if year := created.Year(); year < 0 || year > 9999 {
		return dst, fmt.Errorf("%w: the year has more than four digits", ErrHeader)
	}
	var err error
	if s.bytes, err = p.append(s.bytes[:0], &s.canon); err != nil {
		return dst, err
	}
	if err := readRandom(random, s.nonce[:]); err != nil {
		return dst, err
	}
	s.aad = id.appendStreamID(s.aad[:0], p.Table, p.ID, s)
	stream := [streamIDChars]byte(s.aad)
	// The header's strings need no escape: their spelling is their text in quotes.
	var h parts
	s.text = s.text[:0]
	h.owner = s.quote(id.OwnerID)
	h.event = s.quote(p.HLC)
	h.device = s.quote(device)
	start := len(s.text)
	s.text = append(created.AppendFormat(append(s.text, '"'), createdForm), '"')
	h.created = span{start, len(s.text)}
	start = len(s.text)
	s.text = append(append(append(s.text, '"'), stream[:]...), '"')
	h.stream = span{start, len(s.text)}
	return id.sealParts(dst, s, &h)
}

// quote appends a string in canonical spelling to s.text.
func (s *scratch) quote(text string) span {
	start := len(s.text)
	s.text = appendString(s.text, text)
	return span{start, len(s.text)}
}

// sealParts encrypts s.bytes with s.nonce under the header h.
func (id *Identity) sealParts(dst []byte, s *scratch, h *parts) ([]byte, error) {
	s.authenticated(h)
	s.bytes = id.aead.Seal(s.bytes[:0], s.nonce[:], s.bytes, s.aad)
	out := append(dst, `{"version":1,"ownerId":`...)
	out = append(out, h.owner.in(s.text)...)
	out = append(out, `,"eventId":`...)
	out = append(out, h.event.in(s.text)...)
	out = append(out, `,"deviceId":`...)
	out = append(out, h.device.in(s.text)...)
	out = append(out, `,"createdAt":`...)
	out = append(out, h.created.in(s.text)...)
	if h.stream.end > 0 {
		out = append(out, `,"streamId":`...)
		out = append(out, h.stream.in(s.text)...)
	}
	out = append(out, `,"nonce":"`...)
	out = base64url.AppendEncode(out, s.nonce[:])
	out = append(out, `","ciphertext":"`...)
	out = base64url.AppendEncode(out, s.bytes)
	out = append(out, `"}`...)
	if size := len(out) - len(dst); size > MaxEnvelopeBytes {
		return dst, fmt.Errorf("%w: %d bytes of %d", ErrTooLarge, size, MaxEnvelopeBytes)
	}
	return out, nil
}

// Open checks and decrypts one envelope, given as its JSON, and appends the
// plain text to dst, which does not overlap it. The header is authenticated,
// but its members are not compared with the payload's: OpenPayload does that.
//
// ErrEnvelope: D10 broken. ErrOtherOwner: found before any decryption. ErrTag:
// the header, the nonce or the ciphertext is not what was sealed with this
// identity's key. With an error the header is zero.
func (id *Identity) Open(dst, envelope []byte) (plain []byte, h Header, err error) {
	s := getScratch()
	defer s.put()
	plain, h, err = id.open(dst, s, envelope)
	if err != nil {
		return dst, Header{}, fmt.Errorf("synccrypt: open: %w", err)
	}
	return plain, h, nil
}

func (id *Identity) open(dst []byte, s *scratch, envelope []byte) ([]byte, Header, error) {
	p, err := s.parse(envelope)
	if err != nil {
		return dst, Header{}, err
	}
	// A valid owner id needs no escape, so spellings compare as texts do.
	if owner := p.owner.in(s.text); string(owner[1:len(owner)-1]) != id.OwnerID {
		return dst, Header{}, ErrOtherOwner
	}
	if len(p.nonce) != nonceChars || !decodeBytes(s.nonce[:0], p.nonce) {
		return dst, Header{}, fmt.Errorf("%w: the nonce is not 16 characters of base64url", ErrEnvelope)
	}
	sealed, ok := appendDecoded(dst, p.cipher)
	if !ok {
		return dst, Header{}, fmt.Errorf("%w: the ciphertext is no base64url", ErrEnvelope)
	}
	if len(sealed)-len(dst) < tagBytes {
		return dst, Header{}, fmt.Errorf("%w: the ciphertext is shorter than its tag", ErrEnvelope)
	}
	s.authenticated(&p)
	// In place: what is opened begins where what was sealed did.
	plain, err := id.aead.Open(sealed[:len(dst)], s.nonce[:], sealed[len(dst):], s.aad)
	if err != nil {
		return dst, Header{}, ErrTag
	}
	return plain, s.headerOf(&p, id.OwnerID), nil
}

// appendDecoded appends decoded base64url.
func appendDecoded(dst, text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return dst, false // which the decoder would skip
	}
	out, err := base64url.AppendDecode(dst, text)
	return out, err == nil
}

// decodeBytes decodes base64url into dst's capacity.
func decodeBytes(dst, text []byte) bool {
	out, ok := appendDecoded(dst, text)
	return ok && len(out) == cap(dst)
}

// OpenPayload opens an envelope, decodes its payload and holds the two
// together: the event id is the payload's clock (D12), and the stream id, if
// there is one, is that of its row (D13). plain is new memory, which the
// payload's Row may share.
//
// Errors are those of Open and DecodePayload. With ErrUnknown the payload is
// filled as DecodePayload says, and header and plain are valid; ErrPayload
// stands also for a payload that is not the header's.
func (id *Identity) OpenPayload(envelope []byte) (Payload, Header, []byte, error) {
	plain, h, err := id.Open(nil, envelope)
	if err != nil {
		return Payload{}, Header{}, nil, err
	}
	p, err := DecodePayload(plain)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return Payload{}, h, plain, err
	}
	switch {
	case p.HLC != "" && p.HLC != h.EventID:
		return Payload{}, h, plain, fmt.Errorf("synccrypt: open: %w: its clock is not the event's id", ErrPayload)
	case h.StreamID != "" && p.Table != "" && p.ID != "" && !id.isStream(h.StreamID, p.Table, p.ID):
		return Payload{}, h, plain, fmt.Errorf("synccrypt: open: %w: its row is not of the event's stream", ErrPayload)
	}
	return p, h, plain, err
}

func (id *Identity) isStream(stream, table, row string) bool {
	s := getScratch()
	defer s.put()
	s.aad = id.appendStreamID(s.aad[:0], table, row, s)
	return string(s.aad) == stream
}

// unquote decodes a string in canonical spelling. A lone half of a surrogate
// pair becomes U+FFFD.
func unquote(spelled string) string {
	inner := spelled[1 : len(spelled)-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return string(jsontext.AppendUnescaped(nil, []byte(inner)))
}
