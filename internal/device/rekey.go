package device

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/sluice-relay/sluice/codec/synccrypt"
)

// rekeyRounds bounds the syncs of a Rekey under the new owner: the first brings
// the rows, the second the blobs that were sealed anew, and closes.
const rekeyRounds = 3

// Errors of a re-key.
var (
	ErrSameOwner     = errors.New("the new phrase or key is the one that the device has")
	ErrRekeyUnready  = errors.New("the device was not re-keyed, or something could be lost")
	ErrRekeyPending  = errors.New("the device is re-keyed; what is left of it is done by the next sync")
	ErrRekeyUnclosed = errors.New("an earlier re-key is not finished: its old owner is still to be closed")
)

// RekeyOptions are what a Rekey can be told.
type RekeyOptions struct {
	// Force re-keys although a relay cannot be reached or a blob cannot be had,
	// and although an earlier re-key cannot be finished. What only the relay had
	// is lost then, and an old owner may stay open there.
	Force bool
	// Progress is as in SyncOptions.
	Progress func(Progress)
}

// Rekey gives the device another owner (D39): a fresh one, or the one that
// another device of this owner was re-keyed to before. First everything that the
// relays have comes here, unless they have closed the owner. Then the database
// changes owners in one transaction and everything is owed to every relay again.
// The rest is done here as far as the relays allow, and by every later Sync:
// blobs are sealed anew, and the old owner is closed at each relay that has
// everything.
//
// Before the change the errors are those of the credential, ErrSameOwner,
// ErrRekeyUnclosed, ErrBusy and ErrRekeyUnready with what is in the way; nothing
// has changed then but for what a sync does. After it the error is
// ErrRekeyPending with what failed. Any goroutine.
func (d *Device) Rekey(ctx context.Context, credential string, o RekeyOptions) error {
	next, text, err := synccrypt.ParseCredential(credential)
	if err != nil {
		return err
	}
	id, err := d.identity()
	if err != nil {
		return err
	}
	if next.OwnerID == id.OwnerID {
		return ErrSameOwner
	}
	if err := d.finishEarlier(ctx, o); err != nil {
		return err
	}
	if err := d.bringHome(ctx, o.Progress); err != nil {
		if !o.Force || ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrRekeyUnready, err)
		}
		d.o.Log.Warn("re-keying although something is missing", "err", err)
	}
	if err := d.changeOwner(id, next, text); err != nil {
		return err
	}
	d.retryBlobs()
	d.wrote()
	if err := d.bringOver(ctx, o.Progress); err != nil {
		return fmt.Errorf("%w: %w", ErrRekeyPending, err)
	}
	return nil
}

// bringHome has everything of the owner here that a relay has and that closing
// would lose. A relay that has closed the owner has nothing any more.
func (d *Device) bringHome(ctx context.Context, progress func(Progress)) error {
	report, err := d.Sync(ctx, SyncOptions{Progress: progress})
	if err != nil && !errors.Is(err, ErrNoRelays) && len(report.Relays) == 0 {
		return err
	}
	var missing []error
	open := 0
	for _, r := range report.Relays {
		if errors.Is(r.Err, ErrOwnerClosed) {
			continue
		}
		open++
		if r.Err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", r.Relay, r.Err))
		}
	}
	if open > 0 {
		missing = append(missing, d.fetchMissing(ctx, progress))
	}
	stats, err := d.store.Stats()
	if err == nil && stats.Deferred > 0 {
		err = fmt.Errorf("%d events of a device whose clock is ahead, or of a newer version, are not applied yet", stats.Deferred)
	}
	return errors.Join(append(missing, err)...)
}

// changeOwner is the change itself. A crash at any point of it is finished or
// undone by settle. While an attachment is made it waits for a while, since that
// one's chunks are sealed for the old owner.
func (d *Device) changeOwner(from, to *synccrypt.Identity, credential string) error {
	attached, err := lockPath(string(d.chunks()), syscall.LOCK_EX, lockPatience)
	if err != nil {
		return err
	}
	defer attached()
	p := d.place()
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	owner, err := d.store.Owner()
	switch {
	case err != nil:
		return err
	case owner != from.OwnerID:
		return fmt.Errorf("%w: another process has re-keyed the device meanwhile", ErrBusy)
	case p.has(oldFile):
		return ErrRekeyUnclosed
	}
	if err := p.write(nextFile, credential); err != nil {
		return err
	}
	failed := d.store.Rekey(from.OwnerID, to.OwnerID)
	if owner, err = d.store.Owner(); err != nil { // whatever Rekey said, this is what counts
		return errors.Join(failed, err)
	}
	id, err := p.settle(owner)
	if err != nil {
		return errors.Join(failed, err)
	}
	d.id.Store(id)
	if owner == to.OwnerID {
		return nil
	}
	return failed
}

