package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// take checks a numbered frame, publishes it or drops it, and notes that it is
// done. It tries again for as long as it has to (U5); the error is that ctx
// ended, and then the frame is not done.
func (c *connection) take(ctx context.Context) error {
	f := &c.frame
	verified, reason := c.check()
	if reason != "" {
		c.h.counts.drop(reason)
		c.pass(f.Seq)
		return nil
	}
	if err := c.m.room(ctx); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		err := c.settle(verified)
		c.m.notePublish(c.h.name, err)
		if err == nil {
			c.last, c.progressed = f.Seq, true
			return nil
		}
		if !c.m.wait(ctx, doubled(firstRetry, longestRetry, attempt)) {
			return errors.Join(err, ctx.Err())
		}
		if f.Kind() == firehose.KindAccount { // the last try may have set its status
			if err := c.scanner.Scan(c.message, f); err != nil {
				return reactionFailure(err)
			}
		}
	}
}

// check looks at what needs no state: structure (F66), a rev of the future
// (F64), and the size with our number (F17). It returns why the frame is
// dropped.
func (c *connection) check() (verified firehose.State, reason string) {
	f := &c.frame
	if f.SizeBytes() > c.m.cfg.MaxFrameBytes {
		return firehose.State{}, dropTooBig
	}
	if f.Kind() != firehose.KindCommit && f.Kind() != firehose.KindSync {
		return firehose.State{}, ""
	}
	if c.m.cfg.Verify == VerifyStructure {
		var err error
		if verified, err = c.scanner.Verify(f); err != nil {
			return firehose.State{}, firehose.Reason(err)
		}
	} else {
		verified.Commit = f.Commit
	}
	if at, _ := firehose.TIDTime(f.Rev); at.After(c.m.cfg.Now().Add(futureRevs)) {
		return firehose.State{}, dropFuture
	}
	return verified, ""
}

// settle does one try: under the lock of the DID it looks at the state,
// publishes, and notes the new state with the cursor (U2). After an error
// nothing was published or noted.
func (c *connection) settle(verified firehose.State) error {
	m, f := c.m, &c.frame
	if f.Kind() == firehose.KindIdentity { // F67: it passes, and has no state
		if _, err := m.cfg.Publish(f); err != nil {
			return err
		}
		c.h.counts.published.Add(1)
		m.note(c.h, f.Seq, nil)
		return nil
	}
	stripe := m.stripe(f.DID)
	stripe.Lock()
	defer stripe.Unlock()
	repo, _, err := m.repo(f.DID)
	if err != nil {
		return fmt.Errorf("upstream: reading a repository: %w", err)
	}
	v := judge(f, verified, repo, c.id)
	if v.drop != "" {
		c.h.counts.drop(v.drop)
		m.note(c.h, f.Seq, nil)
		return nil
	}
	if f.Kind() == firehose.KindAccount && repo.Status != "" {
		if err := f.SetAccount(false, firehose.StatusTakendown); err != nil {
			return err
		}
		if f.SizeBytes() > m.cfg.MaxFrameBytes { // F17: it would be refused for ever
			c.h.counts.drop(dropTooBig)
			m.note(c.h, f.Seq, &v.repo)
			return nil
		}
	}
	if _, err := m.cfg.Publish(f); err != nil {
		return err
	}
	c.h.counts.published.Add(1)
	for _, misfit := range v.misfits {
		c.h.counts.misfit(misfit)
	}
	m.note(c.h, f.Seq, &v.repo)
	return nil
}

// verdict is what becomes of a frame, given the state of its repository.
type verdict struct {
	drop    string     // why it is dropped; "" if it is published
	misfits []string   // what of it does not fit, without harm (F64)
	repo    state.Repo // the state once it is published
}

// judge decides on a #commit, #sync or #account (F64, F67). The repository that
// it returns shares nothing with the frame.
func judge(f *firehose.Frame, verified firehose.State, repo state.Repo, host int64) verdict {
	if repo.DID == "" {
		repo.DID = string(f.DID)
	}
	if f.Kind() == firehose.KindAccount {
		repo.UpstreamStatus = upstreamStatus(f)
		if repo.HostID == 0 {
			repo.HostID = host
		}
		return verdict{repo: repo}
	}
	v := verdict{}
	switch {
	case repo.Status != "" || repo.UpstreamStatus != "":
		return verdict{drop: dropInactive}
	case f.Kind() == firehose.KindSync || repo.Rev == "":
	case string(f.Rev) <= repo.Rev:
		return verdict{drop: dropOldRev}
	default:
		if string(f.Since) != repo.Rev {
			v.misfits = append(v.misfits, misfitSince)
		}
		if f.PrevData != nil && repo.Data != nil && !bytes.Equal(f.PrevData, repo.Data) {
			v.misfits = append(v.misfits, misfitPrevData)
		}
	}
	repo.HostID = host
	repo.Rev = string(f.Rev)
	repo.Commit, repo.Data = cloneBoth(verified.Commit, verified.Data)
	v.repo = repo
	return v
}

// cloneBoth copies two CIDs in one allocation. What is empty becomes nil.
func cloneBoth(x, y []byte) (x2, y2 []byte) {
	both := append(append(make([]byte, 0, len(x)+len(y)), x...), y...)
	if len(x) > 0 {
		x2 = both[:len(x):len(x)]
	}
	if len(y) > 0 {
		y2 = both[len(x):]
	}
	return x2, y2
}

// upstreamStatus returns what is kept of an #account.
func upstreamStatus(f *firehose.Frame) string {
	switch {
	case f.Active:
		return ""
	case len(f.Status) == 0 || len(f.Status) > maxStatusBytes:
		return state.Inactive
	}
	return string(f.Status)
}

// effective returns the status of an account that consumers are told (F67).
func effective(repo state.Repo) (active bool, status string) {
	switch {
	case repo.Status != "":
		return false, firehose.StatusTakendown
	case repo.UpstreamStatus == state.Inactive:
		return false, ""
	}
	return repo.UpstreamStatus == "", repo.UpstreamStatus
}
