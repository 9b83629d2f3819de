package http1

// Error is one broken rule of the wire. It is answered with Status, after which
// the connection has to be closed: where the next request begins is unknown.
// Values are shared and immutable; compare with ==.
type Error struct {
	// Status is the HTTP status to answer.
	Status int
	// Reason names the rule. It holds nothing of the input, so it may be
	// logged (R15).
	Reason string
}

// Error returns the reason with the package's name in front.
func (e *Error) Error() string { return "http1: " + e.Reason }

// Errors of the request line and of the head as a whole.
var (
	// ErrBlankLines is more than maxBlankLines empty lines before a request
	// (RFC 9112 section 2.2 asks to tolerate at least one).
	ErrBlankLines = &Error{400, "too many empty lines before the request line"}
	// ErrBareLF is an LF without CR (RFC 9112 section 2.2).
	ErrBareLF = &Error{400, "line ends with a bare LF"}
	// ErrHeadTooLarge is a head that does not end within HeadBytes (R47).
	ErrHeadTooLarge = &Error{431, "request head too large"}
	// ErrRequestLine is a line that is not method SP target SP version (RFC
	// 9112 section 3).
	ErrRequestLine = &Error{400, "malformed request line"}
	// ErrMethod is a method that is no token (RFC 9110 section 9.1).
	ErrMethod = &Error{400, "method is not a token"}
	// ErrTarget is a target of no accepted form (RFC 9112 section 3.2, R32).
	ErrTarget = &Error{400, "request target does not parse"}
	// ErrVersion is a well-formed version other than 1.1 and 1.0.
	ErrVersion = &Error{505, "HTTP version not supported"}
	// ErrParsersDisagree is a head that fasthttp reads in another way.
	ErrParsersDisagree = &Error{400, "ambiguous request head"}
)

// Errors of header fields.
var (
	// ErrFieldFold is a line that continues a field (RFC 9112 section 5.2).
	ErrFieldFold = &Error{400, "folded header line"}
	// ErrFieldName is a name that is no token or is not followed by a colon
	// at once (RFC 9112 section 5.1).
	ErrFieldName = &Error{400, "malformed header name"}
	// ErrFieldValue is a control character in a value (RFC 9110 section 5.5).
	ErrFieldValue = &Error{400, "control character in a header value"}
	// ErrNoHost is HTTP/1.1 without Host (RFC 9112 section 3.2).
	ErrNoHost = &Error{400, "Host header missing"}
	// ErrTwoHosts is a repeated Host (RFC 9112 section 3.2).
	ErrTwoHosts = &Error{400, "Host header repeated"}
	// ErrHost is a Host that is not host [":" port] (R32).
	ErrHost = &Error{400, "Host header does not parse"}
	// ErrExpectation is an Expect other than 100-continue (RFC 9110 section
	// 10.1.1).
	ErrExpectation = &Error{417, "unknown expectation"}
)

// Errors of the body's framing, told from the head.
var (
	// ErrContentLength is a length that is not a plain decimal number below
	// 2^63 (RFC 9110 section 8.6).
	ErrContentLength = &Error{400, "malformed Content-Length"}
	// ErrTwoContentLengths is a repeated length, also when both are equal.
	ErrTwoContentLengths = &Error{400, "Content-Length repeated"}
	// ErrLengthAndEncoding is Content-Length beside Transfer-Encoding (RFC
	// 9112 section 6.1).
	ErrLengthAndEncoding = &Error{400, "both Content-Length and Transfer-Encoding"}
	// ErrTransferEncoding is a coding list that does not end in exactly one
	// chunked, or a repeated field (RFC 9112 section 6.3, item 4).
	ErrTransferEncoding = &Error{400, "Transfer-Encoding is not chunked"}
	// ErrTransferCoding is a further coding under chunked (RFC 9112 section
	// 6.1).
	ErrTransferCoding = &Error{501, "transfer coding not supported"}
	// ErrEncodingHTTP10 is Transfer-Encoding on HTTP/1.0 (RFC 9112 section
	// 6.1).
	ErrEncodingHTTP10 = &Error{400, "Transfer-Encoding in HTTP/1.0"}
)

// Errors of a chunked body (RFC 9112 section 7.1).
var (
	// ErrChunkSize is a size that is not one to seven hex digits, or is
	// followed by anything but an extension or the line's end.
	ErrChunkSize = &Error{400, "malformed chunk size"}
	// ErrChunkExtension is a control character in a chunk extension.
	ErrChunkExtension = &Error{400, "malformed chunk extension"}
	// ErrChunkLine is a size line of more than ChunkLineBytes.
	ErrChunkLine = &Error{400, "chunk size line too long"}
	// ErrChunkOverhead is a body which is mostly size lines.
	ErrChunkOverhead = &Error{400, "too much chunk overhead"}
	// ErrChunkEnd is chunk data not followed by CRLF.
	ErrChunkEnd = &Error{400, "chunk data not followed by CRLF"}
	// ErrTrailer is a malformed trailer field.
	ErrTrailer = &Error{400, "malformed trailer"}
	// ErrTrailerTooLarge is a trailer section of more than TrailerBytes.
	ErrTrailerTooLarge = &Error{400, "trailers too large"}
)
