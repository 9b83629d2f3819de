package synccrypt

import (
	"bytes"
	"fmt"
)

const (
	nonceBytes = 12
	nonceChars = 16
	tagBytes   = 16
	// maxNames bounds the members of an envelope; ours have eight.
	maxNames = 64
)

// Header is what an envelope says in the clear, and authenticates (D10). The
// strings of an opened one are of any characters, and not empty.
type Header struct {
	OwnerID, EventID, DeviceID, CreatedAt string
	StreamID                              string // "" when the envelope has none
}

// span is a part of scratch.text: a string in canonical spelling, with quotes.
// The zero span is absent.
type span struct{ start, end int }

func (s span) in(text []byte) []byte { return text[s.start:s.end] }

// parts is an envelope whose grammar has been checked.
type parts struct {
	owner, event, device, created, stream span
	nonce, cipher                         []byte // base64url, not yet checked
	version                               bool
}

// parse reads an envelope in one pass. The parts share s.text and the envelope.
func (s *scratch) parse(envelope []byte) (p parts, err error) {
	c := &s.canon
	c.reset(s.text[:0], envelope, maxDepth)
	err = s.parseMembers(&p)
	if err == nil {
		if c.space(); c.i < len(envelope) {
			err = c.fail("the text goes on after its value")
		}
	}
	s.text = c.out
	c.reset(nil, nil, 0)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	for _, must := range [...]struct {
		ok   bool
		name string
	}{
		{p.version, "version"},
		{p.owner.end > 0, "ownerId"},
		{p.event.end > 0, "eventId"},
		{p.device.end > 0, "deviceId"},
		{p.created.end > 0, "createdAt"},
		{p.nonce != nil, "nonce"},
		{p.cipher != nil, "ciphertext"},
	} {
		if !must.ok {
			return p, fmt.Errorf("%w: no %s", ErrEnvelope, must.name)
		}
	}
	return p, nil
}

func (s *scratch) parseMembers(p *parts) error {
	c := &s.canon
	if !c.take('{') {
		return c.fail("expected an object")
	}
	if c.take('}') {
		return nil
	}
	for range maxNames {
		c.space()
		if c.i == len(c.src) || c.src[c.i] != '"' {
			return c.fail("expected a member name")
		}
		start := len(c.out)
		if err := c.str(); err != nil {
			return err
		}
		name := c.out[start+1 : len(c.out)-1]
		if !s.names.Add(name) {
			return c.fail("a member name occurs twice")
		}
		if !c.take(':') {
			return c.fail("expected a colon")
		}
		if err := s.parseMember(p, name); err != nil {
			return err
		}
		if c.take('}') {
			return nil
		}
		if !c.take(',') {
			return c.fail("expected a comma or a closing bracket")
		}
	}
	return c.fail("too many members")
}

func (s *scratch) parseMember(p *parts, name []byte) error {
	c := &s.canon
	c.space()
	switch string(name) {
	case "version":
		start := len(c.out)
		if err := c.value(); err != nil {
			return err
		}
		if p.version = isOne(c.out[start:]); !p.version {
			return c.fail("the version is not 1")
		}
		return nil
	case "ownerId":
		return s.header(&p.owner)
	case "eventId":
		return s.header(&p.event)
	case "deviceId":
		return s.header(&p.device)
	case "createdAt":
		return s.header(&p.created)
	case "streamId":
		if bytes.HasPrefix(c.src[c.i:], []byte("null")) {
			c.i += len("null")
			return nil
		}
		return s.header(&p.stream)
	case "nonce":
		return s.body(&p.nonce)
	case "ciphertext":
		return s.body(&p.cipher)
	}
	start := len(c.out)
	err := c.value()
	c.out = c.out[:start] // checked, and not needed
	return err
}

// header reads a string that is authenticated, not empty.
func (s *scratch) header(to *span) error {
	c := &s.canon
	start := len(c.out)
	if c.i == len(c.src) || c.src[c.i] != '"' {
		return c.fail("expected a string")
	}
	if err := c.str(); err != nil {
		return err
	}
	if *to = (span{start, len(c.out)}); to.end-to.start == 2 {
		return c.fail("an empty string in the header")
	}
	return nil
}

// body reads a string of base64url. Without escapes, as everybody writes it, it
// is lent from the envelope: whoever decodes it checks all of it.
func (s *scratch) body(to *[]byte) error {
	c := &s.canon
	if c.i == len(c.src) || c.src[c.i] != '"' {
		return c.fail("expected a string")
	}
	rest := c.src[c.i+1:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return c.fail("a string does not end")
	}
	if bytes.IndexByte(rest[:end], '\\') < 0 {
		*to = rest[:end]
		c.i += end + 2
		return nil
	}
	start := len(c.out)
	if err := c.str(); err != nil {
		return err
	}
	*to = c.out[start+1 : len(c.out)-1]
	return nil
}

// authenticated writes the additional data of D10 into s.aad: the header's
// members by name, from spellings that are canonical and have their quotes.
func (s *scratch) authenticated(p *parts) {
	aad := append(s.aad[:0], `{"createdAt":`...)
	aad = append(aad, p.created.in(s.text)...)
	aad = append(aad, `,"deviceId":`...)
	aad = append(aad, p.device.in(s.text)...)
	aad = append(aad, `,"eventId":`...)
	aad = append(aad, p.event.in(s.text)...)
	aad = append(aad, `,"ownerId":`...)
	aad = append(aad, p.owner.in(s.text)...)
	if p.stream.end > 0 {
		aad = append(aad, `,"streamId":`...)
		aad = append(aad, p.stream.in(s.text)...)
	}
	s.aad = append(aad, `,"version":1}`...)
}

// headerOf decodes the header. Its strings share one piece of memory.
func (s *scratch) headerOf(p *parts, owner string) Header {
	h := Header{OwnerID: owner}
	all := string(s.aad)
	at := len(`{"createdAt":`)
	h.CreatedAt, at = headerText(all, at, p.created, len(`,"deviceId":`))
	h.DeviceID, at = headerText(all, at, p.device, len(`,"eventId":`))
	h.EventID, at = headerText(all, at, p.event, len(`,"ownerId":`))
	at += p.owner.end - p.owner.start
	if p.stream.end > 0 {
		h.StreamID, _ = headerText(all, at+len(`,"streamId":`), p.stream, 0)
	}
	return h
}

// headerText decodes the string at all[at:], whose length is that of its span,
// and returns where the next one is.
func headerText(all string, at int, s span, gap int) (string, int) {
	end := at + s.end - s.start
	return unquote(all[at:end]), end + gap
}
