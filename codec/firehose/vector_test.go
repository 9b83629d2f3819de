package firehose

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestVectorsAreThePublishedOnes holds our copy to the contract's file.
func TestVectorsAreThePublishedOnes(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatal("no go.mod above the package")
		}
		root = filepath.Dir(root)
	}
	want, err := os.ReadFile(filepath.Join(root, "..", "shared", "vectors", vectorName))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no contract beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("testdata", vectorName))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs from the contract's vectors (%v)", err)
	}
}

// TestVectorFrames is F9 to F15 and hard cases 25 and 26: each frame is read,
// its body is written again from its typed form, and its JSON form is as
// published.
func TestVectorFrames(t *testing.T) {
	v := readVectors(t)
	var s Scanner
	for _, want := range v.Frames {
		in := unhex(t, want.Hex)
		kept := bytes.Clone(in)
		var f Frame
		err := s.Scan(in, &f)
		if want.Name == "unknown-type" {
			if ReactionTo(err) != SkipFrame || !errors.Is(err, ErrUnknownType) || f.Kind() != KindUnknown || string(f.Type) != "#future" || f.Seq != 300 {
				t.Errorf("%s: %v, %+v", want.Name, err, f)
			}
		} else if err != nil {
			t.Errorf("%s: %v", want.Name, err)
			continue
		} else if got := again(t, &f); want.Name != "unknown-field" && !bytes.Equal(got, in) {
			t.Errorf("%s: written as %x", want.Name, got)
		}
		if !bytes.Equal(in, kept) {
			t.Errorf("%s: H1: the message was changed", want.Name)
		}
		if f.Kind() < KindUnknown && headers[f.Kind()] != string(unhex(t, want.HeaderHex)) {
			t.Errorf("%s: F13: header is %x", want.Name, headers[f.Kind()])
		}
		checkJSON(t, &s, want.Name, in, want.Header, want.Body)
		if f.Kind() <= KindAccount {
			if err := s.ScanPublished(in, &f); err != nil {
				t.Errorf("%s: F52: %v", want.Name, err)
			}
		}
	}
}

// again writes the typed body of a frame.
func again(t *testing.T, f *Frame) []byte {
	t.Helper()
	var b interface {
		Kind() Kind
		Check() error
		SizeBytes() int
		Append([]byte, int64) ([]byte, error)
	}
	var err error
	switch f.Kind() {
	case KindCommit:
		var c Commit
		c, err = f.DecodeCommit()
		b = &c
	case KindSync:
		var y Sync
		y, err = f.DecodeSync()
		b = &y
	case KindIdentity:
		var i Identity
		i, err = f.DecodeIdentity()
		b = &i
	case KindAccount:
		var a Account
		a, err = f.DecodeAccount()
		b = &a
	case KindInfo:
		return (&Info{string(f.Name), string(f.Message)}).Append(nil)
	case KindError:
		return (&Error{string(f.Name), string(f.Message)}).Append(nil)
	}
	if err != nil {
		t.Errorf("decode %s: %v", KindName(f.Kind()), err)
		return nil
	}
	if err := b.Check(); err != nil {
		t.Errorf("check %s: %v", KindName(f.Kind()), err)
	}
	got, err := b.Append(nil, f.Seq)
	if err != nil || b.Kind() != f.Kind() || b.SizeBytes() < len(got) {
		t.Errorf("append %s: %v, kind %d, size %d of %d", KindName(f.Kind()), err, b.Kind(), b.SizeBytes(), len(got))
	}
	return got
}

