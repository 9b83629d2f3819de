package firehose

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// TestCAR: framing, header and blocks, and every cut of them.
func TestCAR(t *testing.T) {
	raw := dagcbor.SHA256CID(dagcbor.CodecRaw, []byte("leaf"))
	whole := archive(dataCID, dataCID, []byte("tree"), raw, []byte("leaf"), raw, nil)
	type block struct{ cid, content string }
	read := func(b []byte) (blocks []block, err error) {
		car, err := OpenCAR(b)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(car.Root(), dataCID) {
			t.Fatalf("root %v", car.Root())
		}
		for car.More() {
			cid, content, err := car.Next()
			if err != nil {
				return blocks, err
			}
			blocks = append(blocks, block{cid.String(), string(content)})
		}
		if _, _, err := car.Next(); !errors.Is(err, ErrCARTruncated) {
			t.Errorf("a block after the last: %v", err)
		}
		return blocks, nil
	}
	blocks, err := read(whole)
	if err != nil || len(blocks) != 3 || blocks[0] != (block{dataCID.String(), "tree"}) || blocks[1] != (block{raw.String(), "leaf"}) || blocks[2].content != "" {
		t.Errorf("got %v, %v", blocks, err)
	}
	ends := map[int]bool{len(archive(dataCID)): true, len(archive(dataCID, dataCID, []byte("tree"))): true, len(archive(dataCID, dataCID, []byte("tree"), raw, []byte("leaf"))): true}
	for i := range whole {
		if _, err := read(whole[:i]); ends[i] != (err == nil) || err != nil && !errors.Is(err, ErrCARTruncated) {
			t.Errorf("cut at %d of %d: %v", i, len(whole), err)
		}
	}

	header := func(m map[string]string) []byte { return section(nil, body(t, m)) }
	roots := "81" + link(dataCID)
	f := func(name string, b []byte, want error) {
		t.Helper()
		if _, err := read(b); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	f("two roots and an unknown field", header(map[string]string{"version": "01", "roots": "82" + link(dataCID) + link(raw), "x": "00"}), nil)
	f("unsorted header", section(nil, unhex(t, "a2"+text("version")+"01"+text("roots")+roots)), nil)
	f("empty header", []byte{0}, ErrCARHeader)
	f("no version", header(map[string]string{"roots": roots}), ErrCARHeader)
	f("version 2", header(map[string]string{"version": "02", "roots": roots}), ErrCARVersion)
	f("version is text", header(map[string]string{"version": "6131", "roots": roots}), ErrCARHeader)
	f("no roots", header(map[string]string{"version": "01"}), ErrCARHeader)
	f("roots is a link", header(map[string]string{"version": "01", "roots": link(dataCID)}), ErrCARHeader)
	f("empty roots", header(map[string]string{"version": "01", "roots": "80"}), ErrCARRoots)
	f("a root is text", header(map[string]string{"version": "01", "roots": "82" + link(dataCID) + "6161"}), ErrCARHeader)
	f("header is an array", section(nil, []byte{0x80}), ErrCARHeader)
	f("a byte after the header", section(nil, append(body(t, map[string]string{"version": "01", "roots": roots}), 0)), ErrCARHeader)
	f("a length of six bytes", append([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, whole...), ErrCARVarint)
	f("a length that is too long", append([]byte{0x80, 0x00}, whole...), ErrCARVarint)
	f("a length beyond the end", []byte{0xff, 0xff, 0xff, 0xff, 0x7f, 0}, ErrCARTruncated)
	f("an empty block", append(bytes.Clone(whole), 0), ErrCARBlock)
	f("a block that is no CID", section(bytes.Clone(whole), []byte("hello")), ErrCARBlock)
	f("a block of CID version 0", section(bytes.Clone(whole), append([]byte{0x12, 0x20}, make([]byte, 32)...)), ErrCARBlock)
	f("a long length of a block", append(bytes.Clone(whole), 0xa4, 0x80, 0x00), ErrCARVarint)
}

// TestVerify is F66 and hard case 38: each fault of the structure by name.
func TestVerify(t *testing.T) {
	var s Scanner
	f := func(name string, kind Kind, m map[string]string, field string, want error) {
		t.Helper()
		var frame Frame
		if err := s.Scan(message(t, kind, m), &frame); err != nil {
			t.Errorf("%s: scan: %v", name, err)
			return
		}
		state, err := s.Verify(&frame)
		checkFault(t, err, field, want)
		if t.Failed() {
			t.Fatal(name)
		}
		if want == nil && (!bytes.Equal(state.Data, dataCID) || state.Commit == nil) || want != nil && (state.Data != nil || state.Commit != nil) {
			t.Errorf("%s: state %v", name, state)
		}
	}
	good, goodArchive := repository(t, did, rev)
	block := commitBlock(t, did, rev)
	in := func(root dagcbor.CID, archive []byte) map[string]string {
		return commitFields(t, "commit", link(root), "blocks", octets(archive))
	}
	// with is a commit whose block has changed fields.
	with := func(fields ...string) map[string]string {
		b := commitBlock(t, did, rev, fields...)
		root := dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, b)
		return in(root, archive(root, root, b))
	}
	sync := func(archive []byte) map[string]string {
		return about("rev", text(rev), "blocks", octets(archive))
	}
	f("commit", KindCommit, commitFields(t), "", nil)
	f("sync", KindSync, sync(archive(good, good, block)), "", nil)
	f("sync with another block", KindSync, sync(goodArchive), "", nil)
	f("prev is a link", KindCommit, with("prev", link(dataCID)), "", nil)
	f("no prev", KindCommit, with("prev", ""), "", nil)
	f("an unknown field", KindCommit, with("x", "f6"), "", nil)
	f("the root twice", KindCommit, in(good, archive(good, good, block, good, []byte("other"))), "", nil)

	f("no blocks", KindCommit, commitFields(t, "blocks", ""), "blocks", ErrMissing)
	f("no commit", KindCommit, commitFields(t, "commit", ""), "commit", ErrMissing)
	f("no content", KindCommit, commitFields(t, "blocks", "40"), "blocks", ErrCARTruncated)
	f("201 operations", KindCommit, commitFields(t, "ops", "98c9"+strings.Repeat("a0", 201)), "ops", ErrTooManyOps)
	f("200 operations", KindCommit, commitFields(t, "ops", "98c8"+strings.Repeat("a0", 200)), "", nil)
	grown := func(size int, base []byte) []byte {
		leaf := func(n int) []byte { return sections(bytes.Clone(base), dataCID, make([]byte, n)) }
		n := size - len(leaf(0))
		for len(leaf(n)) > size {
			n--
		}
		if len(leaf(n)) != size {
			t.Fatalf("cannot make %d bytes", size)
		}
		return leaf(n)
	}
	f("blocks of 2,000,000", KindCommit, in(good, grown(MaxCommitBlockBytes, goodArchive)), "", nil)
	f("blocks of 2,000,001", KindCommit, in(good, grown(MaxCommitBlockBytes+1, goodArchive)), "blocks", ErrBlocksSize)
	f("sync of 10,000", KindSync, sync(grown(MaxSyncBlockBytes, goodArchive)), "", nil)
	f("sync of 10,001", KindSync, sync(grown(MaxSyncBlockBytes+1, goodArchive)), "blocks", ErrBlocksSize)
	f("cut", KindCommit, in(good, goodArchive[:len(goodArchive)-1]), "blocks", ErrCARTruncated)
	f("a bad block after the root", KindCommit, in(good, append(bytes.Clone(goodArchive), 0)), "blocks", ErrCARBlock)
	f("no root block", KindCommit, in(good, archive(good, dataCID, []byte("tree"))), "blocks", ErrRootMissing)
	f("case 38", KindCommit, in(good, archive(good, good, append(bytes.Clone(block[:len(block)-1]), 4))), "blocks", ErrRootHash)
	raw := dagcbor.SHA256CID(dagcbor.CodecRaw, block)
	f("a raw root", KindCommit, in(raw, archive(raw, raw, block)), "blocks", ErrRootCID)
	identity := append(dagcbor.CID{1, 0x71, 0, byte(3)}, "abc"...)
	f("an identity root", KindCommit, in(identity, archive(identity, identity, block)), "blocks", ErrRootCID)
	f("another commit", KindCommit, in(dataCID, goodArchive), "commit", ErrCommitRoot)
	f("version 2", KindCommit, with("version", "02"), "blocks", ErrCommitVersion)
	f("version 4 without the rest", KindCommit, with("version", "04", "sig", ""), "blocks", ErrCommitVersion)
	for _, field := range []string{"did", "rev", "sig", "data", "version"} {
		f("no "+field, KindCommit, with(field, ""), "blocks", ErrCommitBlock)
		f(field+" is null", KindCommit, with(field, "f6"), "blocks", ErrCommitBlock)
	}
	f("prev is text", KindCommit, with("prev", "6161"), "blocks", ErrCommitBlock)
	f("another DID", KindCommit, with("did", text("did:web:a")), "blocks", ErrCommitDID)
	f("another revision", KindCommit, with("rev", text(prev)), "blocks", ErrCommitRev)
	f("a list in an unknown field out of order", KindCommit, with("x", "a2"+text("b")+"00"+text("a")+"00"), "blocks", ErrCommitBlock)
	for name, b := range map[string][]byte{
		"no CBOR": []byte("tree"), "an array": {0x80}, "two values": append(bytes.Clone(block), 0),
		"out of order": unhex(t, "a2"+text("version")+"03"+text("did")+text(did)), "nothing": {},
	} {
		root := dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, b)
		f("block is "+name, KindCommit, in(root, archive(root, root, b)), "blocks", ErrCommitBlock)
		f("sync: block is "+name, KindSync, sync(archive(root, root, b)), "blocks", ErrCommitBlock)
	}
	var frame Frame
	if err := s.Scan(message(t, KindIdentity, about()), &frame); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(&frame); !errors.Is(err, ErrKind) {
		t.Errorf("identity: %v", err)
	}
}

