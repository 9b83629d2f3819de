package firehoseclients

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
)

// vectors is the part of the contract's vectors that is used here.
type vectors struct {
	Signer struct {
		DID, DIDKey string
		DIDDoc      json.RawMessage
	}
	Frames               []vector
	NonCanonicalAccepted []struct{ Name, Hex, CanonicalHex string }
}

// vector is a frame and its JSON form.
type vector struct {
	Name, Hex string
	Header    struct{ T string }
	Body      map[string]any
}

// messages is how many of the frames have a number and a known type.
const messages = 13

// handle is the one that the signer's document has.
const handle = "note.example"

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "codec", "firehose", "testdata", "subscribe-repos-frames.json"))
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// messages returns the frames that a producer may publish (F52).
func (v *vectors) messages(t *testing.T) (list []vector) {
	t.Helper()
	for _, f := range v.Frames {
		switch f.Header.T {
		case "#commit", "#sync", "#identity", "#account":
			list = append(list, f)
		}
	}
	if len(list) != messages {
		t.Fatalf("%d vectors of messages, want %d", len(list), messages)
	}
	return list
}

func (v *vectors) named(t *testing.T, name string) vector {
	t.Helper()
	for _, f := range v.Frames {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no vector %s", name)
	return vector{}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// numbered returns the body with another number, which is all that a relay may
// change (F61).
func (f *vector) numbered(seq int64) map[string]any {
	body := maps.Clone(f.Body)
	body["seq"] = float64(seq)
	return body
}

// typed returns the body as both clients hand it over: the type is in it.
func (f *vector) typed(seq int64) map[string]any {
	body := f.numbered(seq)
	body["$type"] = "com.atproto.sync.subscribeRepos" + f.Header.T
	return body
}

// skyware returns the body as @skyware/firehose hands it over: of a commit
// there are the links as text, the records beside their operations, and no
// deprecated fields.
func (f *vector) skyware(t *testing.T, seq int64) map[string]any {
	t.Helper()
	body := f.typed(seq)
	if f.Header.T != "#commit" {
		return body
	}
	records := recordsOf(t, unhex(t, f.Hex))
	ops := []any{}
	for _, op := range body["ops"].([]any) {
		op := maps.Clone(op.(map[string]any))
		if op["action"] == "delete" {
			delete(op, "cid")
		} else {
			cid := linkOf(op["cid"])
			record, ok := records[cid]
			if !ok {
				t.Fatalf("%s: no record %s", f.Name, cid)
			}
			op["cid"], op["record"] = cid, record
		}
		if prev, ok := op["prev"]; ok {
			op["prev"] = linkOf(prev)
		}
		ops = append(ops, op)
	}
	body["ops"], body["commit"] = ops, linkOf(body["commit"])
	if prev, ok := body["prevData"]; ok {
		body["prevData"] = linkOf(prev)
	}
	for _, deprecated := range []string{"blobs", "rebase", "tooBig"} {
		delete(body, deprecated)
	}
	return body
}

func linkOf(value any) string {
	text, _ := value.(map[string]any)["$link"].(string)
	return text
}

// recordsOf returns the blocks of a commit in JSON form, by their links.
func recordsOf(t *testing.T, message []byte) map[string]any {
	t.Helper()
	var scanner firehose.Scanner
	var frame firehose.Frame
	var commit firehose.Commit
	err := scanner.Scan(message, &frame)
	if err == nil {
		commit, err = frame.DecodeCommit()
	}
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]any{}
	if len(commit.Blocks) == 0 {
		return blocks
	}
	archive, err := firehose.OpenCAR(commit.Blocks)
	if err != nil {
		t.Fatal(err)
	}
	for archive.More() {
		cid, content, err := archive.Next()
		if err != nil {
			t.Fatal(err)
		}
		var cbor dagcbor.Scanner
		var block any
		text, err := cbor.AppendJSON(nil, content)
		if err == nil {
			err = json.Unmarshal(text, &block)
		}
		if err != nil {
			t.Fatalf("block %v: %v", cid, err)
		}
		blocks[cid.String()] = block
	}
	return blocks
}

// rootOf returns the root of a #sync's blocks.
func rootOf(t *testing.T, message []byte) string {
	t.Helper()
	var scanner firehose.Scanner
	var frame firehose.Frame
	var body firehose.Sync
	var archive firehose.CAR
	err := scanner.Scan(message, &frame)
	if err == nil {
		body, err = frame.DecodeSync()
	}
	if err == nil {
		archive, err = firehose.OpenCAR(body.Blocks)
	}
	if err != nil {
		t.Fatal(err)
	}
	return archive.Root().String()
}
