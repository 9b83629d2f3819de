package auth

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// writeFile writes a token file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadTokenFile(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		got, err := ReadTokenFile(writeFile(t, text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	f("one", "a\n", "a")
	f("without a line end", "a", "a")
	f("several", "a\nb\nc\n", "a", "b", "c")
	f("CRLF", "a\r\nb\r\n", "a", "b")
	f("white space around", " \ta \t\n\v b\f\n", "a", "b")
	f("blank lines", "\n \n\na\n\n\t\n", "a")
	f("comments", "# one\na\n  # two\n#b\n", "a")
	f("no comment behind a token", "a#b\n", "a#b")
	f("all visible ASCII", "!\"$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~\n", "!\"$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~")
	f("same twice", "a\na\n", "a", "a")
	longest := strings.Repeat("k", MaxFileTokenBytes)
	f("longest", longest+"\nb", longest, "b")
	most := slices.Repeat([]string{"k"}, MaxFileTokens)
	f("most", strings.Join(most, "\n")+"\n# end\n\n", most...)
}

// Errors name the path and the line, never the token (R15), and are one line.
func TestTokenFileErrors(t *testing.T) {
	const secret = "tok-SECRET123"
	f := func(name, path string, line int, want error) {
		t.Helper()
		got, err := ReadTokenFile(path)
		var wrong *TokenFileError
		if got != nil || !errors.Is(err, want) || !errors.As(err, &wrong) || wrong.Path != path || wrong.Line != line {
			t.Errorf("%s: %q, %v, want line %d: %v", name, got, err, line, want)
			return
		}
		if text := err.Error(); strings.Contains(text, secret) || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%s: shows a token or is not one line: %q", name, text)
		}
	}
	text := func(name, text string, line int, want error) {
		t.Helper()
		f(name, writeFile(t, text), line, want)
	}
	text("nothing", "", 0, ErrTokenFileEmpty)
	text("comments only", "# a\n\n \n", 0, ErrTokenFileEmpty)
	text("space inside", "a\n"+secret+" b\n", 2, ErrTokenText)
	text("tab inside", secret+"\tb", 1, ErrTokenText)
	text("NUL", "# c\n\n"+secret+"\x00\n", 3, ErrTokenText)
	text("DEL", secret+"\x7f\n", 1, ErrTokenText)
	text("carriage return inside", secret+"\rb\n", 1, ErrTokenText)
	text("not ASCII", secret+"\u00e9\n", 1, ErrTokenText)
	text("not UTF-8", secret+"\xff\n", 1, ErrTokenText)
	text("byte order mark", "\ufeff"+secret+"\n", 1, ErrTokenText)
	text("no-break space around", "\u00a0"+secret+" x\n", 1, ErrTokenText)
	text("too long", "a\n"+secret+strings.Repeat("k", MaxFileTokenBytes)+"\n", 2, ErrTokenLength)
	text("too many", strings.Repeat(secret+"\n", MaxFileTokens+1), MaxFileTokens+1, ErrTokenFileCount)
	text("file too long", "a\n"+strings.Repeat("#", maxTokenFileBytes), 0, ErrTokenFileSize)
	f("not there", filepath.Join(t.TempDir(), "none"), 0, fs.ErrNotExist)
	f("path of two lines", filepath.Join(t.TempDir(), "a\nb"), 0, fs.ErrNotExist)
	f("directory", t.TempDir(), 0, ErrTokenFileKind)

	// A pipe without a writer must not hold the reader up.
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	f("pipe", pipe, 0, ErrTokenFileKind)
}

// The bound on the file holds to the byte.
func TestTokenFileSize(t *testing.T) {
	f := func(size int, want error) {
		t.Helper()
		_, _, err := parseTokens(strings.NewReader("a\n" + strings.Repeat("#", size-2)))
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
	f(maxTokenFileBytes, nil)
	f(maxTokenFileBytes+1, ErrTokenFileSize)
}

// A read error is not the end of the file: half a set would lock clients out.
func TestTokenFileReadError(t *testing.T) {
	broken := errors.New("broken")
	r := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("a\nb\n")))
	if got, _, err := parseTokens(r); got != nil || !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%q, %v", got, err)
	}
	if got, _, err := parseTokens(iotest.ErrReader(broken)); got != nil || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTokenFileWarning(t *testing.T) {
	path := writeFile(t, "a\n")
	f := func(mode fs.FileMode, want bool) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		err := TokenFileWarning(path)
		if errors.Is(err, ErrTokenFileMode) != want || (err != nil) != want {
			t.Errorf("%04o: %v, want a warning: %v", mode, err, want)
		}
		if want && !strings.Contains(err.Error(), "tokens") {
			t.Errorf("%04o: no path in %v", mode, err)
		}
	}
	f(0o600, false)
	f(0o400, false)
	f(0o640, false) // a group that may read is how services share a file
	f(0o440, false)
	f(0o660, true)
	f(0o644, true)
	f(0o602, true)
	if err := TokenFileWarning(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("no file: %v", err)
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte("a\n# b\n\n c \r\n"))
	f.Add([]byte("a b"))
	f.Add([]byte("\xef\xbb\xbfa"))
	f.Add([]byte("a\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tokens, line, err := parseTokens(bytes.NewReader(text))
		if err != nil {
			if tokens != nil || line > bytes.Count(text, []byte("\n"))+1 {
				t.Errorf("%q: %q at line %d: %v", text, tokens, line, err)
			}
			return
		}
		a := New(tokens...)
		for _, token := range tokens {
			if !a.Allow([]byte("Bearer "+token), "") || !bytes.Contains(text, []byte(token)) {
				t.Errorf("%q: token %q", text, token)
			}
		}
		again, _, err := parseTokens(strings.NewReader(strings.Join(tokens, "\n")))
		if err != nil || !slices.Equal(again, tokens) {
			t.Errorf("%q: read back %q, %v, want %q", text, again, err, tokens)
		}
	})
}
