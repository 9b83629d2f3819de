package upstream

import (
	"fmt"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// RepoStatus is the answer to getRepoStatus (F70).
type RepoStatus struct {
	DID    string
	Active bool
	Status string // why it is not active; "" if it is, or if that is not known
	Rev    string // of an active one; "" if no commit was seen
}

// RepoStatus returns the effective status of a repository, and false if nothing
// is known of it. It may block on the store. The errors are ErrBadDID and those
// of the Store.
func (m *Manager) RepoStatus(did string) (RepoStatus, bool, error) {
	if !firehose.ValidDID([]byte(did)) {
		return RepoStatus{}, false, fmt.Errorf("%w: %.100q", ErrBadDID, did)
	}
	m.mu.Lock()
	repo, found := m.repos.find([]byte(did))
	m.mu.Unlock()
	if !found {
		var err error
		if repo, found, err = m.cfg.Store.Repo(did); err != nil || !found {
			return RepoStatus{}, false, err
		}
	}
	answer := RepoStatus{DID: did}
	if answer.Active, answer.Status = effective(repo); answer.Active {
		answer.Rev = repo.Rev
	}
	return answer, true, nil
}

// Account does what an operator asks for about an account (F70): takedown or
// restore. Beyond their errors it returns ErrBadAction.
func (m *Manager) Account(did, action string) error {
	switch action {
	case "takedown":
		return m.Takedown(did)
	case "restore":
		return m.Restore(did)
	}
	return fmt.Errorf("%w: %.100q", ErrBadAction, action)
}

// Takedown makes an account taken down here, whatever its host says: its
// #commit and #sync are dropped from now on (F67). It is stored first, then an
// #account tells consumers. An account that is not known gets a row. If only
// the #account fails, the takedown stands and a second call tells it again. It
// blocks on the store and on publishing. The errors are ErrBadDID, ErrState and
// those of the Store and of Publish.
func (m *Manager) Takedown(did string) error { return m.setOwn(did, firehose.StatusTakendown) }

// Restore takes a takedown back: the account has the status that its host gave
// it last. It is as Takedown, but an account that is not known is
// ErrUnknownAccount.
func (m *Manager) Restore(did string) error { return m.setOwn(did, "") }

// setOwn sets the relay's own status of an account.
func (m *Manager) setOwn(did, status string) error {
	if !firehose.ValidDID([]byte(did)) {
		return fmt.Errorf("%w: %.100q", ErrBadDID, did)
	}
	if m.phaseNow() != phaseRunning {
		return ErrState
	}
	stripe := m.stripe([]byte(did))
	stripe.Lock()
	defer stripe.Unlock()
	repo, known, err := m.repo([]byte(did))
	if err != nil {
		return fmt.Errorf("upstream: reading %s: %w", did, err)
	}
	if !known && status == "" {
		return fmt.Errorf("%w: %s", ErrUnknownAccount, did)
	}
	repo.DID, repo.Status = did, status
	if err := m.storeOwn(repo); err != nil {
		return fmt.Errorf("upstream: storing the status of %s: %w", did, err)
	}
	if err := m.announce(repo); err != nil {
		return fmt.Errorf("upstream: the status of %s is stored, and not announced: %w", did, err)
	}
	return nil
}

// storeOwn stores the status at once, and nothing else that is younger than
// what is stored: the rest waits for its batch. The caller holds the stripe.
func (m *Manager) storeOwn(repo state.Repo) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	row, _, err := m.cfg.Store.Repo(repo.DID)
	if err != nil {
		return err
	}
	row.DID, row.Status = repo.DID, repo.Status
	err = m.cfg.Store.Apply(state.Batch{Repos: []state.Repo{row}})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.repos.entries[repo.DID]; e != nil {
		e.repo.Status = repo.Status
		if e.pendingAt >= 0 {
			m.pending.Repos[e.pendingAt].Status = repo.Status
		}
	}
	return nil
}

// announce publishes an #account with the effective status.
func (m *Manager) announce(repo state.Repo) error {
	account := firehose.Account{DID: repo.DID, Time: firehose.FormatTime(m.cfg.Now())}
	account.Active, account.Status = effective(repo)
	message, err := account.Append(nil, 1) // Publish gives it its number
	if err != nil {
		return err
	}
	var scanner firehose.Scanner
	var frame firehose.Frame
	if err := scanner.Scan(message, &frame); err != nil {
		return err
	}
	_, err = m.cfg.Publish(&frame)
	return err
}
