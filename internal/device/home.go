package device

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// ErrDeviceName tells that a device cannot have this name (D12).
var ErrDeviceName = errors.New("a device's name is 1 to 64 of a-z, 0-9 and -")

// Create makes a device in dir, which is made when it is not there, and opens
// it. The credential is a phrase or a native key (D2, D3) of any spelling that
// D5 allows. The name is how the owner's other devices know this one (D12);
// two devices of one owner must not share it, and "" draws one.
//
// A wrong credential or name creates nothing, not even the directory (hard
// case 13). The error is fs.ErrExist when there is a device in dir already. A
// Create that a crash has cut may be repeated with the same credential.
func Create(dir, credential, name string, o Options) (*Device, error) {
	id, text, err := synccrypt.ParseCredential(credential)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = drawName()
	}
	if !synccrypt.ValidDeviceID(name) {
		return nil, ErrDeviceName
	}
	p := place(dir)
	if err := sqldb.MakeDir(dir); err != nil {
		return nil, err
	}
	unlock, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	wrote, err := p.takeVacant(text)
	if err == nil {
		err = p.makeChunks()
	}
	if err != nil {
		return nil, err
	}
	s, err := devicestore.Create(p.path(databaseFile), id.OwnerID, name, storeOptions(o))
	if err != nil {
		if wrote {
			_ = p.remove(credentialFile) // so that another credential will do next time
		}
		return nil, fmt.Errorf("creating the device's database: %w", err)
	}
	return newDevice(dir, s, id, p.loader(s), o), nil
}

// takeVacant puts the credential into a directory without a device, and
// returns fs.ErrExist when there is one, or a part of one that is not what a cut
// Create left: the same credential, and a database without anything in it. wrote
// is false when the credential was there.
func (p place) takeVacant(credential string) (wrote bool, err error) {
	if p.has(nextFile) || p.has(oldFile) || sqldb.Size(p.path(databaseFile)) > 0 && !p.has(credentialFile) {
		return false, fmt.Errorf("there is a device in %q already: %w", string(p), fs.ErrExist)
	}
	if !p.has(credentialFile) {
		return true, p.write(credentialFile, credential)
	}
	// If this one is the same, the store tells a device from a cut creation.
	if _, there, err := p.read(credentialFile); err != nil || there != credential {
		return false, fmt.Errorf("there is a device with another credential in %q already: %w", string(p), fs.ErrExist)
	}
	return false, nil
}

// makeChunks makes the directory of the chunks.
func (p place) makeChunks() error {
	return sqldb.MakeDir(p.path(chunksDir))
}

// drawName returns a random name for a device: 48 bits tell an owner's devices
// apart.
func drawName() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return "d-" + hex.EncodeToString(b)
}

// Open opens the device in dir. A re-key that a crash has cut is finished or
// undone first (D39). The error is fs.ErrNotExist when there is no device,
// ErrMode when others can read its credential, ErrOwner when it is not the
// database's, ErrBusy when another process is changing it, and those of
// devicestore.Open. Any number of processes may have one device open.
func Open(dir string, o Options) (*Device, error) {
	p := place(dir)
	if _, err := os.Stat(p.path(databaseFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) && p.has(credentialFile) {
			return nil, fmt.Errorf("the device in %q has a credential and no database, as a creation that was cut leaves it: %w", dir, fs.ErrNotExist)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no device in %q: %w", dir, fs.ErrNotExist)
		}
		return nil, err
	}
	s, err := devicestore.Open(p.path(databaseFile), storeOptions(o))
	if err != nil {
		return nil, fmt.Errorf("opening the device's database: %w", err)
	}
	id, err := p.settleStore(s)
	if err == nil {
		err = p.makeChunks()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return newDevice(dir, s, id, p.loader(s), o), nil
}

// storeOptions are those of the options that are the store's.
func storeOptions(o Options) devicestore.Options {
	return devicestore.Options{SeenMax: o.SeenMax, DeferredMax: o.DeferredMax}
}

// Close ends the device: its connections and its database. Nothing else may be
// under way.
func (d *Device) Close() error {
	d.closeConnections()
	return d.store.Close()
}

// OwnerID returns whose data the device holds (D2, D3), as far as this process
// has seen: another one may have re-keyed it.
func (d *Device) OwnerID() string { return d.id.Load().OwnerID }

// DeviceID returns the device's name (D12).
func (d *Device) DeviceID() string { return d.store.Device() }

func (d *Device) place() place { return place(d.dir) }

// loader returns how the credential is read again when another process has
// re-keyed the device. The owner that the caller saw does not count: it may
// have changed before the lock was had.
func (p place) loader(s *devicestore.Store) func(string) (*synccrypt.Identity, error) {
	return func(string) (*synccrypt.Identity, error) { return p.settleStore(s) }
}

// settleStore is settle under the lock, for the owner that the database names.
func (p place) settleStore(s *devicestore.Store) (*synccrypt.Identity, error) {
	unlock, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	owner, err := s.Owner()
	if err != nil {
		return nil, err
	}
	return p.settle(owner)
}
