package http1

import (
	"bytes"
	"math"
)

// readRequestLine reads method SP target SP version and returns the offset of
// the first field (RFC 9112 section 3). Exactly one space is taken between the
// parts.
func (h *Head) readRequestLine() (next int, fail *Error) {
	nl := bytes.IndexByte(h.block, '\n')
	line := h.block[:nl-1]
	n := span(line, classToken)
	if n == len(line) {
		return 0, ErrRequestLine
	}
	if n == 0 || line[n] != ' ' {
		return 0, ErrMethod
	}
	h.Method, line = line[:n:n], line[n+1:]
	n = bytes.IndexByte(line, ' ')
	if n <= 0 {
		return 0, ErrRequestLine
	}
	h.Target = line[:n:n]
	h.Minor, fail = readVersion(line[n+1:])
	return nl + 1, fail
}

func readVersion(version []byte) (minor uint8, fail *Error) {
	switch string(version) {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	if len(version) == 8 && string(version[:5]) == "HTTP/" && version[6] == '.' &&
		is(version[5], classDigit) && is(version[7], classDigit) {
		return 0, ErrVersion
	}
	return 0, ErrRequestLine
}

// readFields reads the fields from offset at on and draws the conclusions. The
// block has no bare LF and ends with an empty line, so every line is complete.
func (h *Head) readFields(at int) *Error {
	var fr framing
	for {
		line := h.block[at : at+bytes.IndexByte(h.block[at:], '\n')-1]
		if len(line) == 0 {
			return h.conclude(&fr)
		}
		if line[0] == ' ' || line[0] == '\t' {
			return ErrFieldFold
		}
		colon := span(line, classToken)
		if colon == 0 || colon == len(line) || line[colon] != ':' {
			return ErrFieldName
		}
		value, end := colon+1, len(line)
		if !validText(line[value:]) {
			return ErrFieldValue
		}
		for value < end && isOWS(line[value]) {
			value++
		}
		for value < end && isOWS(line[end-1]) {
			end--
		}
		if fail := h.note(&fr, line[:colon], line[value:end]); fail != nil {
			return fail
		}
		h.fields = append(h.fields, field{
			name: int32(at), nameEnd: int32(at + colon),
			value: int32(at + value), valueEnd: int32(at + end),
		})
		at += len(line) + 2
	}
}

// framing collects what the fields say of the body and the connection.
type framing struct {
	lengthCount, encodingCount, hostCount int
	closing, keeping, expecting           bool
}

// note looks at a field that bears on framing, routing or the connection. The
// name's length sorts out nearly all others.
func (h *Head) note(fr *framing, name, value []byte) *Error {
	switch {
	case len(name) == 4 && equalFold(name, "host"):
		fr.hostCount++
		if h.Host == nil { // else the target has told it
			h.Host = value[:len(value):len(value)]
		}
		if !validAuthority(value) {
			return ErrHost
		}
	case len(name) == 6 && equalFold(name, "expect"):
		if !equalFold(value, "100-continue") {
			return ErrExpectation
		}
		fr.expecting = true
	case len(name) == 7 && equalFold(name, "upgrade"):
		h.socket = h.socket || lists(value, "websocket")
	case len(name) == 10 && equalFold(name, "connection"):
		fr.closing = fr.closing || lists(value, "close")
		fr.keeping = fr.keeping || lists(value, "keep-alive")
		h.upgrade = h.upgrade || lists(value, "upgrade")
	case len(name) == 14 && equalFold(name, "content-length"):
		fr.lengthCount++
		var ok bool
		if h.ContentLength, ok = readLength(value); !ok {
			return ErrContentLength
		}
	case len(name) == 17 && equalFold(name, "transfer-encoding"):
		fr.encodingCount++
		return readCoding(value)
	}
	return nil
}

// conclude applies the rules that need all fields.
func (h *Head) conclude(fr *framing) *Error {
	switch {
	case fr.lengthCount > 0 && fr.encodingCount > 0:
		return ErrLengthAndEncoding
	case fr.lengthCount > 1:
		return ErrTwoContentLengths
	case fr.encodingCount > 1:
		return ErrTransferEncoding
	case fr.encodingCount > 0 && h.Minor == 0:
		return ErrEncodingHTTP10
	case fr.hostCount > 1:
		return ErrTwoHosts
	case fr.hostCount == 0 && h.Minor == 1:
		return ErrNoHost
	}
	if fr.encodingCount > 0 {
		h.ContentLength = -1
	}
	h.HasHost = h.Host != nil
	h.KeepAlive = !fr.closing && (h.Minor == 1 || fr.keeping)
	h.ExpectContinue = fr.expecting && h.Minor == 1 && h.ContentLength != 0
	return nil
}

// readLength reads a plain decimal number below 2^63: no sign, no list.
func readLength(value []byte) (length int64, ok bool) {
	for _, c := range value {
		if !is(c, classDigit) {
			return 0, false
		}
		digit := int64(c - '0')
		if length > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		length = length*10 + digit
	}
	return length, len(value) > 0
}

// readCoding takes exactly "chunked". A list whose last coding is not chunked,
// or that has chunked twice, has no known end (RFC 9112 section 6.3, item 4);
// any other coding is one that is not supported.
func readCoding(value []byte) *Error {
	member, rest := nextMember(value)
	if rest == nil && equalFold(member, "chunked") {
		return nil
	}
	for rest != nil {
		if equalFold(member, "chunked") {
			return ErrTransferEncoding
		}
		member, rest = nextMember(rest)
	}
	if equalFold(member, "chunked") {
		return ErrTransferCoding
	}
	return ErrTransferEncoding
}

// lists tells whether a comma list has the member.
func lists(list []byte, lower string) bool {
	for list != nil {
		var member []byte
		if member, list = nextMember(list); equalFold(member, lower) {
			return true
		}
	}
	return false
}
