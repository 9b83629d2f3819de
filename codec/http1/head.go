package http1

// Head is one request head that passed all checks. Its slices lie in the
// scratch (borrowed): they are valid until the next Feed on that scratch, also
// when the input is gone before. Loop only.
type Head struct {
	// Method is the method as sent; methods are case-sensitive.
	Method []byte
	// Target is the request target as sent. It may hold a token: never log it
	// (R15).
	Target []byte
	// Path is the target's path as sent, percent-escapes not decoded, without
	// the query (R32). It begins with "/", except for the "*" of OPTIONS.
	Path []byte
	// RawQuery is what follows the first "?" of the target. See QueryValue.
	RawQuery []byte
	// Host is host [":" port] as sent. With a target in absolute form it is
	// the target's, as RFC 9112 section 3.2.2 demands.
	Host []byte
	// ContentLength is the length of the body in octets: 0 if there is none,
	// -1 if it is chunked.
	ContentLength int64
	// Minor is the minor version of HTTP/1: 0 or 1.
	Minor uint8
	// HasHost tells whether Host was told. Only HTTP/1.0 may omit it.
	HasHost bool
	// KeepAlive tells whether the client wants to go on with the connection
	// (RFC 9112 section 9.3): HTTP/1.1 unless it says close, HTTP/1.0 only if
	// it says keep-alive and not close.
	KeepAlive bool
	// ExpectContinue tells that the client waits for Continue before it sends
	// the body. Never set without a body, nor for HTTP/1.0 (RFC 9110 section
	// 10.1.1).
	ExpectContinue bool

	upgrade bool // Connection lists upgrade
	socket  bool // Upgrade lists websocket
	block   []byte
	fields  []field
}

// field is where one header field lies in the block, value trimmed.
type field struct {
	name, nameEnd, value, valueEnd int32
}

// IsWebSocketUpgrade tells whether the request asks to go over to WebSocket:
// HTTP/1.1, Upgrade lists websocket and Connection lists upgrade (RFC 6455
// section 4.2.1, R300). Neither the method nor the other handshake fields are
// looked at.
func (h *Head) IsWebSocketUpgrade() bool {
	return h.Minor == 1 && h.upgrade && h.socket
}

// Header returns the value of the first field of that name without white space
// around it, nil if there is none. A field without a value gives a slice of
// length zero which is not nil. Names are compared without regard to case.
func (h *Head) Header(name string) []byte {
	for i := range h.fields {
		f := &h.fields[i]
		if equalFold(h.block[f.name:f.nameEnd], name) {
			return h.block[f.value:f.valueEnd:f.valueEnd]
		}
	}
	return nil
}

// Values returns the values of all fields of that name, in the order sent; nil
// if there is none.
func (h *Head) Values(name string) (values [][]byte) {
	for i := range h.fields {
		f := &h.fields[i]
		if equalFold(h.block[f.name:f.nameEnd], name) {
			values = append(values, h.block[f.value:f.valueEnd:f.valueEnd])
		}
	}
	return values
}

// HeaderCount returns how many fields have that name.
func (h *Head) HeaderCount(name string) int {
	count := 0
	for i := range h.fields {
		f := &h.fields[i]
		if equalFold(h.block[f.name:f.nameEnd], name) {
			count++
		}
	}
	return count
}

// Each calls yield for each field in the order sent, until yield returns false.
// Both slices are borrowed as all of Head.
func (h *Head) Each(yield func(name, value []byte) bool) {
	for _, f := range h.fields {
		if !yield(h.block[f.name:f.nameEnd], h.block[f.value:f.valueEnd]) {
			return
		}
	}
}
