//go:build linux

package load

import (
	"bytes"
	"errors"
	"strconv"
)

var errAnswer = errors.New("malformed or endless answer (RFC 9112)")

// answerOf returns the length and status of the HTTP answer that b begins with;
// the length is 0 if it is not complete yet. ends reports that the server will
// close the connection behind it.
func answerOf(b []byte) (length, status int, ends bool, err error) {
	i := bytes.Index(b, []byte("\r\n\r\n"))
	if i < 0 {
		return 0, 0, false, nil
	}
	head, body := b[:i+4], b[i+4:]
	if status = statusOf(head); status < 200 {
		return 0, 0, false, errAnswer
	}
	n := 0
	switch value := field(head, "content-length"); {
	case isChunked(head):
		if n, err = chunkedLength(body); n == 0 || err != nil {
			return 0, 0, false, err
		}
	case value != nil:
		if n, err = strconv.Atoi(string(value)); err != nil || n < 0 {
			return 0, 0, false, errAnswer
		}
	case status != 204 && status != 304:
		return 0, 0, false, errAnswer // until the connection ends
	}
	if n > len(body) {
		return 0, 0, false, nil
	}
	return len(head) + n, status, bytes.EqualFold(field(head, "connection"), []byte("close")), nil
}

// chunkedLength returns the length of a chunked body with all its framing, 0 if
// it is not complete yet.
func chunkedLength(body []byte) (int, error) {
	at := 0
	for {
		end := bytes.IndexByte(body[at:], '\n')
		if end < 0 {
			return 0, nil
		}
		line := bytes.TrimSpace(body[at : at+end])
		if semicolon := bytes.IndexByte(line, ';'); semicolon >= 0 {
			line = bytes.TrimSpace(line[:semicolon])
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return 0, errAnswer
		}
		at += end + 1
		if size == 0 {
			return trailerEnd(body, at), nil
		}
		if at += int(size) + 2; at > len(body) {
			return 0, nil
		}
		if body[at-2] != '\r' || body[at-1] != '\n' {
			return 0, errAnswer
		}
	}
}

// trailerEnd returns the end of the trailer section that begins at at, 0 if it
// is not complete yet.
func trailerEnd(body []byte, at int) int {
	for {
		end := bytes.IndexByte(body[at:], '\n')
		if end < 0 {
			return 0
		}
		blank := len(bytes.TrimSpace(body[at:at+end])) == 0
		if at += end + 1; blank {
			return at
		}
	}
}
