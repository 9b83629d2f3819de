package wsframe

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"net/http"
)

const (
	// acceptSalt is the constant of RFC 6455, section 4.2.2, item 5.4.
	acceptSalt = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

	nonceBytes   = 16
	keyChars     = 24 // base64 of a nonce
	versionValue = "13"

	fieldAccept   = "Sec-WebSocket-Accept"
	fieldProtocol = "Sec-WebSocket-Protocol"
	fieldVersion  = "Sec-WebSocket-Version"
)

// UpgradeRequest is what the opening handshake looks at: values of a request
// that has been parsed, without surrounding white space. Where a field occurs
// more than once the values are joined by commas; absent is empty. All slices
// are borrowed for the time of the call.
type UpgradeRequest struct {
	Method     []byte
	Minor      int // of HTTP/1.<Minor>
	Upgrade    []byte
	Connection []byte
	Key        []byte // Sec-WebSocket-Key
	Version    []byte // Sec-WebSocket-Version
	Protocols  []byte // Sec-WebSocket-Protocol
}

// HandshakeError is a rule of RFC 6455, section 4.2.1, that a request breaks.
// The values are variables of this package, so == and errors.Is both work.
// Immutable.
type HandshakeError struct {
	status      int
	text        string
	header, val string
}

// Error returns the rule in words.
func (e *HandshakeError) Error() string { return e.text }

// Status returns the HTTP status of the answer.
func (e *HandshakeError) Status() int { return e.status }

// Header returns a header field that belongs to the answer; name is empty if
// there is none.
func (e *HandshakeError) Header() (name, value string) { return e.header, e.val }

// What UpgradeRequest.Check refuses, in the order of the checks (R31, R301).
var (
	// ErrNotUpgrade: the request asks for no upgrade at all (R31).
	ErrNotUpgrade = &HandshakeError{status: http.StatusNotFound, text: "not an upgrade request"}

	ErrUpgradeMethod = &HandshakeError{
		status: http.StatusMethodNotAllowed, text: "upgrade with a method other than GET",
		header: "Allow", val: http.MethodGet,
	}
	ErrUpgradeHTTP     = &HandshakeError{status: http.StatusBadRequest, text: "upgrade needs HTTP/1.1"}
	ErrUpgradeProtocol = &HandshakeError{status: http.StatusBadRequest, text: "upgrade to something other than websocket"}
	ErrUpgradeKey      = &HandshakeError{status: http.StatusBadRequest, text: "Sec-WebSocket-Key is missing or malformed"}
	ErrUpgradeVersion  = &HandshakeError{
		status: http.StatusBadRequest, text: "Sec-WebSocket-Version is not 13",
		header: fieldVersion, val: versionValue,
	}
	ErrUpgradeSubprotocol = &HandshakeError{status: http.StatusBadRequest, text: "Sec-WebSocket-Protocol is malformed"}
)

// WantsUpgrade tells if the request asks for an upgrade, to whatever protocol:
// it has an Upgrade field and Connection names it (RFC 9110, section 7.8). One
// that does not is an ordinary request (R31).
func (q *UpgradeRequest) WantsUpgrade() bool {
	return len(q.Upgrade) > 0 && listHas(q.Connection, "upgrade")
}

// Check tells if the request is a valid opening handshake (RFC 6455, section
// 4.2.1; R300, R301). The error is nil or a *HandshakeError. Pure.
func (q *UpgradeRequest) Check() error {
	switch {
	case !q.WantsUpgrade():
		return ErrNotUpgrade
	case string(q.Method) != http.MethodGet:
		return ErrUpgradeMethod
	case q.Minor < 1:
		return ErrUpgradeHTTP
	case !listHas(q.Upgrade, "websocket"):
		return ErrUpgradeProtocol
	case !validKey(q.Key):
		return ErrUpgradeKey
	case string(q.Version) != versionValue:
		return ErrUpgradeVersion
	}
	if _, ok := firstOffer(q.Protocols); !ok {
		return ErrUpgradeSubprotocol
	}
	return nil
}

// FirstSubprotocol returns the first subprotocol offered by the value of
// Sec-WebSocket-Protocol, which is the one to be echoed (R302); empty if none
// is offered or the first is not a token, which Check refuses. Pure.
func FirstSubprotocol(header []byte) string {
	offer, ok := firstOffer(header)
	if !ok {
		return ""
	}
	return string(offer)
}

// AppendSwitching appends the complete 101 answer to a request that passed
// Check (RFC 6455, section 4.2.2). subprotocol is what FirstSubprotocol
// returned; anything but a token is left out. No extension is ever named
// (R302). key is borrowed until return.
func AppendSwitching(dst, key []byte, subprotocol string) []byte {
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"+
		"Connection: Upgrade\r\n"+fieldAccept+": "...)
	dst = AppendAccept(dst, key)
	if isToken(subprotocol) {
		dst = append(dst, "\r\n"+fieldProtocol+": "...)
		dst = append(dst, subprotocol...)
	}
	return append(dst, "\r\n\r\n"...)
}

// AppendAccept appends the value of Sec-WebSocket-Accept for key (RFC 6455,
// section 4.2.2, item 5.4): what a server sends and a client expects.
func AppendAccept(dst, key []byte) []byte {
	var buf [keyChars + len(acceptSalt)]byte
	sum := sha1.Sum(append(append(buf[:0], key...), acceptSalt...))
	return base64.StdEncoding.AppendEncode(dst, sum[:])
}

// validKey tells if key is base64 of 16 bytes.
func validKey(key []byte) bool {
	var nonce [keyChars]byte
	if len(key) != keyChars {
		return false
	}
	// Decode skips CR and LF, which then make the result too short.
	n, err := base64.StdEncoding.Decode(nonce[:], key)
	return err == nil && n == nonceBytes
}

// firstOffer returns the first element of a list, empty if it has none, and
// tells if it is a token.
func firstOffer(list []byte) (offer []byte, ok bool) {
	for len(list) > 0 {
		offer, list = cutElement(list)
		if len(offer) > 0 {
			return offer, isToken(offer)
		}
	}
	return nil, true
}

// listHas tells if a list has the element want, which is in lower case, without
// regard to case.
func listHas(list []byte, want string) bool {
	var element []byte
	for len(list) > 0 {
		element, list = cutElement(list)
		if len(element) == len(want) && bytes.EqualFold(element, []byte(want)) {
			return true
		}
	}
	return false
}

// cutElement cuts the first element off a list (RFC 9110, section 5.6.1).
func cutElement(list []byte) (element, rest []byte) {
	element, rest, _ = bytes.Cut(list, []byte(","))
	return bytes.Trim(element, " \t"), rest
}

// isToken tells if s is a token (RFC 9110, section 5.6.2).
func isToken[S string | []byte](s S) bool {
	for i := range len(s) {
		if c := s[i]; c >= 128 || tokenChars[c>>6]&(1<<(c&63)) == 0 {
			return false
		}
	}
	return len(s) > 0
}

// tokenChars has a bit for each character of a token.
var tokenChars = func() (set [2]uint64) {
	const chars = "!#$%&'*+-.^_`|~0123456789" +
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for i := range len(chars) {
		set[chars[i]>>6] |= 1 << (chars[i] & 63)
	}
	return set
}()
