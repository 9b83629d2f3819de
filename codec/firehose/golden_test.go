package firehose

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestGolden holds the frames that we write to the file, byte for byte, and
// each of them to what a Scanner says of it (F9 to F16).
func TestGolden(t *testing.T) {
	root, blocks := repository(t, did, rev)
	multi := sampleCommit()
	multi.Commit, multi.Blocks = root, blocks
	first := Commit{Ops: multi.Ops[:1], Rev: rev, Repo: did, Time: when, Blocks: blocks, Commit: root}
	type body interface {
		Check() error
		Append([]byte, int64) ([]byte, error)
	}
	var out []byte
	var s Scanner
	var f Frame
	f9 := func(name string, frame []byte, kind Kind) {
		t.Helper()
		if err := s.Scan(frame, &f); err != nil || f.Kind() != kind {
			t.Errorf("%s: %v, kind %s", name, err, KindName(f.Kind()))
		}
		if err := s.cbor.Check(f.body); err != nil {
			t.Errorf("%s: F10: %v", name, err)
		}
		if kind <= KindSync {
			if _, err := s.Verify(&f); err != nil {
				t.Errorf("%s: F66: %v", name, err)
			}
		}
		out = fmt.Appendf(out, "%s\t%x\n", name, frame)
	}
	numbered := func(name string, b body, seq int64, kind Kind) {
		t.Helper()
		frame, err := b.Append(nil, seq)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		f9(name, frame, kind)
		if f.Seq != seq {
			t.Errorf("%s: F15: seq %d, want %d", name, f.Seq, seq)
		}
	}
	numbered("F14 first commit", &first, 1, KindCommit)
	numbered("F14 commit of four operations", &multi, 1<<32, KindCommit)
	numbered("F14 sync", &Sync{did, rev, when, archive(root, root, commitBlock(t, did, rev))}, 255, KindSync)
	numbered("F14 identity", &Identity{DID: did, Time: when}, 256, KindIdentity)
	numbered("F14 identity with handle", &Identity{did, when, "note.example"}, 65535, KindIdentity)
	numbered("F14 account", &Account{DID: did, Time: when, Active: true}, 65536, KindAccount)
	numbered("F14 account with status", &Account{did, when, false, StatusSuspended}, MaxSeq, KindAccount)
	f9("F22 info", (&Info{OutdatedCursor, "Some events are no longer held."}).Append(nil), KindInfo)
	f9("F23 error", (&Error{FutureCursor, ""}).Append(nil), KindError)
	f9("F32 error with message", (&Error{ConsumerTooSlow, "The next frame is gone."}).Append(nil), KindError)

	path := filepath.Join("testdata", "frames.txt")
	if *update {
		if err := os.WriteFile(path, out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(out, want) {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, out, want)
	}
}

// TestHeads is F11 to F13 written out: a commit without content, byte for byte.
func TestHeads(t *testing.T) {
	c := Commit{Rev: rev, Repo: "did:web:a", Time: when, Commit: dagcbor.CID(unhex(t, "01711220"+zeros)), Ops: []RepoOp{{Path: "a/b", Action: ActionDelete}}}
	got, err := c.Append(nil, 24)
	want := "a2 61 74 67 23636f6d6d6974 62 6f70 01" + "ab" +
		"63 6f7073 81 a3 63 636964 f6 64 70617468 63 612f62 66 616374696f6e 66 64656c657465" +
		"63 726576 6d" + hex.EncodeToString([]byte(rev)) + "63 736571 18 18" +
		"64 7265706f 69 6469643a7765623a61" + "64 74696d65 74" + hex.EncodeToString([]byte(when)) +
		"65 626c6f6273 80" + "65 73696e6365 f6" + "66 626c6f636b73 40" +
		"66 636f6d6d6974 d82a 5825 00 01711220" + zeros + "66 726562617365 f4" + "66 746f6f426967 f4"
	if err != nil || !bytes.Equal(got, unhex(t, want)) {
		t.Errorf("%v\ngot  %x\nwant %s", err, got, want)
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
