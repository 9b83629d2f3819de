package firehose

import (
	"fmt"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// The Decode methods return a frame's body with all its known fields, for a
// caller who needs more than the frame lends. Strings are copied; bytes and
// CIDs are borrowed from the message. A required field that is missing is a
// FieldError with ErrMissing (F14); ErrKind is returned for another kind.
// Values are not checked beyond their types: the body's Check does that.

// DecodeCommit returns the body of a #commit.
func (f *Frame) DecodeCommit() (Commit, error) {
	if f.kind != KindCommit {
		return Commit{}, ErrKind
	}
	if err := f.missing("ops", "rev", "repo", "time", "blobs", "since", "blocks", "commit", "rebase", "tooBig"); err != nil {
		return Commit{}, err
	}
	if f.OpsCount > MaxOpsCount { // before anything is made for them
		return Commit{}, bad("ops", ErrTooManyOps)
	}
	c := Commit{
		Rev: string(f.Rev), Repo: string(f.DID), Time: string(f.Time), Since: string(f.Since),
		Blocks: f.Blocks, Commit: f.Commit, PrevData: f.PrevData,
	}
	if f.Since != nil && len(f.Since) == 0 { // not the null that "" stands for
		return Commit{}, bad("since", ErrTID)
	}
	c.Rebase, _ = dagcbor.Bool(f.fields.Find("rebase"))
	c.TooBig, _ = dagcbor.Bool(f.fields.Find("tooBig"))
	for blob := range dagcbor.Elements(f.fields.Find("blobs")) {
		cid, _ := dagcbor.Link(blob)
		c.Blobs = append(c.Blobs, cid)
	}
	if f.OpsCount > 0 {
		c.Ops = make([]RepoOp, 0, f.OpsCount)
	}
	for op := range dagcbor.Elements(f.fields.Find("ops")) {
		decoded, field := decodeOp(op)
		if field != "" {
			return Commit{}, bad(fmt.Sprintf("ops[%d].%s", len(c.Ops), field), ErrMissing)
		}
		c.Ops = append(c.Ops, decoded)
	}
	return c, nil
}

// decodeOp returns an operation, or the name of a field that it lacks.
func decodeOp(value []byte) (op RepoOp, missing string) {
	var hasCID, hasPath, hasAction bool
	for key, v := range dagcbor.Entries(value) {
		switch string(key) {
		case "cid":
			hasCID = true
			op.CID, _ = dagcbor.Link(v)
		case "path":
			hasPath = true
			text, _ := dagcbor.TextOf(v)
			op.Path = string(text)
		case "prev":
			op.Prev, _ = dagcbor.Link(v)
		case "action":
			hasAction = true
			text, _ := dagcbor.TextOf(v)
			op.Action = string(text)
		}
	}
	switch {
	case !hasCID:
		return op, "cid"
	case !hasPath:
		return op, "path"
	case !hasAction:
		return op, "action"
	}
	return op, ""
}

// DecodeSync returns the body of a #sync.
func (f *Frame) DecodeSync() (Sync, error) {
	if f.kind != KindSync {
		return Sync{}, ErrKind
	}
	if err := f.missing("did", "rev", "time", "blocks"); err != nil {
		return Sync{}, err
	}
	return Sync{DID: string(f.DID), Rev: string(f.Rev), Time: string(f.Time), Blocks: f.Blocks}, nil
}

// DecodeIdentity returns the body of an #identity.
func (f *Frame) DecodeIdentity() (Identity, error) {
	if f.kind != KindIdentity {
		return Identity{}, ErrKind
	}
	if err := f.missing("did", "time"); err != nil {
		return Identity{}, err
	}
	if f.Handle != nil && len(f.Handle) == 0 { // it is there, and no handle
		return Identity{}, bad("handle", ErrHandle)
	}
	return Identity{DID: string(f.DID), Time: string(f.Time), Handle: string(f.Handle)}, nil
}

// DecodeAccount returns the body of an #account.
func (f *Frame) DecodeAccount() (Account, error) {
	if f.kind != KindAccount {
		return Account{}, ErrKind
	}
	if err := f.missing("did", "time", "active"); err != nil {
		return Account{}, err
	}
	if f.Status != nil && len(f.Status) == 0 {
		return Account{}, bad("status", ErrStatus)
	}
	return Account{DID: string(f.DID), Time: string(f.Time), Active: f.Active, Status: string(f.Status)}, nil
}

// missing looks for required fields.
func (f *Frame) missing(keys ...string) error {
	for _, key := range keys {
		if f.fields.Find(key) == nil {
			return bad(key, ErrMissing)
		}
	}
	return nil
}

// check holds a numbered frame to F14, its number apart.
func (f *Frame) check() error {
	switch f.kind {
	case KindCommit:
		c, err := f.DecodeCommit()
		if err != nil {
			return err
		}
		return c.Check()
	case KindSync:
		s, err := f.DecodeSync()
		if err != nil {
			return err
		}
		return s.Check()
	case KindIdentity:
		i, err := f.DecodeIdentity()
		if err != nil {
			return err
		}
		return i.Check()
	}
	a, err := f.DecodeAccount()
	if err != nil {
		return err
	}
	return a.Check()
}
