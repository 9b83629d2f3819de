package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// lazily opens a lazy store in a directory that does not exist yet.
func lazily(t *testing.T) (l *Lazy, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	l, err := OpenLazily(Config{Path: filepath.Join(dir, "sync.db")}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, dir
}

// Reading makes nothing; the first write makes the directory and the database.
func TestLazyMakesTheDatabaseWithTheFirstWrite(t *testing.T) {
	l, dir := lazily(t)
	auth := Auth{Owner: "o", Hash: "h"}
	for what, err := range map[string]error{
		"Authorize": l.Authorize(auth),
		"Pull":      func() error { _, err := l.Pull(Pull{Auth: auth, Limit: 1}, nil); return err }(),
		"Status":    func() error { _, err := l.Status(auth); return err }(),
		"Blob":      func() error { _, err := l.Blob(auth, "x"); return err }(),
		"BlobSize":  func() error { _, err := l.BlobSize(auth, "x"); return err }(),
	} {
		if !errors.Is(err, ErrUnknownOwner) {
			t.Errorf("S13: %s of nobody: %v, want ErrUnknownOwner", what, err)
		}
	}
	if err := errors.Join(l.Admit(auth), l.Ping()); err != nil {
		t.Errorf("S13: anybody may register: %v", err)
	}
	l.CloseOwnerAsync(auth, func(_ Closed, err error) {
		if !errors.Is(err, ErrUnknownOwner) {
			t.Errorf("S42: close of nobody: %v", err)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading made the data directory: %v", err)
	}
	stored := make(chan error)
	for range 3 { // at once: one of them makes it
		l.PutBlobAsync(auth, "x", []byte("body"), func(_ bool, err error) { stored <- err })
	}
	for range 3 {
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	if n, err := l.BlobSize(auth, "x"); n != 4 || err != nil {
		t.Errorf("BlobSize: %d, %v", n, err)
	}
	if st := l.Stats(); st.Blobs != 1 || st.Owners != 1 {
		t.Errorf("Stats: %+v", st)
	}
}

// A database that cannot be made is told with each write, and by Ping, and tried
// again.
func TestLazyTriesAgain(t *testing.T) {
	l, dir := lazily(t)
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the directory is to be
		t.Fatal(err)
	}
	put := func() error {
		stored := make(chan error)
		l.PutBlobAsync(Auth{Owner: "o", Hash: "h"}, "x", nil, func(_ bool, err error) { stored <- err })
		return <-stored
	}
	if err := put(); err == nil || l.Ping() == nil {
		t.Fatalf("want an error, got %v, Ping %v", err, l.Ping())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := put(); err != nil || l.Ping() != nil {
		t.Errorf("after the obstacle went: %v, Ping %v", err, l.Ping())
	}
}

// What is there is opened at once, and a fault of it told then (S50).
func TestLazyOpensWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.db")
	s, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened := 0
	l, err := OpenLazily(Config{Path: path}, func() { opened++ })
	if err != nil {
		t.Fatal(err)
	}
	if l.Opened() == nil || opened != 1 {
		t.Error("a database that is there was not opened")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("this is no database, and long enough to be seen as none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLazily(Config{Path: path}, func() { opened++ }); err == nil {
		t.Error("a file that is no database was opened")
	}
}

func TestLazyAfterClose(t *testing.T) {
	l, _ := lazily(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error)
	l.PutBlobAsync(Auth{Owner: "o", Hash: "h"}, "x", nil, func(_ bool, err error) { stored <- err })
	if err := <-stored; !errors.Is(err, ErrStopped) {
		t.Errorf("write after Close: %v, want ErrStopped", err)
	}
}
