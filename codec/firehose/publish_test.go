package firehose

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

func sampleCommit() Commit {
	return Commit{
		Ops: []RepoOp{
			{CID: dataCID, Path: "com.example.note/one", Action: ActionCreate},
			{CID: dataCID, Path: "com.example.note/two", Prev: dataCID, Action: ActionUpdate},
			{Path: "com.example.note/three", Prev: dataCID, Action: ActionDelete},
			{Path: "com.example.note/four", Action: ActionDelete},
		},
		Rev: rev, Repo: did, Time: when, Since: prev, Blocks: []byte("blocks"), Commit: dataCID, PrevData: dataCID,
	}
}

// TestCommitCheck is F14: each rule of a #commit has an error of its own.
func TestCommitCheck(t *testing.T) {
	f := func(change func(*Commit), field string, want error) {
		t.Helper()
		c := sampleCommit()
		change(&c)
		checkFault(t, c.Check(), field, want)
	}
	f(func(*Commit) {}, "", nil)
	f(func(c *Commit) { c.Since = "" }, "", nil) // hard case 25
	f(func(c *Commit) { c.PrevData = nil }, "", nil)
	f(func(c *Commit) { c.Ops, c.Blocks = nil, nil }, "", nil)
	f(func(c *Commit) { c.Blobs = []dagcbor.CID{dataCID} }, "", nil)
	f(func(c *Commit) { c.TooBig, c.Rebase = true, true }, "", nil)
	f(func(c *Commit) { c.Ops = make([]RepoOp, MaxOpsCount+1) }, "ops", ErrTooManyOps)
	f(func(c *Commit) {
		op := c.Ops[0]
		for len(c.Ops) < MaxOpsCount {
			c.Ops = append(c.Ops, op)
		}
	}, "", nil)
	f(func(c *Commit) { c.Blocks = make([]byte, MaxCommitBlockBytes) }, "", nil)
	f(func(c *Commit) { c.Blocks = make([]byte, MaxCommitBlockBytes+1) }, "blocks", ErrBlocksSize)
	f(func(c *Commit) { c.Rev = "" }, "rev", ErrTID)
	f(func(c *Commit) { c.Repo = "note.example" }, "repo", ErrDID)
	f(func(c *Commit) { c.Time = "2024-07-09" }, "time", ErrDatetime)
	f(func(c *Commit) { c.Since = "1" }, "since", ErrTID)
	f(func(c *Commit) { c.Commit = nil }, "commit", ErrCID)
	f(func(c *Commit) { c.PrevData = dagcbor.CID{} }, "prevData", ErrCID)
	f(func(c *Commit) { c.Blobs = []dagcbor.CID{dataCID, nil} }, "blobs[1]", ErrCID)
	f(func(c *Commit) { c.Ops[1].Action = "move" }, "ops[1].action", ErrAction)
	f(func(c *Commit) { c.Ops[0].Path = "" }, "ops[0].path", ErrPath)
	f(func(c *Commit) { c.Ops[0].Path = "a/\xff" }, "ops[0].path", ErrPath)
	f(func(c *Commit) { c.Ops[0].CID = nil }, "ops[0].cid", ErrCID)
	f(func(c *Commit) { c.Ops[1].CID = dataCID[1:] }, "ops[1].cid", ErrCID)
	f(func(c *Commit) { c.Ops[2].CID = dataCID }, "ops[2].cid", ErrDeleteCID) // hard case 26
	f(func(c *Commit) { c.Ops[0].Prev = dataCID }, "ops[0].prev", ErrCreatePrev)
	f(func(c *Commit) { c.Ops[2].Prev = dataCID[:9] }, "ops[2].prev", ErrCID)
}

func checkFault(t *testing.T, err error, field string, want error) {
	t.Helper()
	var at *FieldError
	if !errors.Is(err, want) || want != nil && (!errors.As(err, &at) || at.Field != field) {
		t.Errorf("got %v, want %s: %v", err, field, want)
	}
}

