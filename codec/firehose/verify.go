package firehose

import (
	"bytes"
	"errors"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// State is what a verified #commit or #sync says of its repository (F64). Both
// are borrowed from the message.
type State struct {
	Commit dagcbor.CID // the commit's block
	Data   dagcbor.CID // the root of its tree
}

// Verify checks the structure of a scanned #commit or #sync (F66): the limits
// of F14 hold, blocks is a readable CAR whose first root is a block in it that
// hashes to its CID, and that block is a commit of version 3 with the message's
// did and rev. The commit field of a #commit is that root. No signature is
// looked at, and of the other blocks only the framing. The error is a
// FieldError, or ErrKind for another kind.
func (s *Scanner) Verify(f *Frame) (State, error) {
	limit := MaxCommitBlockBytes
	switch f.kind {
	case KindCommit:
	case KindSync:
		limit = MaxSyncBlockBytes
	default:
		return State{}, ErrKind
	}
	switch {
	case f.OpsCount > MaxOpsCount:
		return State{}, bad("ops", ErrTooManyOps)
	case f.Blocks == nil:
		return State{}, bad("blocks", ErrMissing)
	case len(f.Blocks) > limit:
		return State{}, bad("blocks", ErrBlocksSize)
	case f.kind == KindCommit && f.Commit == nil:
		return State{}, bad("commit", ErrMissing)
	}
	root, block, err := s.rootBlock(f.Blocks)
	if err != nil {
		return State{}, bad("blocks", err)
	}
	if f.kind == KindCommit && !bytes.Equal(f.Commit, root) {
		return State{}, bad("commit", ErrCommitRoot)
	}
	data, err := s.commitBlock(block, f)
	if err != nil {
		return State{}, bad("blocks", err)
	}
	return State{Commit: root, Data: data}, nil
}

// rootBlock reads a whole archive and returns its first root with the block.
func (s *Scanner) rootBlock(archive []byte) (root dagcbor.CID, block []byte, err error) {
	car, err := openCAR(archive, &s.cbor, &s.head)
	if err != nil {
		return nil, nil, err
	}
	root, found := car.Root(), false
	for car.More() {
		cid, content, err := car.Next()
		if err != nil {
			return nil, nil, err
		}
		if !found && bytes.Equal(cid, root) {
			block, found = content, true
		}
	}
	if !found {
		return nil, nil, ErrRootMissing
	}
	switch err := root.Verify(block); {
	case errors.Is(err, dagcbor.ErrCIDMismatch):
		return nil, nil, ErrRootHash
	case err != nil || root.Codec() != dagcbor.CodecDAGCBOR:
		return nil, nil, ErrRootCID
	}
	return root, block, nil
}

// commitBlock reads the block of a commit and returns the root of its tree.
func (s *Scanner) commitBlock(block []byte, f *Frame) (dagcbor.CID, error) {
	end, err := s.cbor.Map(block, 0, &s.head)
	if err != nil || end != len(block) || !s.head.Sorted() {
		return nil, ErrCommitBlock
	}
	did, hasDID := dagcbor.TextOf(s.head.Find("did"))
	rev, hasRev := dagcbor.TextOf(s.head.Find("rev"))
	version, hasVersion := dagcbor.Int(s.head.Find("version"))
	data, hasData := dagcbor.Link(s.head.Find("data"))
	_, hasSignature := dagcbor.BytesOf(s.head.Find("sig"))
	prev := s.head.Find("prev") // null, or the link of an older form
	_, isLink := dagcbor.Link(prev)
	switch {
	case hasVersion && version != 3:
		return nil, ErrCommitVersion
	case !hasDID || !hasRev || !hasVersion || !hasData || !hasSignature:
		return nil, ErrCommitBlock
	case prev != nil && !isLink && !dagcbor.IsNull(prev):
		return nil, ErrCommitBlock
	case !bytes.Equal(did, f.DID):
		return nil, ErrCommitDID
	case !bytes.Equal(rev, f.Rev):
		return nil, ErrCommitRev
	}
	return data, nil
}
