package http1

import (
	"strings"
	"testing"
)

// get and post are complete heads with some more header lines.
func get(lines ...string) string { return head("GET /events HTTP/1.1", lines) }

func post(lines ...string) string { return head("POST /events HTTP/1.1", lines) }

func head(requestLine string, lines []string) string {
	var b strings.Builder
	for _, l := range append([]string{requestLine, "Host: a"}, lines...) {
		b.WriteString(l + "\r\n")
	}
	return b.String() + "\r\n"
}

func line(requestLine string) string { return head(requestLine, nil) }

func host(value string) string { return "GET / HTTP/1.1\r\nHost: " + value + "\r\n\r\n" }

// TestRefused has one row per way to break a rule. Each input is fed whole and
// octet by octet, and must fail in the same way.
func TestRefused(t *testing.T) {
	hidden := "0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		rule, in string
		want     *Error
	}{
		// Framing: C01, C03, RFC 9112 section 6.
		{"length, then chunked", post("Content-Length: 6", "Transfer-Encoding: chunked") + hidden, ErrLengthAndEncoding},
		{"chunked, then length", post("Transfer-Encoding: chunked", "Content-Length: 6") + hidden, ErrLengthAndEncoding},
		{"zero length and chunked", post("Content-Length: 0", "Transfer-Encoding: chunked"), ErrLengthAndEncoding},
		{"other case", post("content-LENGTH: 6", "TRANSFER-encoding: Chunked"), ErrLengthAndEncoding},
		{"two lengths", post("Content-Length: 47", "Content-Length: 0"), ErrTwoContentLengths},
		{"two equal lengths", post("Content-Length: 5", "Content-Length: 5"), ErrTwoContentLengths},
		{"list of lengths", post("Content-Length: 5, 5"), ErrContentLength},
		{"plus", post("Content-Length: +5"), ErrContentLength},
		{"minus", post("Content-Length: -1"), ErrContentLength},
		{"hex", post("Content-Length: 0x5"), ErrContentLength},
		{"20 digits", post("Content-Length: 12345678901234567890"), ErrContentLength},
		{"2^63", post("Content-Length: 9223372036854775808"), ErrContentLength},
		{"empty length", post("Content-Length:"), ErrContentLength},
		{"space inside", post("Content-Length: 5 5"), ErrContentLength},
		{"fraction", post("Content-Length: 5.0"), ErrContentLength},
		{"identity", post("Transfer-Encoding: identity"), ErrTransferEncoding},
		{"chunked twice in a list", post("Transfer-Encoding: chunked, chunked"), ErrTransferEncoding},
		{"chunked twice in two fields", post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), ErrTransferEncoding},
		{"chunked not last", post("Transfer-Encoding: chunked, gzip"), ErrTransferEncoding},
		{"chunked before a comma", post("Transfer-Encoding: chunked,"), ErrTransferEncoding},
		{"comma before chunked", post("Transfer-Encoding: ,chunked"), ErrTransferCoding},
		{"misspelt", post("Transfer-Encoding: xchunked"), ErrTransferEncoding},
		{"quoted", post("Transfer-Encoding: \"chunked\""), ErrTransferEncoding},
		{"parameter", post("Transfer-Encoding: chunked;q=1"), ErrTransferEncoding},
		{"empty coding", post("Transfer-Encoding:"), ErrTransferEncoding},
		{"vertical tab", post("Transfer-Encoding: \x0bchunked"), ErrFieldValue},
		{"gzip below chunked", post("Transfer-Encoding: gzip, chunked"), ErrTransferCoding},
		{"chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", ErrEncodingHTTP10},
		{"name with a space", post("Transfer-Encoding : chunked", "Content-Length: 5"), ErrFieldName},

		// Line ends and fields: RFC 9112 sections 2.2 and 5.
		{"bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", ErrBareLF},
		{"bare LF after a field", "GET / HTTP/1.1\r\nHost: a\n\r\n", ErrBareLF},
		{"bare LF as the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\n", ErrBareLF},
		{"bare LF everywhere", "GET / HTTP/1.1\nHost: a\n\nGET /b HTTP/1.1\r\nHost: b\r\n\r\n", ErrBareLF},
		{"bare CR in a value", get("X: a\rb"), ErrFieldValue},
		{"CR CR LF", get("X: a\r"), ErrFieldValue},
		{"bare CR in a name", get("X\rY: a"), ErrFieldName},
		{"bare CR in the request line", line("GET /\ra HTTP/1.1"), ErrTarget},
		{"fold with a space", get("X: 1", " 2"), ErrFieldFold},
		{"fold with a tab", get("X: 1", "\t2"), ErrFieldFold},
		{"white line", get("X: 1", " "), ErrFieldFold},
		{"space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", ErrFieldFold},
		{"space before the colon", get("X : 1"), ErrFieldName},
		{"tab before the colon", get("X\t: 1"), ErrFieldName},
		{"no colon", get("X"), ErrFieldName},
		{"no name", get(": 1"), ErrFieldName},
		{"NUL in a name", get("X\x00: 1"), ErrFieldName},
		{"high octet in a name", get("X\xe9: 1"), ErrFieldName},
		{"bracket in a name", get("X[]: 1"), ErrFieldName},
		{"NUL in a value", get("X: a\x00b"), ErrFieldValue},
		{"escape in a value", get("X: \x1b[0m"), ErrFieldValue},
		{"DEL in a value", get("X: a\x7f"), ErrFieldValue},

		// The request line: RFC 9112 section 3.
		{"two spaces after the method", line("GET  / HTTP/1.1"), ErrRequestLine},
		{"two spaces before the version", line("GET /  HTTP/1.1"), ErrRequestLine},
		{"space at the end", line("GET / HTTP/1.1 "), ErrRequestLine},
		{"tab", line("GET\t/ HTTP/1.1"), ErrMethod},
		{"space first", line(" GET / HTTP/1.1"), ErrMethod},
		{"HTTP/0.9", "GET /\r\n\r\n", ErrRequestLine},
		{"method alone", "GET\r\n\r\n", ErrRequestLine},
		{"no target", line("GET HTTP/1.1"), ErrRequestLine},
		{"HTTP/2.0", line("GET / HTTP/2.0"), ErrVersion},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ErrVersion},
		{"HTTP/1.2", line("GET / HTTP/1.2"), ErrVersion},
		{"HTTP/0.9 named", line("GET / HTTP/0.9"), ErrVersion},
		{"lower case version", line("GET / http/1.1"), ErrRequestLine},
		{"longer version", line("GET / HTTP/1.10"), ErrRequestLine},
		{"other protocol", line("GET / ICAP/1.1"), ErrRequestLine},
		{"method with a slash", line("GE/T / HTTP/1.1"), ErrMethod},
		{"method with a high octet", line("G\xc9T / HTTP/1.1"), ErrMethod},
		{"TLS hello", "\x16\x03\x01\x02\x00\x01", ErrMethod},
		{"NUL first", "\x00", ErrMethod},
		{"five empty lines", "\r\n\r\n\r\n\r\n\r\n" + get(), ErrBlankLines},
		{"CR first", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", ErrRequestLine},
		{"LF first", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ErrBareLF},

		// Targets: R32, W1, RFC 9112 section 3.2.
		{"two slashes", line("GET // HTTP/1.1"), ErrTarget},
		{"three slashes", line("GET ///a HTTP/1.1"), ErrTarget},
		{"two slashes and a query", line("GET //?a HTTP/1.1"), ErrTarget},
		{"two slashes and a bad port", line("GET //a:b/c HTTP/1.1"), ErrTarget},
		{"two slashes and a user", line("GET //u@a/c HTTP/1.1"), ErrTarget},
		{"relative", line("GET healthz HTTP/1.1"), ErrTarget},
		{"query alone", line("GET ?a=1 HTTP/1.1"), ErrTarget},
		{"fragment", line("GET /a#b HTTP/1.1"), ErrTarget},
		{"control character", line("GET /a\x01 HTTP/1.1"), ErrTarget},
		{"DEL", line("GET /a\x7f HTTP/1.1"), ErrTarget},
		{"star for GET", line("GET * HTTP/1.1"), ErrTarget},
		{"star and more", line("OPTIONS */a HTTP/1.1"), ErrTarget},
		{"absolute without host", line("GET http:///a HTTP/1.1"), ErrTarget},
		{"absolute with a user", line("GET http://u:p@a/ HTTP/1.1"), ErrTarget},
		{"absolute with a bad port", line("GET http://a:65536/ HTTP/1.1"), ErrTarget},
		{"other scheme", line("GET ftp://a/ HTTP/1.1"), ErrTarget},
		{"no scheme", line("GET ://a/ HTTP/1.1"), ErrTarget},
		{"authority form", line("CONNECT a:443 HTTP/1.1"), ErrTarget},
		{"CONNECT with a path", line("CONNECT / HTTP/1.1"), ErrTarget},

		// Host: R32, W1, RFC 9112 section 3.2.
		{"none", "GET / HTTP/1.1\r\n\r\n", ErrNoHost},
		{"none beside absolute form", "GET http://a/ HTTP/1.1\r\n\r\n", ErrNoHost},
		{"two", get("Host: b"), ErrTwoHosts},
		{"two equal", get("host: a"), ErrTwoHosts},
		{"empty", host(""), ErrHost},
		{"empty in 1.0", "GET / HTTP/1.0\r\nHost:\r\n\r\n", ErrHost},
		{"space", host("a b"), ErrHost},
		{"list", host("a, b"), ErrHost},
		{"port no number", host("a:b"), ErrHost},
		{"port too large", host("a:65536"), ErrHost},
		{"port huge", host("a:99999999999999999999"), ErrHost},
		{"port negative", host("a:-1"), ErrHost},
		{"two ports", host("a:1:2"), ErrHost},
		{"port alone", host(":80"), ErrHost},
		{"user", host("u@a"), ErrHost},
		{"path", host("a/b"), ErrHost},
		{"query", host("a?b"), ErrHost},
		{"fragment in Host", host("a#b"), ErrHost},
		{"backslash", host("a\\b"), ErrHost},
		{"URL", host("http://a"), ErrHost},
		{"bad escape", host("a%2"), ErrHost},
		{"high octet", host("\xc3\xa9"), ErrHost},
		{"IPv6 bare", host("::1"), ErrHost},
		{"IPv6 open", host("[::1"), ErrHost},
		{"IPv6 empty", host("[]"), ErrHost},
		{"IPv6 malformed", host("[::1::]"), ErrHost},
		{"IPv6 with a zone", host("[fe80::1%eth0]"), ErrHost},
		{"IPv4 in brackets", host("[127.0.0.1]"), ErrHost},
		{"IPv6 and rest", host("[::1]a"), ErrHost},

		// Expect: RFC 9110 section 10.1.1.
		{"other expectation", post("Expect: 200-ok", "Content-Length: 1"), ErrExpectation},
		{"empty expectation", post("Expect:", "Content-Length: 1"), ErrExpectation},
		{"two expectations", post("Expect: 100-continue, x", "Content-Length: 1"), ErrExpectation},

		// fasthttp refuses what no other rule here forbids.
		{"forbidden trailer name", post("Trailer: Content-Length", "Transfer-Encoding: chunked"), ErrParsersDisagree},
	} {
		s := NewScratch()
		for _, size := range []int{1, len(c.in)} {
			got := transcribe(t, s, octets([]byte(c.in), size)...)
			if got.err != c.want || len(got.requests) > 0 {
				t.Errorf("%s: %q in pieces of %d: got %v, want %v", c.rule, c.in, size, got, c.want)
			}
		}
	}
}

