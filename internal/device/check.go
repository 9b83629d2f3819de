package device

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// standing is what a relay says of itself and of the owner.
type standing struct {
	waits bool // its pulls can wait (S52)
	doubt bool // it does not know the owner, of whom it had something
}

// check asks how a relay is, and whether it still has what it had: when it does
// not, it is owed every row anew (D35). A refusal to tell is no error, since
// pushes and pulls get answers of their own, but a closed owner is.
func (l *link) check(ctx context.Context) (s standing, err error) {
	rel, r, err := l.open()
	if err != nil {
		return s, err
	}
	h, err := r.health(ctx)
	if err != nil && !answered(err) {
		return s, err
	}
	s.waits, l.well = err == nil && h.waits(), err == nil && h.OK
	a, err := r.status(ctx)
	if _, unknown := refused(err, http.StatusNotFound); unknown {
		s.doubt = rel.Cursor != "" || rel.Acked
		return s, nil
	}
	switch {
	case errors.Is(err, ErrOwnerClosed):
		return s, err
	case err != nil && answered(err):
		l.d.o.Log.Debug("no status of the relay", "relay", l.url, "err", err)
		return s, nil
	case err != nil:
		return s, err
	}
	if lostBy(a, rel) {
		if !h.OK {
			return s, nil // to be seen again by a check of a relay that is well
		}
		if err := l.forget(rel); err != nil {
			return s, err
		}
	}
	if rel.Cursor == "" || l.forgot {
		l.expected = a.Events
	}
	return s, l.keep(a, rel, r)
}

// answered tells whether an error is an answer of the relay.
func answered(err error) bool {
	_, isFault := errors.AsType[*fault](err)
	_, isRefusal := errors.AsType[*Refusal](err)
	return isFault || isRefusal
}

// lostBy tells whether an account shows that the relay has lost what it had: it
// was made anew, or has no event and a number behind our cursor.
func lostBy(a account, rel devicestore.Relay) bool {
	if rel.Account != "" && a.CreatedAt != "" && rel.Account != a.CreatedAt {
		return true
	}
	cursor, err := strconv.ParseInt(rel.Cursor, 10, 64)
	return err == nil && a.Events == 0 && a.HeadSeq < cursor
}

// keep stores what an account of r's owner says, if that is news.
func (l *link) keep(a account, before devicestore.Relay, r *remote) error {
	if before.Closed {
		if err := l.d.store.SetClosed(l.relay, r.id.OwnerID, false); err != nil {
			return local(err)
		}
	}
	if !l.forgot && before.Account == a.CreatedAt && before.UsedBytes == a.UsedBytes && before.QuotaBytes == a.QuotaBytes {
		return nil
	}
	return local(l.d.store.SetAccount(l.relay, r.id.OwnerID, a.CreatedAt, a.UsedBytes, a.QuotaBytes))
}

// learn stores the account that the first page will be of, which a push may have
// made a moment ago: of a store that counts from 1 only the account tells that
// it is not the one before it (D35). Not to be told is no error.
func (l *link) learn(ctx context.Context, rel devicestore.Relay, r *remote) error {
	if rel.Cursor != "" || rel.Account != "" {
		return nil
	}
	a, err := r.status(ctx)
	switch {
	case err == nil:
		return l.keep(a, rel, r)
	case answered(err):
		return nil // the pull gets an answer of its own
	}
	return err
}

// forget owes the relay every row anew and pulls from the start (D35), unless
// another process has just done so. It is bounded by L5: the errors are
// ErrLostAgain and *waitReseed.
func (l *link) forget(rel devicestore.Relay) error {
	if l.explicit && l.forgot {
		return ErrLostAgain
	}
	if at := l.d.reseedAt(rel); !l.explicit && at.After(l.d.o.Now()) {
		return &waitReseed{at}
	}
	done, err := l.d.store.Forget(l.relay, rel.Generation, l.d.o.Now())
	if err != nil {
		return local(err)
	}
	l.forgot = true
	l.guard.reset()
	if done {
		l.report.Reseeded = true
		l.d.o.Log.Warn("the relay has lost the owner and gets every row anew", "relay", l.url)
	}
	return nil
}

// lost decides on a pull's 404, once /health says that this is a relay and well:
// nothing is wrong as long as the relay never had anything, else the owner was
// lost (D35). Any web server gives a 404, and is not what a device is in sync
// with. rel is the relay as it was before the pull. forgot tells that the pull
// begins anew.
func (l *link) lost(ctx context.Context, rel devicestore.Relay, r *remote, cause error) (forgot bool, err error) {
	never := rel.Cursor == "" && !rel.Acked
	if never && l.well {
		return false, nil
	}
	h, err := r.health(ctx)
	switch {
	case err != nil:
		return false, err
	case !h.OK:
		return false, cause
	case never:
		l.well = true
		return false, nil
	}
	return true, l.forget(rel)
}
