package device

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const somePhrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"

// Hard case 13: a wrong credential creates nothing, and the error does not tell
// it (D5).
func TestCreateRefusesWrongCredentials(t *testing.T) {
	f := func(credential, name string, want error) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "a", "b")
		_, err := Create(dir, credential, name, Options{})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v left something: %v", want, err)
		}
		for _, word := range strings.Fields(credential) {
			if err != nil && len(word) > 3 && strings.Contains(err.Error(), word) {
				t.Errorf("the error tells %q: %v", word, err)
			}
		}
	}
	f(strings.Replace(somePhrase, "yellow", "zebra", 1), "", synccrypt.ErrCredential)
	f(somePhrase+" yellow", "", synccrypt.ErrCredential)
	f(strings.Replace(somePhrase, "sausage", "sausagee", 1), "", synccrypt.ErrCredential)
	f("sf1_short", "", synccrypt.ErrCredential)
	f("", "", synccrypt.ErrCredential)
	f(somePhrase, "Big Name", ErrDeviceName)
	f(somePhrase, strings.Repeat("n", 65), ErrDeviceName)
}

func TestCreateAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "device")
	d, err := Create(dir, "  "+strings.ToUpper(strings.ReplaceAll(somePhrase, " ", "\n"))+" ", "laptop", Options{})
	if err != nil {
		t.Fatal(err)
	}
	putRow(t, d, "t", "1", `{"b":1, "a":2}`)
	owner := d.OwnerID()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{".": 0o700, credentialFile: 0o600, chunksDir: 0o700, databaseFile: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, credentialFile))
	if err != nil || string(text) != somePhrase+"\n" {
		t.Errorf("the credential's file has %q, %v", text, err)
	}

	// A second creation changes nothing, whatever the credential.
	for _, credential := range []string{somePhrase, newKey(t)} {
		if _, err := Create(dir, credential, "", Options{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("created twice: %v", err)
		}
	}
	d, err = Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	wantRow(t, d, "t", "1", `{"a":2,"b":1}`)
	if d.OwnerID() != owner || d.DeviceID() != "laptop" {
		t.Errorf("owner %s, device %s", d.OwnerID(), d.DeviceID())
	}

	other := newTestDevice(t, newKey(t), "")
	if name := other.DeviceID(); !synccrypt.ValidDeviceID(name) || !strings.HasPrefix(name, "d-") {
		t.Errorf("a drawn name is %q", name)
	}
}

