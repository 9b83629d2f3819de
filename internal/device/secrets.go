package device

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxCredentialBytes bounds what is read as a credential. The longest phrase
// has 24 words of at most 8 letters; the rest is room for blanks and notes.
const maxCredentialBytes = 4 << 10

// What can be wrong with a credential before it is parsed. The errors never
// hold it (D5).
var (
	ErrNoCredential   = errors.New("no phrase or key given")
	ErrCredentialSize = fmt.Errorf("a phrase or key is at most %d bytes", maxCredentialBytes)
)

// ReadCredential reads a credential (D5) from the file at path, or from stdin
// if path is "-", without the white space around it. A pipe will do for a
// file. There is no form for an argument: others could read it in the list of
// processes. The errors are those of the file, ErrNoCredential and
// ErrCredentialSize.
func ReadCredential(path string, stdin io.Reader) (string, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }() // only read from
		stdin = f
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxCredentialBytes+1))
	if err != nil {
		return "", fmt.Errorf("reading the phrase or key: %w", err)
	}
	return TrimCredential(string(text))
}

// TrimCredential returns a credential (D5), such as the value of an environment
// variable, without the white space around it. The error is ErrNoCredential or
// ErrCredentialSize.
func TrimCredential(text string) (string, error) {
	if len(text) > maxCredentialBytes {
		return "", ErrCredentialSize
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", ErrNoCredential
	}
	return text, nil
}
