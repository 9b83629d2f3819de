package upstream

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
)

const when = "2024-07-09T10:00:00Z"

// vectors is the contract's file, of which codec/firehose has the copy.
type vectors struct {
	Frames     []struct{ Name, Hex string }
	Resequence []struct {
		Input     string
		NewSeq    int64
		OutputHex string
	}
	NonCanonicalAccepted []struct{ Name, Hex, CanonicalHex string }
	Invalid              []struct{ Name, Hex, OurDecoder string }
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("../../codec/firehose/testdata/subscribe-repos-frames.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Frames) != 18 || len(v.Resequence) != 5 || len(v.NonCanonicalAccepted) != 2 || len(v.Invalid) != 25 {
		t.Fatal("vectors are missing")
	}
	return v
}

func (v *vectors) frame(t testing.TB, name string) []byte {
	t.Helper()
	for _, f := range v.Frames {
		if f.Name == name {
			return unhex(t, f.Hex)
		}
	}
	t.Fatalf("no frame %s", name)
	return nil
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// did returns the DID of a letter.
func did(name byte) string {
	id := make([]byte, 24)
	for i := range id {
		id[i] = name
	}
	return "did:plc:" + string(id)
}

var revStart = time.Date(2024, 7, 9, 10, 0, 0, 0, time.UTC)

// tid returns the TID of a time.
func tid(at time.Time) string {
	const alphabet = "234567abcdefghijklmnopqrstuvwxyz"
	n := uint64(at.UnixMicro()) << 10
	text := make([]byte, 13)
	for i := range text {
		text[len(text)-1-i] = alphabet[n&31]
		n >>= 5
	}
	return string(text)
}

// rev returns the nth revision, "" for none.
func rev(n int) string {
	if n == 0 {
		return ""
	}
	return tid(revStart.Add(time.Duration(n) * time.Second))
}

// dataOf is the root of the tree at a revision.
func dataOf(rev string) dagcbor.CID {
	return dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, []byte("tree "+rev))
}

// repository returns an archive with the commit at a revision, and its root.
func repository(did, rev string, extra []byte) (dagcbor.CID, []byte) {
	block := dagcbor.AppendMap(nil, 6)
	block = dagcbor.AppendText(dagcbor.AppendText(block, "did"), did)
	block = dagcbor.AppendText(dagcbor.AppendText(block, "rev"), rev)
	block = dagcbor.AppendBytes(dagcbor.AppendText(block, "sig"), make([]byte, 64))
	block = dagcbor.AppendLink(dagcbor.AppendText(block, "data"), dataOf(rev))
	block = dagcbor.AppendNull(dagcbor.AppendText(block, "prev"))
	block = dagcbor.AppendInt(dagcbor.AppendText(block, "version"), 3)
	root := dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, block)
	header := dagcbor.AppendMap(nil, 2)
	header = dagcbor.AppendLink(dagcbor.AppendArray(dagcbor.AppendText(header, "roots"), 1), root)
	header = dagcbor.AppendInt(dagcbor.AppendText(header, "version"), 1)
	archive := section(section(nil, header), root, block)
	if extra != nil {
		archive = section(archive, dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, extra), extra)
	}
	return root, archive
}

func section(dst []byte, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}

// body is what has a frame.
type body interface {
	Append(dst []byte, seq int64) ([]byte, error)
}

func frame(t testing.TB, b body, seq int64) []byte {
	t.Helper()
	message, err := b.Append(nil, seq)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// commitOf is a #commit from one revision to another.
func commitOf(did, since, rev string) *firehose.Commit {
	root, archive := repository(did, rev, nil)
	c := &firehose.Commit{
		Repo: did, Rev: rev, Since: since, Time: when, Blocks: archive, Commit: root,
		Ops: []firehose.RepoOp{{CID: dataOf(rev), Path: "com.example.note/one", Action: firehose.ActionCreate}},
	}
	if since != "" {
		c.PrevData = dataOf(since)
	}
	return c
}

// commit is the frame of a #commit from revision n-1 to n.
func commit(t testing.TB, seq int64, did string, n int) []byte {
	t.Helper()
	return frame(t, commitOf(did, rev(n-1), rev(n)), seq)
}

func syncFrame(t testing.TB, seq int64, did string, n int) []byte {
	t.Helper()
	_, archive := repository(did, rev(n), nil)
	return frame(t, &firehose.Sync{DID: did, Rev: rev(n), Time: when, Blocks: archive}, seq)
}

func account(t testing.TB, seq int64, did string, active bool, status string) []byte {
	t.Helper()
	return frame(t, &firehose.Account{DID: did, Time: when, Active: active, Status: status}, seq)
}

func identity(t testing.TB, seq int64, did string) []byte {
	t.Helper()
	return frame(t, &firehose.Identity{DID: did, Time: when}, seq)
}

func identities(t testing.TB, from, to int64) (frames [][]byte, lines []string) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		frames = append(frames, identity(t, seq, did('a')))
		lines = append(lines, fmt.Sprintf("identity %d", seq))
	}
	return frames, lines
}
