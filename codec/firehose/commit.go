package firehose

import (
	"fmt"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// Actions of a RepoOp (F14).
const (
	ActionCreate = "create"
	ActionUpdate = "update"
	ActionDelete = "delete"
)

// Commit is the body of a #commit (F14).
type Commit struct {
	Ops      []RepoOp
	Rev      string // a TID
	Repo     string // a DID
	Time     string // a datetime, made here by FormatTime
	Blobs    []dagcbor.CID
	Since    string // the TID of the previous commit; "" is the null of a first one
	Blocks   []byte // a CAR, the commit its first root; borrowed
	Commit   dagcbor.CID
	Rebase   bool        // deprecated, false
	TooBig   bool        // deprecated, false
	PrevData dagcbor.CID // nil if unknown
}

// RepoOp is one change of a commit.
type RepoOp struct {
	CID    dagcbor.CID // nil for delete
	Path   string
	Prev   dagcbor.CID // the old record of update and delete; nil if unknown
	Action string
}

// Kind is KindCommit.
func (*Commit) Kind() Kind { return KindCommit }

// Check holds the body to F14, but for what is in Blocks. The error is a
// FieldError.
func (c *Commit) Check() error {
	if len(c.Ops) > MaxOpsCount {
		return bad("ops", ErrTooManyOps)
	}
	for i := range c.Ops {
		if field, err := c.Ops[i].check(); err != nil {
			return bad(fmt.Sprintf("ops[%d].%s", i, field), err)
		}
	}
	switch {
	case !ValidTID([]byte(c.Rev)):
		return bad("rev", ErrTID)
	case !ValidDID([]byte(c.Repo)):
		return bad("repo", ErrDID)
	case !ValidDatetime(c.Time):
		return bad("time", ErrDatetime)
	case c.Since != "" && !ValidTID([]byte(c.Since)):
		return bad("since", ErrTID)
	case len(c.Blocks) > MaxCommitBlockBytes:
		return bad("blocks", ErrBlocksSize)
	case !validCID(c.Commit):
		return bad("commit", ErrCID)
	case c.PrevData != nil && !validCID(c.PrevData):
		return bad("prevData", ErrCID)
	}
	for i, cid := range c.Blobs {
		if !validCID(cid) {
			return bad(fmt.Sprintf("blobs[%d]", i), ErrCID)
		}
	}
	return nil
}

func (op *RepoOp) check() (field string, err error) {
	switch op.Action {
	case ActionCreate:
		if op.Prev != nil {
			return "prev", ErrCreatePrev
		}
	case ActionUpdate, ActionDelete:
	default:
		return "action", ErrAction
	}
	switch {
	case op.Path == "" || !utf8.ValidString(op.Path):
		return "path", ErrPath
	case op.Action == ActionDelete && op.CID != nil:
		return "cid", ErrDeleteCID
	case op.Action != ActionDelete && !validCID(op.CID):
		return "cid", ErrCID
	case op.Prev != nil && !validCID(op.Prev):
		return "prev", ErrCID
	}
	return "", nil
}

func validCID(cid dagcbor.CID) bool {
	_, err := dagcbor.ParseCID(cid)
	return err == nil
}

// Bytes beside the content: header, keys, heads and the fixed fields.
const (
	commitOverhead = 192
	opOverhead     = 64
	linkOverhead   = 8
)

// SizeBytes is at least the length of what Append appends.
func (c *Commit) SizeBytes() int {
	n := commitOverhead + len(c.Rev) + len(c.Repo) + len(c.Time) + len(c.Since) + len(c.Blocks) + len(c.Commit) + len(c.PrevData)
	for i := range c.Ops {
		op := &c.Ops[i]
		n += opOverhead + len(op.CID) + len(op.Path) + len(op.Prev) + len(op.Action)
	}
	for _, cid := range c.Blobs {
		n += linkOverhead + len(cid)
	}
	return n
}

// Append appends the frame with the number seq. It fails with ErrSeq for a
// number out of range. What it writes is right only if Check has no fault.
func (c *Commit) Append(dst []byte, seq int64) ([]byte, error) {
	if err := checkSeq(seq); err != nil {
		return dst, err
	}
	fields := 11
	if c.PrevData != nil {
		fields++
	}
	dst = append(dst, headers[KindCommit]...)
	dst = dagcbor.AppendMap(dst, fields)
	dst = dagcbor.AppendArray(appendKey(dst, "ops"), len(c.Ops))
	for i := range c.Ops {
		dst = c.Ops[i].append(dst)
	}
	dst = dagcbor.AppendText(appendKey(dst, "rev"), c.Rev)
	dst = dagcbor.AppendInt(appendKey(dst, "seq"), seq)
	dst = dagcbor.AppendText(appendKey(dst, "repo"), c.Repo)
	dst = dagcbor.AppendText(appendKey(dst, "time"), c.Time)
	dst = dagcbor.AppendArray(appendKey(dst, "blobs"), len(c.Blobs))
	for _, cid := range c.Blobs {
		dst = dagcbor.AppendLink(dst, cid)
	}
	if dst = appendKey(dst, "since"); c.Since == "" {
		dst = dagcbor.AppendNull(dst)
	} else {
		dst = dagcbor.AppendText(dst, c.Since)
	}
	dst = dagcbor.AppendBytes(appendKey(dst, "blocks"), c.Blocks)
	dst = dagcbor.AppendLink(appendKey(dst, "commit"), c.Commit)
	dst = dagcbor.AppendBool(appendKey(dst, "rebase"), c.Rebase)
	dst = dagcbor.AppendBool(appendKey(dst, "tooBig"), c.TooBig)
	if c.PrevData != nil {
		dst = dagcbor.AppendLink(appendKey(dst, "prevData"), c.PrevData)
	}
	return dst, nil
}

func (op *RepoOp) append(dst []byte) []byte {
	fields := 3
	if op.Prev != nil {
		fields++
	}
	dst = dagcbor.AppendMap(dst, fields)
	if dst = appendKey(dst, "cid"); op.CID == nil {
		dst = dagcbor.AppendNull(dst)
	} else {
		dst = dagcbor.AppendLink(dst, op.CID)
	}
	dst = dagcbor.AppendText(appendKey(dst, "path"), op.Path)
	if op.Prev != nil {
		dst = dagcbor.AppendLink(appendKey(dst, "prev"), op.Prev)
	}
	return dagcbor.AppendText(appendKey(dst, "action"), op.Action)
}

func appendKey(dst []byte, key string) []byte { return dagcbor.AppendText(dst, key) }

func checkSeq(seq int64) error {
	if seq < 1 || seq > MaxSeq {
		return bad("seq", ErrSeq)
	}
	return nil
}