func checkJSON(t *testing.T, s *Scanner, name string, in []byte, header, body json.RawMessage) {
	t.Helper()
	text, err := s.AppendJSON(nil, in)
	if err != nil {
		t.Errorf("%s: JSON: %v", name, err)
		return
	}
	var got, want any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Errorf("%s: JSON %s: %v", name, text, err)
	}
	if err := json.Unmarshal([]byte(`{"header":`+string(header)+`,"body":`+string(body)+`}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: JSON %s", name, text)
	}
}

// TestVectorResequence is F61 and hard case 31.
func TestVectorResequence(t *testing.T) {
	v := readVectors(t)
	var s Scanner
	for _, pair := range v.Resequence {
		var f Frame
		if err := s.Scan(v.frame(t, pair.Input), &f); err != nil {
			t.Errorf("%s: %v", pair.Input, err)
			continue
		}
		got, err := f.Append(nil, pair.NewSeq)
		if err != nil || !bytes.Equal(got, unhex(t, pair.OutputHex)) || len(got) > f.SizeBytes() {
			t.Errorf("%s: %v: got %x, size %d", pair.Input, err, got, f.SizeBytes())
		}
	}
}

// TestVectorUnsorted is F59 and hard case 29: keys out of order become sorted.
func TestVectorUnsorted(t *testing.T) {
	v := readVectors(t)
	var s Scanner
	for _, want := range v.NonCanonicalAccepted {
		var f Frame
		if err := s.Scan(unhex(t, want.Hex), &f); err != nil || want.OurDecoder != "accept-and-reencode" {
			t.Errorf("%s: %v", want.Name, err)
			continue
		}
		var got []byte
		if f.Kind() == KindInfo { // F62: never passed on, so it is written anew
			got = (&Info{string(f.Name), string(f.Message)}).Append(nil)
		} else {
			var err error
			if got, err = f.Append(nil, f.Seq); err != nil {
				t.Errorf("%s: %v", want.Name, err)
			}
		}
		if !bytes.Equal(got, unhex(t, want.CanonicalHex)) {
			t.Errorf("%s: got %x, want %s", want.Name, got, want.CanonicalHex)
		}
	}
}

// TestVectorInvalid is F58, F59 and hard case 30.
func TestVectorInvalid(t *testing.T) {
	v := readVectors(t)
	reactions := map[string]Reaction{"drop-connection": DropConnection, "skip-frame": SkipFrame}
	var s Scanner
	for _, want := range v.Invalid {
		reaction, known := reactions[want.OurDecoder]
		if !known {
			t.Fatalf("%s: reaction %s", want.Name, want.OurDecoder)
		}
		var f Frame
		err := s.Scan(unhex(t, want.Hex), &f)
		if ReactionTo(err) != reaction {
			t.Errorf("%s: got %v, want: %v", want.Name, err, reaction)
		}
		if f.body != nil || f.DID != nil || len(f.fields.List) > 0 {
			t.Errorf("%s: something is left in the frame: %+v", want.Name, f)
		}
		if word := Reason(err); word == "other" || word == "" {
			t.Errorf("%s: %v has the reason %q", want.Name, err, word)
		}
	}
}

// TestVectorStructure is F66: the real commits pass, with the roots of their
// trees, and the commit without content does not.
func TestVectorStructure(t *testing.T) {
	v := readVectors(t)
	roots := map[string]string{}
	for _, r := range v.Signer.DataRoots {
		roots[r.Frame] = r.DataCID
	}
	roots["sync"] = roots["commit-empty"] // it tells of that commit
	var s Scanner
	verified := 0
	for _, want := range v.Frames {
		var f Frame
		if err := s.Scan(unhex(t, want.Hex), &f); err != nil || f.Kind() > KindSync {
			continue
		}
		state, err := s.Verify(&f)
		switch {
		case want.Name == "commit-legacy-blobs":
			if !errors.Is(err, ErrCARTruncated) {
				t.Errorf("%s: %v", want.Name, err)
			}
			continue
		case err != nil || state.Data.String() != roots[want.Name]:
			t.Errorf("%s: %v, data %v, want %s", want.Name, err, state.Data, roots[want.Name])
		case f.Kind() == KindCommit && !bytes.Equal(state.Commit, f.Commit):
			t.Errorf("%s: commit %v", want.Name, state.Commit)
		}
		verified++
	}
	if verified != 6 {
		t.Errorf("%d frames verified", verified)
	}
}