// FuzzCAR: no archive does harm, and what is read is what was there.
func FuzzCAR(f *testing.F) {
	raw := dagcbor.SHA256CID(dagcbor.CodecRaw, []byte("leaf"))
	f.Add(archive(dataCID, dataCID, []byte("tree"), raw, []byte("leaf")))
	f.Add(archive(dataCID))
	f.Add([]byte{0x80, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		car, err := OpenCAR(b)
		if err != nil {
			if word := Reason(err); !strings.HasPrefix(word, "car_") {
				t.Fatalf("%x: %v has the reason %s", b, err, word)
			}
			return
		}
		if _, err := dagcbor.ParseCID(car.Root()); err != nil {
			t.Fatalf("%x: root %x: %v", b, car.Root(), err)
		}
		// The blocks, written again, are the end of the archive.
		blocks := len(b) - len(car.rest)
		var again []byte
		for car.More() {
			before := len(car.rest)
			cid, content, err := car.Next()
			if err != nil {
				if len(car.rest) != before || !strings.HasPrefix(Reason(err), "car_") {
					t.Fatalf("%x: %v", b, err)
				}
				break
			}
			again = section(again, cid, content)
		}
		if !bytes.Equal(again, b[blocks:len(b)-len(car.rest)]) {
			t.Fatalf("%s: blocks read as %x", hex.EncodeToString(b), again)
		}
	})
}