// TestAccepted has what the strict rules must let pass.
func TestAccepted(t *testing.T) {
	for _, c := range []struct{ rule, in, path, query, host string }{
		{"plain", line("GET /healthz HTTP/1.1"), "/healthz", "", "a"},
		{"C64 query", line("GET /stream?access_token=a%20b&x=/?y HTTP/1.1"), "/stream", "access_token=a%20b&x=/?y", "a"},
		{"R32 escapes stay", line("GET /%68ealthz/.. HTTP/1.1"), "/%68ealthz/..", "", "a"},
		{"R32 broken escape stays", line("GET /%zz HTTP/1.1"), "/%zz", "", "a"},
		{"R32 absolute form", line("GET http://x/healthz?q HTTP/1.1"), "/healthz", "q", "x"},
		{"absolute form, case and port", line("GET HTTPS://X.example:8443/a HTTP/1.1"), "/a", "", "X.example:8443"},
		{"absolute form without a path", line("GET http://x HTTP/1.1"), "/", "", "x"},
		{"absolute form, query only", line("GET http://x?a=b HTTP/1.1"), "/", "a=b", "x"},
		{"absolute form in 1.0", "GET http://x/a HTTP/1.0\r\n\r\n", "/a", "", "x"},
		{"two slashes and a host", line("GET //a/b HTTP/1.1"), "//a/b", "", "a"},
		{"star", line("OPTIONS * HTTP/1.1"), "*", "", "a"},
		{"raw UTF-8", line("GET /a?s=\xc3\xa9 HTTP/1.1"), "/a", "s=\xc3\xa9", "a"},
		{"URL in the query", line("GET /a?u=http://b//c HTTP/1.1"), "/a", "u=http://b//c", "a"},
		{"own method", line("M-SEARCH / HTTP/1.1"), "/", "", "a"},
		{"Host with a port", host("relay.example.com:8787"), "/", "", "relay.example.com:8787"},
		{"Host with an empty port", host("a:"), "/", "", "a:"},
		{"Host with underscore", host("relay_1"), "/", "", "relay_1"},
		{"Host with an escape", host("a%2db"), "/", "", "a%2db"},
		{"IPv4", host("127.0.0.1:1"), "/", "", "127.0.0.1:1"},
		{"IPv6", host("[::1]:65535"), "/", "", "[::1]:65535"},
		{"IPv6 with IPv4", host("[::ffff:127.0.0.1]"), "/", "", "[::ffff:127.0.0.1]"},
		{"Host with white space around", "GET / HTTP/1.1\r\nHost:\t a \t\r\n\r\n", "/", "", "a"},
		{"Host not first", "GET / HTTP/1.1\r\nX: y\r\nhOST: a\r\n\r\n", "/", "", "a"},
		{"no Host in 1.0", "GET / HTTP/1.0\r\n\r\n", "/", "", ""},
		{"empty lines before", "\r\n\r\n\r\n\r\n" + line("GET / HTTP/1.1"), "/", "", "a"},
		{"obs-text and tab in a value", get("X: \xe9\tb"), "/events", "", "a"},
		{"empty value", get("X:"), "/events", "", "a"},
		{"value of white space", get("X: \t "), "/events", "", "a"},
		{"every tchar in a name", get("!#$%&'*+-.^_`|~09azAZ: v"), "/events", "", "a"},
		{"C19 length is not believed", post("Content-Length: 9223372036854775807"), "/events", "", "a"},
		{"length with zeros", post("Content-Length: 0005"), "/events", "", "a"},
		{"chunked in capitals", post("Transfer-Encoding: \tCHUNKED "), "/events", "", "a"},
		{"h2c offer, R44", get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"), "/events", "", "a"},
	} {
		h, err := parseOne(t, c.in)
		if err != nil {
			t.Errorf("%s: %q refused: %v", c.rule, c.in, err)
			continue
		}
		if string(h.Path) != c.path || string(h.RawQuery) != c.query || string(h.Host) != c.host ||
			h.HasHost != (c.host != "") {
			t.Errorf("%s: %q gives path %q, query %q, host %q", c.rule, c.in, h.Path, h.RawQuery, h.Host)
		}
	}
}
