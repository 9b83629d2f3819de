package auth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Bounds of a token file. A longer token would not fit into a request head
// beside everything else; the whole leaves room for as many comments as
// tokens.
const (
	MaxFileTokens     = 1000
	MaxFileTokenBytes = 4 << 10
	maxTokenFileBytes = 8 << 20
)

// Causes of a [TokenFileError].
var (
	ErrTokenFileKind  = errors.New("not a regular file, so it could not be read again")
	ErrTokenFileSize  = fmt.Errorf("longer than %d bytes", maxTokenFileBytes)
	ErrTokenFileEmpty = errors.New("holds no token")
	ErrTokenFileCount = fmt.Errorf("more than %d tokens", MaxFileTokens)
	ErrTokenLength    = fmt.Errorf("the token is longer than %d bytes", MaxFileTokenBytes)
	ErrTokenText      = errors.New("the token is not visible ASCII without spaces")
	ErrTokenFileMode  = errors.New("the file's mode lets other users read or change it")
)

// TokenFileError says what is wrong with a token file. It never holds a
// token (R15).
type TokenFileError struct {
	Path string
	Line int // counts from 1; 0 when it is not about one line
	Err  error
}

// Error implements error with one line: the path, the line and what is wrong.
func (e *TokenFileError) Error() string {
	if e.Line == 0 {
		return strconv.Quote(e.Path) + ": " + e.Err.Error()
	}
	return strconv.Quote(e.Path) + " line " + strconv.Itoa(e.Line) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *TokenFileError) Unwrap() error { return e.Err }

// ReadTokenFile returns the tokens of a file: one a line, without the white
// space around it. Blank lines and lines that start with # do not count. A
// file without a token is an error, since it would turn authentication off
// unseen, and so is anything but a regular file: a pipe could not be read a
// second time and might never end. The error is a [*TokenFileError]. Reads a
// file, so not for a loop; any other goroutine.
func ReadTokenFile(path string) ([]string, error) {
	// Without O_NONBLOCK opening a named pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, &TokenFileError{Path: path, Err: bare(err)}
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, &TokenFileError{Path: path, Err: bare(err)}
	}
	if !info.Mode().IsRegular() {
		return nil, &TokenFileError{Path: path, Err: ErrTokenFileKind}
	}
	tokens, line, err := parseTokens(f)
	if err != nil {
		return nil, &TokenFileError{Path: path, Line: line, Err: bare(err)}
	}
	return tokens, nil
}

// TokenFileWarning returns a [*TokenFileError] for a file that other users of
// the machine may read or change, nil for one that is private or is not
// there. It is worth a log line, not a refusal: where the mode is not the
// owner's to choose, as in a container, nobody else may be there. Asks the
// file system, so not for a loop.
func TokenFileWarning(path string) error {
	const othersReadOrWrite, groupWrites = 0o006, 0o020
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&(othersReadOrWrite|groupWrites) == 0 {
		return nil
	}
	return &TokenFileError{Path: path, Err: fmt.Errorf("%w: %04o", ErrTokenFileMode, info.Mode().Perm())}
}

// bare takes the path out of an error of package os; [TokenFileError] quotes
// it.
func bare(err error) error {
	if withPath, ok := errors.AsType[*fs.PathError](err); ok {
		return withPath.Err
	}
	return err
}

// parseTokens reads tokens as [ReadTokenFile] defines it, and returns with an
// error the line that it is about, or 0.
func parseTokens(r io.Reader) (tokens []string, line int, err error) {
	limited := &io.LimitedReader{R: r, N: maxTokenFileBytes + 1}
	lines := bufio.NewReader(limited)
	for line = 1; err == nil; line++ {
		var text []byte
		text, err = lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		if limited.N == 0 {
			return nil, 0, ErrTokenFileSize
		}
		token := bytes.TrimSpace(text)
		switch {
		case len(token) == 0 || token[0] == '#':
			continue
		case len(token) > MaxFileTokenBytes:
			return nil, line, ErrTokenLength
		case bytes.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
			return nil, line, ErrTokenText
		case len(tokens) == MaxFileTokens:
			return nil, line, ErrTokenFileCount
		}
		tokens = append(tokens, string(token))
	}
	if len(tokens) == 0 {
		return nil, 0, ErrTokenFileEmpty
	}
	return tokens, 0, nil
}
