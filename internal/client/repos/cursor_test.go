package repos

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// F3, F15: digits only, and within a stream's numbers.
func TestParseCursor(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "00042": 42, "9007199254740991": firehose.MaxSeq} {
		if got, err := ParseCursor(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", " 1", "1.5", "abc", "0x1", "1_0", "9007199254740992", "99999999999999999999999"} {
		if got, err := ParseCursor(text); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func cursorIn(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return string(text)
}

// One run goes on where the last one ended, and the file goes before Cursor.
func TestCursorFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor")
	var cursors []string
	s := startScript(t, func(n int64, w *wire) {
		cursors = append(cursors, w.r.URL.Query().Get("cursor"))
		w.say(identity(t, 10*n), identity(t, 10*n+1))
		w.hold()
	})
	for n, file := range []string{"11\n", "20\n", "31\n"} {
		count := 2
		if n == 1 {
			count = 1 // the frame behind it was read, and is not in the file
		}
		r := startFollow(t, Options{Relay: at(t, s.URL), CursorFile: path, Count: int64(count), Cursor: 5, HasCursor: true}, newCollector())
		if err := r.wait(t); err != nil {
			t.Fatal(err)
		}
		if got := cursorIn(t, path); got != file {
			t.Errorf("run %d leaves %q, want %q", n, got, file)
		}
	}
	if got := strings.Join(cursors, " "); got != "5 11 20" {
		t.Errorf("cursors %s", got)
	}
}

// T1: a number whose frame could not be flushed is not saved; the one before it
// is, also at the end.
func TestCursorIsNotAheadOfTheOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor")
	flushed := make(chan struct{})
	s := startScript(t, func(_ int64, w *wire) {
		w.say(identity(t, 1))
		<-flushed
		w.say(identity(t, 2))
		w.hold()
	})
	broken := errors.New("broken")
	c := newCollector()
	var seen int64
	once := false
	c.frame = func(f *firehose.Frame) error { seen = f.Seq; return nil }
	c.flush = func() error {
		if seen == 2 {
			return broken
		}
		if seen == 1 && !once {
			once = true
			close(flushed)
		}
		return nil
	}
	r := startFollow(t, Options{Relay: at(t, s.URL), CursorFile: path}, c)
	if err := r.wait(t); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got := cursorIn(t, path); got != "1\n" {
		t.Errorf("file has %q", got)
	}
}

// A file that cannot be used is an error before anything is asked, and stays.
func TestBadCursorFiles(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) { t.Error("a connection was made") })
	for _, text := range []string{"", "x", "-1\n", "1 2", strings.Repeat(" ", 100) + "1"} {
		path := filepath.Join(t.TempDir(), "cursor")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Follow(t.Context(), Options{Relay: at(t, s.URL), CursorFile: path}, newCollector())
		if !errors.Is(err, ErrCursorFile) || cursorIn(t, path) != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Follow(t.Context(), Options{Relay: at(t, s.URL), CursorFile: t.TempDir()}, newCollector()); !errors.Is(err, ErrCursorFile) {
		t.Errorf("a directory: %v", err)
	}
}

// A file that cannot be written is told, and is the error at the end.
func TestCursorFileThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "cursor")
	s := startScript(t, func(_ int64, w *wire) {
		w.say(identity(t, 1))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), CursorFile: path}, c)
	c.await(t, "# the cursor cannot be saved: cursor file: ")
	if err := r.end(t); !errors.Is(err, ErrCursorFile) {
		t.Error(err)
	}
}
