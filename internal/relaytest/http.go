package relaytest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const maxHeadBytes = 256 << 10

// ErrTorn tells that the connection ended inside a message.
var ErrTorn = errors.New("relaytest: connection ended inside a message")

// Response is one parsed HTTP/1 answer.
type Response struct {
	Head   string // raw head, final blank line included
	Proto  string // "HTTP/1.1"
	Status int
	Header http.Header // names in canonical form, values in order
	Body   []byte
	Chunks []string // pieces of a chunked body, as framed by the peer

	Chunked        bool // Transfer-Encoding: chunked
	CloseDelimited bool // neither declared length nor chunks
	length         int64
}

// Do sends request on a new connection, reads one answer and closes. Method is
// what request uses: an answer to HEAD has no body.
func Do(addr, method, request string, timeout time.Duration) (*Response, error) {
	c, err := Dial(addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SendString(request); err != nil {
		return nil, fmt.Errorf("relaytest: send: %w", err)
	}
	return c.ReadResponse(method, timeout)
}

// WithToken is target with the token as a query parameter (R40).
func WithToken(target, token string) string {
	sep := "?"
	if strings.Contains(target, "?") {
		sep = "&"
	}
	return target + sep + "access_token=" + url.QueryEscape(token)
}

// ReadResponse reads one whole answer, an interim (1xx) one included.
func (c *Conn) ReadResponse(method string, timeout time.Duration) (*Response, error) {
	deadline := time.Now().Add(timeout)
	r, err := c.readHead(deadline)
	if err != nil {
		return nil, err
	}
	if method == http.MethodHead || r.Status < 200 || r.Status == 204 || r.Status == 304 {
		return r, nil
	}
	return r, c.readBody(r, deadline)
}

// ReadHead reads the head of an answer and leaves what follows it unread.
func (c *Conn) ReadHead(timeout time.Duration) (*Response, error) {
	return c.readHead(time.Now().Add(timeout))
}

func (c *Conn) readHead(deadline time.Time) (*Response, error) {
	end, err := c.index("\r\n\r\n", maxHeadBytes, deadline)
	if err != nil {
		if c.Buffered() > 0 && !IsTimeout(err) {
			return nil, fmt.Errorf("%w: head %q: %w", ErrTorn, clip(c.rest()), err)
		}
		return nil, err
	}
	r, err := parseHead(string(c.rest()[:end+4]))
	if err != nil {
		return nil, err
	}
	c.skip(end + 4)
	return r, nil
}

// parseHead is strict: RFC 9112, sections 4 and 5, without the tolerances.
func parseHead(head string) (*Response, error) {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	r := &Response{Head: head, Header: http.Header{}, length: -1}
	proto, rest, _ := strings.Cut(lines[0], " ")
	code, _, found := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || !found || len(code) != 3 || (proto != "HTTP/1.1" && proto != "HTTP/1.0") {
		return nil, fmt.Errorf("relaytest: bad status line %q", lines[0])
	}
	r.Proto, r.Status = proto, status
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(line, "\r\n\x00") || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("relaytest: bad header line %q", line)
		}
		r.Header.Add(name, strings.Trim(value, " \t"))
	}
	return r, r.framing()
}

// framing reads how the body is delimited (RFC 9112, section 6.3).
func (r *Response) framing() error {
	te, cl := r.Header.Values("Transfer-Encoding"), r.Header.Values("Content-Length")
	switch {
	case len(te) > 0 && len(cl) > 0:
		return errors.New("relaytest: answer has Transfer-Encoding and Content-Length")
	case len(te) == 1 && strings.EqualFold(te[0], "chunked"):
		r.Chunked = true
	case len(te) > 0:
		return fmt.Errorf("relaytest: Transfer-Encoding %q", te)
	case len(cl) == 1:
		n, err := strconv.ParseUint(cl[0], 10, 62)
		if err != nil {
			return fmt.Errorf("relaytest: Content-Length %q", cl[0])
		}
		r.length = int64(n)
	case len(cl) > 1:
		return fmt.Errorf("relaytest: Content-Length %q", cl)
	default:
		r.CloseDelimited = true
	}
	return nil
}

func (c *Conn) readBody(r *Response, deadline time.Time) error {
	switch {
	case r.Chunked:
		return c.readChunked(r, deadline)
	case r.CloseDelimited:
		for {
			if err := c.fill(deadline); errors.Is(err, io.EOF) {
				r.Body = append([]byte(nil), c.rest()...)
				c.skip(len(r.Body))
				return nil
			} else if err != nil {
				return err
			}
		}
	default:
		if err := c.need(int(r.length), deadline); err != nil {
			return fmt.Errorf("%w: %d of %d body bytes: %w", ErrTorn, c.Buffered(), r.length, err)
		}
		r.Body = append([]byte(nil), c.rest()[:r.length]...)
		c.skip(int(r.length))
		return nil
	}
}

func (c *Conn) readChunked(r *Response, deadline time.Time) error {
	for {
		piece, last, err := c.readChunk(deadline)
		if err != nil {
			return fmt.Errorf("%w: after %d chunks: %w", ErrTorn, len(r.Chunks), err)
		}
		if last {
			return nil
		}
		r.Chunks = append(r.Chunks, string(piece))
		r.Body = append(r.Body, piece...)
	}
}

// readChunk reads one whole chunk, or nothing of it. piece is borrowed until
// the next read. The last chunk may carry no trailer section.
func (c *Conn) readChunk(deadline time.Time) (piece []byte, last bool, err error) {
	eol, err := c.index("\r\n", 64, deadline)
	if err != nil {
		return nil, false, err
	}
	line := string(c.rest()[:eol])
	size, err := strconv.ParseUint(line, 16, 31)
	if err != nil {
		return nil, false, fmt.Errorf("relaytest: chunk size %q", line)
	}
	total := eol + 2 + int(size) + 2
	if err := c.need(total, deadline); err != nil {
		return nil, false, err
	}
	raw := c.rest()[:total]
	if raw[total-2] != '\r' || raw[total-1] != '\n' {
		return nil, false, fmt.Errorf("relaytest: chunk of %d bytes ends in %q", size, raw[total-2:])
	}
	c.skip(total)
	return raw[eol+2 : total-2], size == 0, nil
}
