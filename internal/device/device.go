package device

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

var (
	// ErrNoRelays tells that a device has no relay to sync with.
	ErrNoRelays = errors.New("the device has no relay: add one first")
	// ErrOwnerClosed tells that a relay has closed the owner (D34): what is left
	// is a re-key.
	ErrOwnerClosed = errors.New("the owner is closed at the relay: re-key the device to go on")
	// ErrLostAgain tells that a relay which was sent every row anew says once
	// more that it has nothing (D35).
	ErrLostAgain = errors.New("the relay was sent every row anew and has lost the owner again")
)

// Options are what a device can be told. The zero value has the defaults.
type Options struct {
	// Now is the wall clock; nil is time.Now. Any goroutine calls it.
	Now func() time.Time
	// Log gets what goes wrong and is tried again; nil discards it. It never
	// gets a secret or a row.
	Log *slog.Logger
	// SchemaVersion is the greatest version of payloads that is understood, and
	// the one that is written; 0 is 1.
	SchemaVersion int
	// Transport makes the requests; nil is one with bounded times.
	Transport http.RoundTripper
	// Pace is the time between polls and after network errors, 0 is 5 s.
	// TerminalPause comes after answers that will not change by themselves, 0
	// is 5 min. ReseedPause is the time between the first two automatic
	// re-seeds of a relay, 0 is 1 min (D34, D35).
	Pace, TerminalPause, ReseedPause time.Duration
	// PushEvents and PullEvents are how many events a request asks for, 0 is
	// 1,000. SeenMax and DeferredMax are for the store, 0 is its default.
	PushEvents, PullEvents int
	SeenMax, DeferredMax   int
}

// withDefaults returns the options with every zero filled.
func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	orInt := func(p *int, n int) {
		if *p <= 0 {
			*p = n
		}
	}
	orTime := func(p *time.Duration, d time.Duration) {
		if *p <= 0 {
			*p = d
		}
	}
	orInt(&o.SchemaVersion, 1)
	orInt(&o.PushEvents, 1000)
	orInt(&o.PullEvents, 1000)
	orTime(&o.Pace, 5*time.Second)
	orTime(&o.TerminalPause, 5*time.Minute)
	orTime(&o.ReseedPause, time.Minute)
	return o
}

// Device is one device of one owner: its database, its credential and its
// relays. Any goroutine may use it; several processes may hold one directory.
type Device struct {
	// Immutable after construction.
	dir   string
	o     Options // with defaults
	store *devicestore.Store
	// load reads the credential of the database's owner again. It is asked when
	// another process has re-keyed the device.
	load func(owner string) (*synccrypt.Identity, error)

	// Atomic.
	id atomic.Pointer[synccrypt.Identity]

	mu sync.Mutex
	// Guarded by mu.
	peers     map[string]*peer
	listeners map[*listener]struct{}
}

// newDevice returns a device on an open store; id is the store's owner.
func newDevice(dir string, store *devicestore.Store, id *synccrypt.Identity, load func(owner string) (*synccrypt.Identity, error), o Options) *Device {
	d := &Device{
		dir: dir, o: o.withDefaults(), store: store, load: load,
		peers: map[string]*peer{}, listeners: map[*listener]struct{}{},
	}
	d.id.Store(id)
	return d
}

// closeConnections ends what the device holds open to relays and is not used.
// Close calls it.
func (d *Device) closeConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for url, p := range d.peers {
		p.http.CloseIdleConnections()
		delete(d.peers, url)
	}
}

// identity returns who the device is now: the owner of the database, which
// another process may have changed. A caller that also needs a relay's
// generation reads that first, so that an older one goes with a newer identity
// and not the other way round: the store refuses what comes of it.
func (d *Device) identity() (*synccrypt.Identity, error) {
	owner, err := d.store.Owner()
	if err != nil {
		return nil, err
	}
	if id := d.id.Load(); id != nil && id.OwnerID == owner {
		return id, nil
	}
	id, err := d.load(owner)
	switch {
	case err != nil:
		return nil, err
	case id.OwnerID != owner:
		return nil, fmt.Errorf("the credential belongs to owner %s and the database to %s", id.OwnerID, owner)
	}
	d.id.Store(id)
	return id, nil
}

// AddRelay adds a relay by its http, https or unix URL, as RelayURL spells it:
// every current row is owed to it (D31). The errors are client.ErrURL and
// devicestore.ErrRelayExists.
func (d *Device) AddRelay(url string) error {
	url, err := RelayURL(url)
	if err != nil {
		return err
	}
	if _, err = d.store.AddRelay(url); err == nil {
		d.wrote()
	}
	return err
}

// RemoveRelay forgets a relay and all that was owed to it. The errors are
// client.ErrURL and devicestore.ErrNoRelay.
func (d *Device) RemoveRelay(url string) error {
	url, err := RelayURL(url)
	if err != nil {
		return err
	}
	err = d.store.RemoveRelay(url)
	d.wrote()
	return err
}

// listener is one Follow that wants to know of writes.
type listener struct{ wrote chan struct{} } // of one place

// wrote tells every Follow of this process that something was written here, so
// that it is pushed at once, whatever back-off a relay is in (D34).
func (d *Device) wrote() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for l := range d.listeners {
		poke(l.wrote)
	}
}

// listen adds a listener; the returned function takes it away.
func (d *Device) listen() (*listener, func()) {
	l := &listener{wrote: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners[l] = struct{}{}
	return l, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.listeners, l)
	}
}

// poke leaves a token in a channel of one place, unless there is one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
