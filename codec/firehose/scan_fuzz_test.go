package firehose

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// renumber is F61 by another implementation: decode the body, replace seq,
// encode it canonically.
func renumber(t testing.TB, body []byte, seq int64) []byte {
	t.Helper()
	dec, err := cbor.DecOptions{MaxNestedLevels: dagcbor.MaxDepth + 1, MaxArrayElements: 1<<31 - 1, MaxMapPairs: 1<<31 - 1}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	enc, err := cbor.EncOptions{Sort: cbor.SortLengthFirst}.EncMode()
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := dec.Unmarshal(body, &m); err != nil {
		t.Fatalf("%x: %v", body, err)
	}
	m[seqKey] = seq
	out, err := enc.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fields is what a frame lends, without what it keeps for itself.
func fields(f *Frame) Frame {
	c := *f
	c.Seq, c.body, c.fields, c.seqStart, c.seqEnd = 0, nil, dagcbor.Fields{}, 0, 0
	return c
}

// checkFrame holds a frame that was accepted to H2 and H3.
func checkFrame(t *testing.T, in []byte, f *Frame, seq int64) {
	t.Helper()
	var s Scanner
	out, err := f.Append(nil, seq)
	if err != nil || len(out) > f.SizeBytes() {
		t.Fatalf("%x: %v, %d bytes, bound %d", in, err, len(out), f.SizeBytes())
	}
	header := headers[f.kind]
	if !bytes.HasPrefix(out, []byte(header)) {
		t.Fatalf("%x: header of %x", in, out)
	}
	if err := s.cbor.Check(out[len(header):]); err != nil {
		t.Fatalf("%x: H2: %x: %v", in, out, err)
	}
	if want := renumber(t, f.body, seq); !bytes.Equal(out[len(header):], want) {
		t.Fatalf("%x: F61: got %x, want %x", in, out[len(header):], want)
	}
	s.MaxFrameBytes = len(out)
	var back Frame
	if err := s.Scan(out, &back); err != nil || back.Seq != seq {
		t.Fatalf("%x: H3: %x: %v, seq %d", in, out, err, back.Seq)
	}
	if got, want := fields(&back), fields(f); !reflect.DeepEqual(got, want) {
		t.Fatalf("%x: H3: got %+v, want %+v", in, got, want)
	}
	if f.Seq != 0 {
		again, err := back.Append(nil, f.Seq)
		if err != nil || s.cbor.Check(f.body) == nil && !bytes.Equal(again[len(header):], f.body) {
			t.Fatalf("%x: back at its number: %x, %v", in, again, err)
		}
	}
}

// FuzzScan: whatever comes, the reaction is one of F58 and F59, nothing is
// changed, and what is accepted can be published.
func FuzzScan(f *testing.F) {
	v := readVectors(f)
	for _, frame := range v.Frames {
		f.Add(unhex(f, frame.Hex), int64(7))
	}
	for _, frame := range v.Invalid {
		f.Add(unhex(f, frame.Hex), int64(MaxSeq))
	}
	for _, frame := range v.NonCanonicalAccepted {
		f.Add(unhex(f, frame.Hex), int64(1<<32))
	}
	f.Add(message(f, KindCommit, commitFields(f)), int64(24))
	f.Add(append([]byte(headers[KindAccount]), unhex(f, "a5"+text("active")+"f4"+text("x")+"a2616200616100"+text("did")+text(did)+seqFuzz+text("time")+text(when))...), int64(9))
	f.Fuzz(func(t *testing.T, in []byte, seq int64) {
		var s Scanner
		var frame Frame
		kept := bytes.Clone(in)
		err := s.Scan(in, &frame)
		reaction := ReactionTo(err)
		json, jsonErr := s.AppendJSON(nil, in)
		checkJSONForm(t, in, json, jsonErr, reaction, err)
		seq = 1 + seq&(MaxSeq-1)
		if err == nil {
			_, _ = s.Verify(&frame)
			if numbered(frame.kind) {
				checkFrame(t, in, &frame, seq)
			}
		} else if word := Reason(err); word == "" || word == "other" {
			t.Fatalf("%x: %v has the reason %q", in, err, word)
		}
		if err := s.ScanPublished(in, &frame); err == nil {
			checkFrame(t, in, &frame, seq)
		} else if published := ReactionTo(err); reaction == DropConnection && published != DropConnection {
			t.Fatalf("%x: published: %v, and sent: %v", in, published, reaction)
		}
		if !bytes.Equal(in, kept) {
			t.Fatalf("%x: H1: the message is now %x", kept, in)
		}
	})
}

const seqFuzz = "6373657105"

// checkJSONForm: a message has a JSON form if its CBOR is right, which is if
// it is not bad CBOR to a Scanner.
func checkJSONForm(t *testing.T, in, text []byte, jsonErr error, reaction Reaction, err error) {
	t.Helper()
	if jsonErr == nil && !json.Valid(text) {
		t.Fatalf("%x: JSON %s", in, text)
	}
	if jsonErr != nil && reaction != DropConnection {
		t.Fatalf("%x: no JSON (%v), and %v (%v)", in, jsonErr, reaction, err)
	}
}
