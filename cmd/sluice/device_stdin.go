package main

import (
	"context"
	"io"
)

// stdinBytes is how much of standard input is read at once.
const stdinBytes = 64 << 10

// stdin returns standard input for a command that a signal ends, also while
// nothing comes.
func (r *deviceRun) stdin(ctx context.Context) io.Reader {
	return &stoppable{ctx: ctx, in: r.cmd.Root().Reader, done: make(chan readResult, 1)}
}

// stoppable reads until its context ends. A read that has begun then is left to
// itself, with the bytes that it gets. One goroutine.
type stoppable struct {
	ctx  context.Context
	in   io.Reader
	buf  [stdinBytes]byte // owned by the read that has begun
	done chan readResult  // of one place
}

// readResult is what a read came to.
type readResult struct {
	n   int
	err error
}

// Read implements io.Reader.
func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	part := s.buf[:min(len(p), len(s.buf))]
	go func() {
		n, err := s.in.Read(part)
		s.done <- readResult{n, err}
	}()
	select {
	case r := <-s.done:
		return copy(p, part[:r.n]), r.err
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}