// bringOver has everything at the relays under the new owner and closes the
// old one, as far as that can be done now.
func (d *Device) bringOver(ctx context.Context, progress func(Progress)) error {
	for range rekeyRounds {
		_, err := d.Sync(ctx, SyncOptions{Progress: progress})
		if errors.Is(err, ErrNoRelays) {
			return d.finishAlone(ctx)
		}
		if err != nil || !d.place().has(oldFile) {
			return err
		}
	}
	return nil // a relay has no room for the blobs, or another process is at it
}

// finishAlone finishes the re-key of a device without relays.
func (d *Device) finishAlone(ctx context.Context) error {
	old, _, err := d.place().read(oldFile)
	if err != nil || old == nil {
		return err
	}
	if err := d.resealBlobs(ctx, old); err != nil {
		return err
	}
	return d.forgetOld(old, false)
}

// finishEarlier finishes an earlier re-key, so that there is never more than one
// old credential. Its old owner is closed where a relay has everything under the
// present one (L11), and where that is closed itself, so that nothing more can
// come there; elsewhere only by force.
func (d *Device) finishEarlier(ctx context.Context, o RekeyOptions) error {
	old, _, err := d.place().read(oldFile)
	if err != nil || old == nil {
		return err
	}
	missing := d.bringOver(ctx, o.Progress)
	if missing != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrRekeyUnclosed, missing)
	}
	if !d.place().has(oldFile) {
		return nil
	}
	if err := d.resealBlobs(ctx, old); err != nil {
		return err
	}
	relays, err := d.store.Relays()
	if err != nil {
		return err
	}
	var failed []error
	for _, relay := range relays {
		if !relay.Closed && !o.Force {
			continue
		}
		if err := d.closeOld(ctx, relay.ID, relay.URL, old); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", relay.URL, err))
		}
	}
	if err := errors.Join(failed...); err != nil && (!o.Force || ctx.Err() != nil) {
		return fmt.Errorf("%w: %w", ErrRekeyUnclosed, err)
	}
	if err := d.forgetOld(old, o.Force); err != nil || !d.place().has(oldFile) {
		return err
	}
	if missing == nil {
		missing = ErrRekeyPending
	}
	return fmt.Errorf("%w: %w", ErrRekeyUnclosed, missing)
}

// closeOld closes the old owner at a relay, which need not have it any more.
func (d *Device) closeOld(ctx context.Context, relay int64, url string, old *synccrypt.Identity) error {
	owners, err := d.store.OldOwners(relay)
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if owner == old.OwnerID {
			r, err := d.remote(url, old)
			if err != nil {
				return err
			}
			if err := r.closeOwner(ctx); err != nil && !closedAnyway(err) {
				return fmt.Errorf("closing the old owner: %w", err)
			}
		} // the credential of any other is gone
		if err := d.store.OldClosed(relay, owner); err != nil {
			return err
		}
	}
	return nil
}

// closedAnyway tells whether a refusal to close says that there is nothing of
// ours to be closed: no such owner, one that somebody else registered, or a
// closed one at a relay that does not follow S43.
func closedAnyway(err error) bool {
	for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusGone} {
		if _, yes := refused(err, status); yes {
			return true
		}
	}
	return false
}

// forgetOld takes the old credential away when no relay and no blob needs it
// any more, or when it is forced. It does so again after a crash.
func (d *Device) forgetOld(old *synccrypt.Identity, force bool) error {
	p := d.place()
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if now, _, err := p.read(oldFile); err != nil || now == nil || now.OwnerID != old.OwnerID {
		return err // another process was faster
	}
	relays, err := d.store.Relays()
	if err != nil {
		return err
	}
	var waiting []string
	for _, relay := range relays {
		owners, err := d.store.OldOwners(relay.ID)
		if err != nil {
			return err
		}
		if len(owners) > 0 {
			waiting = append(waiting, relay.URL)
		}
		for _, owner := range owners {
			if !force {
				break
			}
			if err := d.store.OldClosed(relay.ID, owner); err != nil {
				return err
			}
		}
	}
	if len(waiting) > 0 && !force {
		return nil
	}
	if len(waiting) > 0 {
		d.o.Log.Warn("an old owner stays open", "relays", strings.Join(waiting, " "))
	}
	held, err := d.oldBlobs(old)
	if err != nil || len(held) > 0 && !force {
		return err
	}
	return p.remove(oldFile)
}
