package relaytest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Block is one block of an event stream: the lines up to a blank line.
type Block struct {
	Raw      string // lines, the blank line excluded
	Fields   []string
	Event    string
	Data     string
	ID       string
	HasID    bool
	Retry    string
	Comments []string // text after ": " of each comment line
}

// IsEvent tells whether the block dispatches an event.
func (b Block) IsEvent() bool { return b.Data != "" }

// StreamOptions say how a stream is asked for.
type StreamOptions struct {
	Token       string   // sent as Authorization: Bearer
	LastEventID string   // sent as Last-Event-ID
	Headers     []string // further raw header lines, without line end
	HTTP10      bool     // ask in HTTP/1.0
	RecvBytes   int      // receive buffer of the socket
}

// Stream is a client of a text/event-stream.
type Stream struct {
	*Conn
	Response *Response
	// Misaligned counts chunks that do not end with a whole block (R272a).
	Misaligned int

	text  []byte
	ended error
}

// OpenStream asks for target (path and query) and reads the answer's head. An
// answer that is not 200 is read to its end, and returned with a nil error.
func OpenStream(addr, target string, o StreamOptions) (*Stream, error) {
	c, err := DialRecvBuf(addr, o.RecvBytes)
	if err != nil {
		return nil, err
	}
	if err := c.SendString(o.request(addr, target)); err != nil {
		_ = c.Close()
		return nil, err
	}
	s := &Stream{Conn: c}
	deadline := time.Now().Add(headTimeout)
	if s.Response, err = c.readHead(deadline); err == nil && s.Response.Status != http.StatusOK {
		err = c.readBody(s.Response, deadline)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("relaytest: GET %s: %w", target, err)
	}
	return s, nil
}

func (o StreamOptions) request(addr, target string) string {
	var b strings.Builder
	proto := "HTTP/1.1"
	if o.HTTP10 {
		proto = "HTTP/1.0"
	}
	fmt.Fprintf(&b, "GET %s %s\r\nHost: %s\r\nAccept: text/event-stream\r\n", target, proto, addr)
	if o.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.Token)
	}
	if o.LastEventID != "" {
		fmt.Fprintf(&b, "Last-Event-ID: %s\r\n", o.LastEventID)
	}
	for _, h := range o.Headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// Next returns the next block. It returns io.EOF after a clean end (the last
// chunk, or the close of an unchunked stream at a block border), ErrTorn after
// an end anywhere else, and a timeout error when nothing whole came in time.
func (s *Stream) Next(timeout time.Duration) (Block, error) {
	deadline := time.Now().Add(timeout)
	for {
		if i := bytes.Index(s.text, []byte("\n\n")); i >= 0 {
			raw := string(s.text[:i])
			s.text = s.text[i+2:]
			return parseBlock(raw)
		}
		if s.ended != nil {
			return Block{}, s.ended
		}
		if err := s.more(deadline); err != nil {
			return Block{}, err
		}
	}
}

func (s *Stream) more(deadline time.Time) error {
	if s.Response.Chunked {
		piece, last, err := s.readChunk(deadline)
		switch {
		case IsTimeout(err):
			return err
		case err != nil:
			s.ended = fmt.Errorf("%w: %w", ErrTorn, err)
		case last:
			s.end()
		default:
			s.text = append(s.text, piece...)
			if !bytes.HasSuffix(piece, []byte("\n\n")) {
				s.Misaligned++
			}
		}
		return nil
	}
	if s.Buffered() == 0 {
		err := s.fill(deadline)
		switch {
		case errors.Is(err, io.EOF):
			s.end()
			return nil
		case err != nil && !IsTimeout(err):
			s.ended = fmt.Errorf("%w: %w", ErrTorn, err)
			return nil
		case err != nil:
			return err
		}
	}
	s.text = append(s.text, s.rest()...)
	s.skip(s.Buffered())
	return nil
}

func (s *Stream) end() {
	s.ended = io.EOF
	if len(s.text) > 0 {
		s.ended = fmt.Errorf("%w: block %q", ErrTorn, clip(s.text))
	}
}

// parseBlock reads the fields of a block. Line ends are LF only, and a field
// has exactly one space after its colon (R272).
func parseBlock(raw string) (Block, error) {
	b := Block{Raw: raw}
	var data []string
	for line := range strings.SplitSeq(raw, "\n") {
		if strings.Contains(line, "\r") {
			return b, fmt.Errorf("relaytest: CR in stream line %q", line)
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return b, fmt.Errorf("relaytest: stream line %q has no colon and space", line)
		}
		b.Fields = append(b.Fields, name)
		switch name {
		case "":
			b.Comments = append(b.Comments, value)
		case "event":
			b.Event = value
		case "data":
			data = append(data, value)
		case "id":
			b.ID, b.HasID = value, true
		case "retry":
			b.Retry = value
		default:
			return b, fmt.Errorf("relaytest: unknown stream field %q", line)
		}
	}
	b.Data = strings.Join(data, "\n")
	return b, nil
}
