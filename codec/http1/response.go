package http1

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// Continue is the interim response that a request with
	// Head.ExpectContinue waits for (RFC 9110 section 10.1.1).
	Continue = "HTTP/1.1 100 Continue\r\n\r\n"
	// LastChunk ends a chunked body without trailers (RFC 9112 section 7.1).
	LastChunk = "0\r\n\r\n"
)

// Field is one header field of a response.
type Field struct {
	// Name must be a token; a field with any other name is left out.
	Name string
	// Value may be anything: octets that a value cannot have, CR and LF among
	// them, are written as spaces (H4).
	Value string
}

// Response is what AppendResponse writes. The zero value of each field is the
// usual case, except for Status.
type Response struct {
	// Status is the code, 100 to 999; anything else is written as 500.
	Status int
	// Fields are written in order, as given. Content-Length and
	// Transfer-Encoding are left out: framing follows from this type. A
	// Connection field takes the place of the one that would be written.
	Fields []Field
	// Body is borrowed until return. 1xx, 204 and 304 have none.
	Body []byte
	// NoBody leaves the body out but tells its length (answers to HEAD).
	NoBody bool
	// KeepAlive tells that the connection goes on after this response.
	KeepAlive bool
	// HTTP10 tells that the request was HTTP/1.0: keep-alive is said
	// explicitly, and nothing is chunked.
	HTTP10 bool
	// Stream writes a head alone, whose body follows: chunked if Chunked is
	// set, otherwise up to the end of the connection.
	Stream bool
	// Chunked is the framing of a Stream. Without Stream it means nothing.
	Chunked bool
}

// AppendResponse appends the response to dst. date is a value for Date as made
// by AppendDate; without it the field is left out, as it is for 1xx. It
// allocates only to grow dst. Any goroutine. RFC 9112 sections 4 to 9.
func AppendResponse(dst []byte, r *Response, date []byte) []byte {
	status := r.Status
	if status < 100 || status > 999 {
		status = 500
	}
	interim := status < 200
	bodiless := interim || status == 204 || status == 304
	chunked := r.Stream && r.Chunked && !r.HTTP10

	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, StatusText(status)...)
	dst = append(dst, "\r\n"...)
	if len(date) > 0 && !interim {
		dst = append(dst, "Date: "...)
		dst = appendText(dst, date)
		dst = append(dst, "\r\n"...)
	}
	dst, ownConnection := appendFields(dst, r.Fields)
	switch {
	case bodiless:
	case chunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case !r.Stream:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	untilClose := r.Stream && !chunked && !bodiless
	switch {
	case interim || ownConnection:
	case !r.KeepAlive || untilClose:
		dst = append(dst, "Connection: close\r\n"...)
	case r.HTTP10:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	if bodiless || r.NoBody || r.Stream {
		return dst
	}
	return append(dst, r.Body...)
}

// AppendFields appends the fields that may be written, a line each. Any
// goroutine.
func AppendFields(dst []byte, fields []Field) []byte {
	dst, _ = appendFields(dst, fields)
	return dst
}

// appendFields appends the fields that may be written and tells whether a
// Connection field was among them.
func appendFields(dst []byte, fields []Field) (_ []byte, connection bool) {
	for i := range fields {
		f := &fields[i]
		if !writable(f.Name) {
			continue
		}
		connection = connection || equalFold(f.Name, "connection")
		dst = append(dst, f.Name...)
		dst = append(dst, ": "...)
		dst = appendText(dst, f.Value)
		dst = append(dst, "\r\n"...)
	}
	return dst, connection
}

// writable tells whether a field of that name may stand in a response: it is a
// token, and not part of the framing.
func writable(name string) bool {
	for i := range len(name) {
		if !is(name[i], classToken) {
			return false
		}
	}
	return name != "" && !equalFold(name, "content-length") &&
		!equalFold(name, "transfer-encoding")
}

// appendText appends a field value and puts a space for each octet that may not
// stand in one (RFC 9110 section 5.5).
func appendText[T string | []byte](dst []byte, value T) []byte {
	start := len(dst)
	dst = append(dst, value...)
	for i := start; i < len(dst); i++ {
		if !is(dst[i], classText) {
			dst[i] = ' '
		}
	}
	return dst
}

// AppendDate appends t as a value for Date (RFC 9110 section 5.6.7). Any
// goroutine; the value changes once a second, so a loop keeps it.
func AppendDate(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, "Mon, 02 Jan 2006 15:04:05 GMT")
}

// AppendChunk appends data as one chunk (RFC 9112 section 7.1). Without data it
// appends nothing, because an empty chunk would end the body; the end is
// LastChunk. Any goroutine.
func AppendChunk(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = strconv.AppendUint(dst, uint64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// ChunkOverhead returns how many octets AppendChunk adds to sizeBytes octets of
// data.
func ChunkOverhead(sizeBytes int) int {
	if sizeBytes <= 0 {
		return 0
	}
	return (bits.Len(uint(sizeBytes))+3)/4 + len("\r\n\r\n")
}

// StatusText returns the reason phrase of a status, "Unknown Status Code" for
// one without. Any goroutine.
func StatusText(status int) string { return fasthttp.StatusMessage(status) }
