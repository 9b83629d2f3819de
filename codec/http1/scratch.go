package http1

import (
	"bufio"
	"bytes"

	"github.com/valyala/fasthttp"
)

const (
	scratchReaderBytes = 8 << 10 // heads beyond it are rare

	// fasthttp keeps a buffer per field number, each as large as the largest
	// value that ever stood there. Heads of at most smallHeadBytes, which have
	// at most a quarter as many fields, can blow that up to 2 MiB in all;
	// longer ones add at most their own length each, so fasthttp's header is
	// made anew after longHeadBudgetBytes of them.
	smallHeadBytes      = 4 << 10
	longHeadBudgetBytes = 2 << 20
)

// Scratch is the working memory for reading heads. One serves all connections
// of a loop, because a head is read in one step. It is a few kilobytes, and
// bounded by about 10 MiB whatever heads come. Loop only.
type Scratch struct {
	// Owned by the loop.

	head  Head
	spare []byte // a parser's buffer for heads in pieces, or nil

	request       *fasthttp.RequestHeader
	longHeadBytes int // long heads that request has read
	input         bytes.Reader
	reader        *bufio.Reader
}

// NewScratch returns the scratch for one loop.
func NewScratch() *Scratch {
	return &Scratch{
		request: new(fasthttp.RequestHeader),
		reader:  bufio.NewReaderSize(nil, scratchReaderBytes),
	}
}

// readHead reads block, a head with all its line ends and an empty line at its
// end, into s.head. block is borrowed until return.
func (s *Scratch) readHead(block []byte) *Error {
	s.reset(block)
	at, fail := s.head.readRequestLine()
	if fail != nil {
		return fail
	}
	if fail = s.head.readTarget(); fail != nil {
		return fail
	}
	if fail = s.head.readFields(at); fail != nil {
		return fail
	}
	if !s.secondOpinion() {
		return ErrParsersDisagree
	}
	return nil
}

// reset copies block, so that the head outlives the input, and forgets the head
// before it.
func (s *Scratch) reset(block []byte) {
	s.head = Head{
		block:  append(s.head.block[:0], block...),
		fields: s.head.fields[:0],
	}
	if len(block) <= smallHeadBytes {
		return
	}
	if s.longHeadBytes += len(block); s.longHeadBytes > longHeadBudgetBytes {
		s.request = new(fasthttp.RequestHeader)
		s.longHeadBytes = len(block)
	}
}

// secondOpinion lets fasthttp read the same block and tells whether it comes to
// the same end, request line, host and framing.
func (s *Scratch) secondOpinion() bool {
	h := &s.head
	if len(h.block) > s.reader.Size() {
		s.reader = bufio.NewReaderSize(nil, HeadBytes)
	}
	s.input.Reset(h.block)
	s.reader.Reset(&s.input)
	if s.request.Read(s.reader) != nil || s.reader.Buffered()+s.input.Len() != 0 {
		return false
	}
	length := int64(s.request.ContentLength())
	if length == -2 { // fasthttp's word for no body
		length = 0
	}
	return length == h.ContentLength &&
		s.request.IsHTTP11() == (h.Minor == 1) &&
		bytes.Equal(s.request.Method(), h.Method) &&
		bytes.Equal(s.request.RequestURI(), h.Target) &&
		bytes.Equal(s.request.Host(), h.Header("Host"))
}