// TestCheck is F14 for the other bodies.
func TestCheck(t *testing.T) {
	sync := Sync{DID: did, Rev: rev, Time: when, Blocks: make([]byte, MaxSyncBlockBytes)}
	checkFault(t, sync.Check(), "", nil)
	for field, c := range map[string]struct {
		body Sync
		want error
	}{
		"did":    {Sync{Rev: rev, Time: when}, ErrDID},
		"rev":    {Sync{DID: did, Time: when}, ErrTID},
		"time":   {Sync{DID: did, Rev: rev}, ErrDatetime},
		"blocks": {Sync{DID: did, Rev: rev, Time: when, Blocks: make([]byte, MaxSyncBlockBytes+1)}, ErrBlocksSize},
	} {
		checkFault(t, c.body.Check(), field, c.want)
	}
	checkFault(t, (&Identity{DID: did, Time: when}).Check(), "", nil)
	checkFault(t, (&Identity{DID: did, Time: when, Handle: "a.test"}).Check(), "", nil)
	checkFault(t, (&Identity{DID: "did:x", Time: when}).Check(), "did", ErrDID)
	checkFault(t, (&Identity{DID: did, Time: "now"}).Check(), "time", ErrDatetime)
	checkFault(t, (&Identity{DID: did, Time: when, Handle: "a"}).Check(), "handle", ErrHandle)

	account := func(active bool, status string) error {
		return (&Account{DID: did, Time: when, Active: active, Status: status}).Check()
	}
	checkFault(t, account(true, ""), "", nil)
	checkFault(t, account(false, ""), "", nil)
	for _, status := range []string{"takendown", "suspended", "deleted", "deactivated", "desynchronized", "throttled"} {
		checkFault(t, account(false, status), "", nil)
		checkFault(t, account(true, status), "status", ErrStatusWith)
	}
	checkFault(t, account(false, "gone"), "status", ErrStatus)
	checkFault(t, (&Account{DID: "", Time: when}).Check(), "did", ErrDID)
	checkFault(t, (&Account{DID: did, Time: ""}).Check(), "time", ErrDatetime)
}

