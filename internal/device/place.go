package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// The files of a device's directory. The credentials change only under the
// directory's lock.
const (
	databaseFile   = "device.db"
	credentialFile = "credential"      // whose data the database holds
	nextFile       = "credential.next" // of the owner that a re-key goes to
	oldFile        = "credential.old"  // of the owner that is still to be closed
	writtenFile    = "credential.tmp"  // one that is being written
	chunksDir      = "chunks"
)

// lockPatience is how long one process waits for another that holds a lock.
// Locks of the directory are held for a few writes of small files.
const lockPatience = 5 * time.Second

// Errors of a device's directory.
var (
	ErrBusy  = errors.New("another process is changing this device")
	ErrOwner = errors.New("the credential is not of the owner whose data the database holds")
	ErrMode  = errors.New("others than its user can read the credential")
)

// place is a device's directory: where the credentials are, and who may change
// them. Immutable.
type place string

func (p place) path(name string) string { return filepath.Join(string(p), name) }

// lock keeps other processes, and other goroutines of this one, from changing
// the credentials. The error is ErrBusy when that takes too long.
func (p place) lock() (unlock func(), err error) {
	return lockPath(string(p), syscall.LOCK_EX, lockPatience)
}

// lockPath locks a file or directory in a way that ends with the process
// (flock(2)), and that different openings of one process exclude too.
func lockPath(path string, how int, patience time.Duration) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks it
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			break
		}
		if !time.Now().Before(deadline) {
			err = ErrBusy
			break
		}
	}
	_ = f.Close()
	return nil, fmt.Errorf("locking %q: %w", path, err)
}

// has tells whether a file is there.
func (p place) has(name string) bool {
	_, err := os.Lstat(p.path(name))
	return err == nil
}

// read returns the credential in a file, nil and "" when there is no such
// file. One that others can read is refused: it is as good as published. The
// errors never hold the credential.
func (p place) read(name string) (*synccrypt.Identity, string, error) {
	path := p.path(name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case info.Mode().Perm()&0o077 != 0:
		return nil, "", fmt.Errorf("%w: %q has mode %04o; run chmod 600 on it, and re-key if somebody may have read it",
			ErrMode, path, info.Mode().Perm())
	}
	text, err := ReadCredential(path, nil)
	if err != nil {
		return nil, "", fmt.Errorf("%q: %w", path, err)
	}
	id, text, err := synccrypt.ParseCredential(text)
	if err != nil {
		return nil, "", fmt.Errorf("%q: %w", path, err)
	}
	return id, text, nil
}

// write makes a file of a credential, one line, and brings it to the medium
// under its name whole or not at all. It replaces one that is there. The
// caller holds the lock.
func (p place) write(name, credential string) error {
	err := writeSynced(p.path(writtenFile), []byte(credential+"\n"))
	if err != nil {
		_ = os.Remove(p.path(writtenFile))
		return err
	}
	return p.rename(writtenFile, name)
}

// rename gives a file another name, durably.
func (p place) rename(from, to string) error {
	if err := os.Rename(p.path(from), p.path(to)); err != nil {
		return err
	}
	return sqldb.SyncFile(string(p))
}

// remove takes a file away, durably; one that is not there is no error.
func (p place) remove(name string) error {
	if !p.has(name) {
		return nil
	}
	if err := ignoreAbsent(os.Remove(p.path(name))); err != nil {
		return err
	}
	return sqldb.SyncFile(string(p))
}

// writeSynced writes a new file for its user only and brings its bytes to the
// medium. What a cut attempt left under the name is replaced.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// settle finishes or undoes a change of owner that a crash cut (D39), and
// returns the identity of the owner whose data the database holds. The
// database decides: the change is done when its transaction is.
//
//	before: credential, credential.next     the transaction was not committed
//	after:  credential, credential.next     no file was renamed
//	after:  credential.old, credential.next one was
//
// The caller holds the lock. Called twice it changes nothing more.
func (p place) settle(owner string) (*synccrypt.Identity, error) {
	_ = os.Remove(p.path(writtenFile)) // cut while it was written
	current, _, err := p.read(credentialFile)
	if err != nil {
		return nil, err
	}
	next, _, err := p.read(nextFile)
	if err != nil {
		return nil, err
	}
	if next != nil && next.OwnerID == owner {
		if current != nil {
			if err := p.rename(credentialFile, oldFile); err != nil {
				return nil, err
			}
		}
		return next, p.rename(nextFile, credentialFile)
	}
	switch {
	case current == nil:
		return nil, fmt.Errorf("%q: %w; without it the device cannot open its owner's events", p.path(credentialFile), fs.ErrNotExist)
	case current.OwnerID != owner:
		return nil, fmt.Errorf("%q: %w (%s, not %s)", string(p), ErrOwner, brief(current.OwnerID), brief(owner))
	}
	return current, p.remove(nextFile)
}

// brief shortens an owner id for an error.
func brief(owner string) string {
	const shown = 6
	if len(owner) <= shown {
		return owner
	}
	return strings.ToValidUTF8(owner[:shown], "?") + "..."
}
