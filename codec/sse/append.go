package sse

import (
	"bytes"
	"strconv"
	"strings"
)

// lineBreakers are the characters that end a line of the stream, and NUL, with
// which an id is ignored by every client (WHATWG HTML, section 9.2.6).
const lineBreakers = "\r\n\x00"

// AppendEvent appends one event (R272):
//
//	event: <type>
//	data: <event text, one line>
//	id: <session>:<epoch>:<seq>
//
// and a blank line. The id line is left out when id is empty, the event line
// when typ is. Callers pass data for which IsOneLine is true and a type of the
// protocol's grammar; should they not, E1 still holds: a type or an id with CR,
// LF or NUL is left out (R273), and data is written as one data field for each
// of its lines.
func AppendEvent(dst []byte, typ string, data, id []byte) []byte {
	if typ != "" && !breaksLine(typ) {
		dst = append(dst, "event: "...)
		dst = append(dst, typ...)
		dst = append(dst, '\n')
	}
	dst = appendData(dst, data)
	if len(id) > 0 && !breaksLine(id) {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

// breaksLine tells if s, which is short, has one of lineBreakers. It takes half
// the time of ContainsAny, which builds a set first.
func breaksLine[S string | []byte](s S) bool {
	for i := range len(s) {
		if c := s[i]; c == '\r' || c == '\n' || c == 0 {
			return true
		}
	}
	return false
}

// appendData appends a data field for each line of data: by contract one.
func appendData(dst, data []byte) []byte {
	if IsOneLine(data) {
		return appendDataLine(dst, data)
	}
	for {
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			return appendDataLine(dst, data)
		}
		dst = appendDataLine(dst, data[:end])
		if bytes.HasPrefix(data[end:], []byte("\r\n")) {
			end++
		}
		data = data[end+1:]
	}
}

func appendDataLine(dst, line []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, line...)
	return append(dst, '\n')
}

// AppendComment appends a comment and a blank line: ": <text>". CR, LF and NUL
// in text are written %0D, %0A and %00 (R274).
func AppendComment(dst []byte, text string) []byte {
	return append(appendCommentLine(dst, text), '\n')
}

// AppendRetryOpen appends the first block of a stream (R274): a comment, by
// contract "open <boot>", and the reconnection time in milliseconds, which is
// left out if it is negative. The block dispatches no event.
func AppendRetryOpen(dst []byte, comment string, retryMillis int) []byte {
	dst = appendCommentLine(dst, comment)
	if retryMillis >= 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, int64(retryMillis), 10)
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

func appendCommentLine(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	for {
		i := strings.IndexAny(text, lineBreakers)
		if i < 0 {
			dst = append(dst, text...)
			return append(dst, '\n')
		}
		dst = append(dst, text[:i]...)
		switch text[i] {
		case '\r':
			dst = append(dst, "%0D"...)
		case '\n':
			dst = append(dst, "%0A"...)
		default:
			dst = append(dst, "%00"...)
		}
		text = text[i+1:]
	}
}

// IsOneLine tells if text has neither CR nor LF, so that it fits one data
// field.
func IsOneLine(text []byte) bool {
	return bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0
}
