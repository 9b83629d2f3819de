package firehose

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// vectors is the contract's file.
type vectors struct {
	Signer struct {
		DataRoots []struct{ Frame, DataCID string }
	}
	Frames []struct {
		Name, Hex, HeaderHex, BodyHex string
		Header, Body                  json.RawMessage
		LexiconValid                  *bool
	}
	Resequence []struct {
		Input     string
		NewSeq    int64
		OutputHex string
	}
	NonCanonicalAccepted []struct{ Name, Hex, CanonicalHex, OurDecoder string }
	Invalid              []struct{ Name, Hex, OurDecoder string }
}

const vectorName = "subscribe-repos-frames.json"

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", vectorName))
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

// frame returns the bytes of one of the contract's frames.
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

const (
	did  = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
	rev  = "3kwtqfvxm2225"
	prev = "3kwtqfvxm2224"
	when = "2024-07-09T10:00:00Z"
)

// about is the fields of a body that is told of the account.
func about(fields ...string) map[string]string {
	m := map[string]string{"did": text(did), "seq": "05", "time": text(when)}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i]] = fields[i+1]
	}
	return m
}

// text and the others write a value in hex.
func text(s string) string { return hex.EncodeToString(dagcbor.AppendText(nil, s)) }

func octets(b []byte) string { return hex.EncodeToString(dagcbor.AppendBytes(nil, b)) }

func link(cid dagcbor.CID) string { return hex.EncodeToString(dagcbor.AppendLink(nil, cid)) }

// body writes a map in canonical order; fields with the value "" are left out.
func body(t testing.TB, m map[string]string) []byte {
	t.Helper()
	var fields dagcbor.Fields
	for key, value := range m {
		if value != "" {
			fields.Set(key, unhex(t, value))
		}
	}
	fields.Sort()
	dst := dagcbor.AppendMap(nil, len(fields.List))
	for _, f := range fields.List {
		dst = append(dagcbor.AppendText(dst, f.Key), f.Value...)
	}
	return dst
}

func message(t testing.TB, kind Kind, m map[string]string) []byte {
	t.Helper()
	return append([]byte(headers[kind]), body(t, m)...)
}

// commitFields is a #commit that passes everything.
func commitFields(t testing.TB, fields ...string) map[string]string {
	t.Helper()
	root, archive := repository(t, did, rev)
	m := map[string]string{
		"ops":  "81" + "a3" + text("cid") + link(dataCID) + text("path") + text("com.example.note/one") + text("action") + text(ActionCreate),
		"rev":  text(rev),
		"seq":  "05",
		"repo": text(did), "time": text(when), "blobs": "80", "since": text(prev), "blocks": octets(archive), "commit": link(root),
		"rebase": "f4", "tooBig": "f4", "prevData": link(dataCID),
	}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i]] = fields[i+1]
	}
	return m
}

var dataCID = dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, []byte("tree"))

// commitBlock is the block of a commit, with changed fields.
func commitBlock(t testing.TB, did, rev string, fields ...string) []byte {
	t.Helper()
	m := map[string]string{"did": text(did), "rev": text(rev), "sig": octets(make([]byte, 64)), "data": link(dataCID), "prev": "f6", "version": "03"}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i]] = fields[i+1]
	}
	return body(t, m)
}

// repository is the archive of a commit and one other block, and its root.
func repository(t testing.TB, did, rev string) (dagcbor.CID, []byte) {
	t.Helper()
	block := commitBlock(t, did, rev)
	root := dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, block)
	return root, archive(root, dataCID, []byte("tree"), root, block)
}

// archive is a CAR of pairs of CID and content.
func archive(root dagcbor.CID, blocks ...[]byte) []byte {
	header := dagcbor.AppendMap(nil, 2)
	header = dagcbor.AppendArray(dagcbor.AppendText(header, "roots"), 1)
	header = dagcbor.AppendLink(header, root)
	header = dagcbor.AppendInt(dagcbor.AppendText(header, "version"), 1)
	return sections(section(nil, header), blocks...)
}

func sections(dst []byte, blocks ...[]byte) []byte {
	for i := 0; i < len(blocks); i += 2 {
		dst = section(dst, blocks[i], blocks[i+1])
	}
	return dst
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