// TestScanPublished is F50 and F52: what a producer hands in is held to F14,
// where another host's frame would pass.
func TestScanPublished(t *testing.T) {
	var s Scanner
	f := func(kind Kind, m map[string]string, field string, want error) {
		t.Helper()
		var frame Frame
		err := s.ScanPublished(message(t, kind, m), &frame)
		checkFault(t, err, field, want)
		if (err != nil) != (ReactionTo(err) == SkipFrame) || err != nil && (frame.DID != nil || len(frame.fields.List) > 0) {
			t.Errorf("%v: reaction %v, frame %+v", err, ReactionTo(err), frame)
		}
	}
	f(KindCommit, commitFields(t), "", nil)
	for _, key := range []string{"ops", "rev", "repo", "time", "blobs", "since", "blocks", "commit", "rebase", "tooBig"} {
		f(KindCommit, commitFields(t, key, ""), key, ErrMissing)
	}
	f(KindCommit, commitFields(t, "prevData", "", "seq", ""), "", nil)
	f(KindCommit, commitFields(t, "since", "f6"), "", nil)
	f(KindCommit, commitFields(t, "since", "60"), "since", ErrTID)
	f(KindCommit, commitFields(t, "time", text("today")), "time", ErrDatetime)
	f(KindCommit, commitFields(t, "prevData", "f6"), "prevData", ErrType)
	path, action, cid := text("path")+text("a/b"), text("action"), text("cid")
	f(KindCommit, commitFields(t, "ops", "81a2"+path+action+text(ActionDelete)), "ops[0].cid", ErrMissing)
	f(KindCommit, commitFields(t, "ops", "81a2"+cid+"f6"+action+text(ActionDelete)), "ops[0].path", ErrMissing)
	f(KindCommit, commitFields(t, "ops", "81a2"+cid+"f6"+path), "ops[0].action", ErrMissing)
	f(KindCommit, commitFields(t, "ops", "81a3"+cid+"f6"+path+action+text(ActionDelete)), "", nil)
	f(KindCommit, commitFields(t, "ops", "81a3"+cid+"f6"+path+action+text(ActionCreate)), "ops[0].cid", ErrCID)
	f(KindCommit, commitFields(t, "ops", "81a4"+text("x")+"80"+cid+"f6"+path+action+text(ActionDelete)), "", nil)
	f(KindSync, about("rev", text(rev), "blocks", "40"), "", nil)
	for _, key := range []string{"did", "rev", "time", "blocks"} {
		f(KindSync, about(append([]string{"rev", text(rev), "blocks", "40"}, key, "")...), key, ErrMissing)
	}
	f(KindIdentity, about(), "", nil)
	f(KindIdentity, about("time", ""), "time", ErrMissing)
	f(KindIdentity, about("handle", "60"), "handle", ErrHandle)
	f(KindAccount, about("active", "f4", "status", text("deleted")), "", nil)
	f(KindAccount, about("time", "", "active", "f4"), "time", ErrMissing)
	f(KindAccount, about(), "active", ErrMissing)
	f(KindAccount, about("active", "f4", "status", "60"), "status", ErrStatus)
	f(KindAccount, about("active", "f5", "status", text("deleted")), "status", ErrStatusWith)

	var frame Frame
	for kind, m := range map[Kind]map[string]string{KindInfo: {"name": text("x")}, KindError: {"error": text("x")}} {
		if err := s.ScanPublished(message(t, kind, m), &frame); !errors.Is(err, ErrKind) || frame.Name != nil {
			t.Errorf("%s: %v", KindName(kind), err)
		}
	}
	if err := s.ScanPublished(append(message(t, KindIdentity, about()), 0), &frame); !errors.Is(err, dagcbor.ErrTrailing) {
		t.Errorf("trailing byte: %v", err)
	}
	for _, err := range []error{
		func() error { _, err := frame.DecodeSync(); return err }(),
		func() error { _, err := frame.DecodeIdentity(); return err }(),
		func() error { _, err := frame.DecodeAccount(); return err }(),
		func() error { _, err := frame.DecodeCommit(); return err }(),
	} {
		if !errors.Is(err, ErrKind) {
			t.Errorf("decode of another kind: %v", err)
		}
	}
}

// TestSizeBytes: the bound of a body's size holds for large and small ones.
func TestSizeBytes(t *testing.T) {
	c := sampleCommit()
	for range 300 {
		c.Ops = append(c.Ops, RepoOp{CID: dataCID, Prev: dataCID, Path: strings.Repeat("p", 70000), Action: ActionUpdate})
		c.Blobs = append(c.Blobs, dataCID)
	}
	c.Blocks = make([]byte, 70000)
	long := strings.Repeat("x", 70000)
	for _, b := range []interface {
		SizeBytes() int
		Append([]byte, int64) ([]byte, error)
	}{
		&c, &Commit{}, &Sync{}, &Sync{DID: long, Rev: long, Time: long, Blocks: c.Blocks}, &Identity{}, &Identity{long, long, long}, &Account{}, &Account{long, long, true, long},
	} {
		got, err := b.Append(nil, MaxSeq)
		if err != nil || len(got) > b.SizeBytes() {
			t.Errorf("%T: %d bytes, bound %d, %v", b, len(got), b.SizeBytes(), err)
		}
	}
}

// A number of operations that is out of bounds costs no memory: the message has a
// byte for each, a RepoOp has more than a hundred.
func TestManyOperationsCostNothing(t *testing.T) {
	const ops = 1_000_000
	m := message(t, KindCommit, commitFields(t, "ops", fmt.Sprintf("9a%08x", ops)+strings.Repeat("a0", ops)))
	var s Scanner
	var f Frame
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.ScanPublished(m, &f)
	runtime.ReadMemStats(&after)
	checkFault(t, err, "ops", ErrTooManyOps)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > ops {
		t.Errorf("%d bytes were allocated for a message of %d", spent, len(m))
	}
}