// What a crash leaves of a creation is taken up with the same credential, and
// with no other.
func TestCreateAfterCut(t *testing.T) {
	key := newKey(t)
	for _, cut := range []func(place) error{
		func(p place) error { return p.write(credentialFile, key) },
		func(p place) error { return os.WriteFile(p.path(writtenFile), []byte(key[:9]), 0o600) },
		func(p place) error {
			return errors.Join(p.write(credentialFile, key), os.WriteFile(p.path(databaseFile), nil, 0o600))
		},
	} {
		dir := t.TempDir()
		if err := cut(place(dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opened: %v", err)
		}
		if place(dir).has(credentialFile) {
			if _, err := Create(dir, newKey(t), "", Options{}); !errors.Is(err, fs.ErrExist) {
				t.Errorf("created with another credential: %v", err)
			}
		}
		d, err := Create(dir, key, "", Options{})
		if err != nil {
			t.Errorf("not taken up: %v", err)
			continue
		}
		putRow(t, d, "t", "1", `{}`)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A creation that fails leaves no credential: it can be repeated with another.
// One that is refused leaves the database.
func TestCreateFails(t *testing.T) {
	dir := t.TempDir()
	inTheWay := filepath.Join(dir, databaseFile+"-wal")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if d, err := Create(dir, newKey(t), "", Options{}); err == nil {
		t.Error("created without a log", d.Close())
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	d, err := Create(dir, key, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	putRow(t, d, "t", "1", `{}`)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := place(dir).remove(credentialFile); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, newKey(t), "", Options{}); !errors.Is(err, fs.ErrExist) || place(dir).has(credentialFile) {
		t.Errorf("created over a database: %v", err)
	}
	if err := place(dir).write(credentialFile, key); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	wantRow(t, d, "t", "1", `{}`)
}

func TestOpenRefuses(t *testing.T) {
	key := newKey(t)
	f := func(want error, spoil func(dir string) error) {
		t.Helper()
		d := newTestDevice(t, key, "")
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := spoil(d.dir); err != nil {
			t.Fatal(err)
		}
		_, err := Open(d.dir, Options{})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if err != nil && strings.Contains(err.Error(), key[4:]) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	f(fs.ErrNotExist, os.RemoveAll)
	f(fs.ErrNotExist, func(dir string) error { return os.Remove(filepath.Join(dir, databaseFile)) })
	f(fs.ErrNotExist, func(dir string) error { return os.Remove(filepath.Join(dir, credentialFile)) })
	f(ErrMode, func(dir string) error { return os.Chmod(filepath.Join(dir, credentialFile), 0o640) })
	f(ErrOwner, func(dir string) error { return place(dir).write(credentialFile, newKey(t)) })
	f(synccrypt.ErrCredential, func(dir string) error { return place(dir).write(credentialFile, key+"x") })
	f(ErrCredentialSize, func(dir string) error { return place(dir).write(credentialFile, strings.Repeat(key, 200)) })
	f(ErrNoCredential, func(dir string) error { return place(dir).write(credentialFile, "") })
	f(devicestore.ErrUnreadable, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, databaseFile), []byte(strings.Repeat("no database", 999)), 0o600)
	})
}

// D39: whatever a crash leaves of a change of owner, the next start finishes or
// undoes it, and the one after that finds nothing to do.
func TestSettleAfterCut(t *testing.T) {
	from, to := newKey(t), newKey(t)
	id := func(key string) *synccrypt.Identity {
		id, _, err := synccrypt.ParseCredential(key)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	rekey := func(p place) error {
		s, err := devicestore.Open(p.path(databaseFile), devicestore.Options{})
		if err != nil {
			return err
		}
		return errors.Join(s.Rekey(id(from).OwnerID, id(to).OwnerID), s.Close())
	}
	steps := []func(place) error{
		func(p place) error { return os.WriteFile(p.path(writtenFile), []byte(to[:20]), 0o600) },
		func(p place) error { return p.write(nextFile, to) },
		rekey,
		func(p place) error { return p.rename(credentialFile, oldFile) },
		func(p place) error { return p.rename(nextFile, credentialFile) },
	}
	d := newTestDevice(t, from, "")
	putRow(t, d, "t", "1", `{}`)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for done := range len(steps) + 1 {
		dir := copyDir(t, d.dir)
		for _, step := range steps[:done] {
			if err := step(place(dir)); err != nil {
				t.Fatal(err)
			}
		}
		want, files := id(from).OwnerID, []string{credentialFile}
		if done > 2 {
			want, files = id(to).OwnerID, []string{credentialFile, oldFile}
		}
		for range 2 {
			d, err := Open(dir, Options{})
			if err != nil {
				t.Errorf("after %d steps: %v", done, err)
				break
			}
			wantRow(t, d, "t", "1", `{}`)
			if d.OwnerID() != want {
				t.Errorf("after %d steps the owner is %s, want %s", done, d.OwnerID(), want)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			var left []string
			for _, name := range []string{credentialFile, nextFile, oldFile, writtenFile} {
				if place(dir).has(name) {
					left = append(left, name)
				}
			}
			if !slices.Equal(left, files) {
				t.Errorf("after %d steps there are %v, want %v", done, left, files)
			}
		}
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockPath(dir, syscall.LOCK_SH, 0)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := lockPath(dir, syscall.LOCK_SH, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockPath(dir, syscall.LOCK_EX, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("locked twice: %v", err)
	}
	shared()
	unlock()
	alone, err := place(dir).lock()
	if err != nil {
		t.Fatal(err)
	}
	defer alone()
	if _, err := lockPath(dir, syscall.LOCK_SH, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("shared with who is alone: %v", err)
	}
}

func TestReadCredential(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "phrase")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := func(text, want string, wantErr error) {
		t.Helper()
		fromFile, err1 := ReadCredential(file(text), nil)
		fromInput, err2 := ReadCredential("-", strings.NewReader(text))
		trimmed, err3 := TrimCredential(text)
		for i, got := range []string{fromFile, fromInput, trimmed} {
			if err := []error{err1, err2, err3}[i]; got != want || !errors.Is(err, wantErr) {
				t.Errorf("%d bytes: %q, %v; want %q, %v", len(text), got, err, want, wantErr)
			}
		}
	}
	f(somePhrase, somePhrase, nil)
	f("\n\t "+somePhrase+" \r\n", somePhrase, nil)
	f("", "", ErrNoCredential)
	f(" \n", "", ErrNoCredential)
	f(strings.Repeat("x", maxCredentialBytes), strings.Repeat("x", maxCredentialBytes), nil)
	f(strings.Repeat("x", maxCredentialBytes+1), "", ErrCredentialSize)
	if _, err := ReadCredential(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadCredential("-", errorReader{}); !errors.Is(err, errCut) {
		t.Errorf("broken input: %v", err)
	}
}
