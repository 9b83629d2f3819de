package synccrypt

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// vectors is the part of the relay's contract that is about devices.
type vectors struct {
	Identities []struct {
		NativeKey, SecretHex, OwnerID, RelayAuth, DataKeyHex, StreamKeyHex string
	}
	Envelopes []struct {
		Plaintext, AAD string
		Envelope       json.RawMessage
	}
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	readJSON(t, filepath.Join("testdata", "sync-relay.json"), &v)
	if len(v.Identities) != 2 || len(v.Envelopes) != 3 {
		t.Fatal("vectors are missing")
	}
	return v
}

func identity(t testing.TB, credential string) *Identity {
	t.Helper()
	id, _, err := ParseCredential(credential)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestVectorIdentities is D2.
func TestVectorIdentities(t *testing.T) {
	for _, v := range readVectors(t).Identities {
		id, normal, err := ParseCredential(" " + v.NativeKey + "\n")
		if err != nil || normal != v.NativeKey || id.OwnerID != v.OwnerID || id.RelayAuth != v.RelayAuth {
			t.Errorf("%s: %v, %v", v.OwnerID, id, err)
		}
		secret, err := hex.DecodeString(v.SecretHex)
		if err != nil {
			t.Fatal(err)
		}
		k := nativeKeys(secret)
		if hex.EncodeToString(k.data) != v.DataKeyHex || hex.EncodeToString(k.stream) != v.StreamKeyHex {
			t.Errorf("%s: other keys", v.OwnerID)
		}
	}
}

// TestVectorEnvelopes is D10: the contract's envelopes open, and seal again to
// the same bytes.
func TestVectorEnvelopes(t *testing.T) {
	v := readVectors(t)
	id := identity(t, v.Identities[0].NativeKey)
	for _, e := range v.Envelopes {
		var compact bytes.Buffer
		if err := json.Compact(&compact, e.Envelope); err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{e.Envelope, compact.Bytes()} {
			plain, h, err := id.Open([]byte("x"), text)
			if err != nil || string(plain) != "x"+e.Plaintext {
				t.Fatalf("%s: %s, %v", text, plain, err)
			}
			var want Header
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if h != want {
				t.Errorf("header %+v, want %+v", h, want)
			}
		}
		if p, err := DecodePayload([]byte(e.Plaintext)); err != nil {
			t.Error(err)
		} else if again, err := p.Append(nil); err != nil || string(again) != e.Plaintext {
			t.Errorf("%s, %v, want %s", again, err, e.Plaintext)
		}

		s := getScratch()
		parsed, err := s.parse(compact.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if s.authenticated(&parsed); string(s.aad) != e.AAD {
			t.Errorf("additional data %s, want %s", s.aad, e.AAD)
		}
		nonce, err := base64.RawURLEncoding.DecodeString(string(parsed.nonce))
		if err != nil {
			t.Fatal(err)
		}
		s.nonce = [nonceBytes]byte(nonce)
		s.bytes = append(s.bytes[:0], e.Plaintext...)
		if again, err := id.sealParts(nil, s, &parsed); err != nil || !bytes.Equal(again, compact.Bytes()) {
			t.Errorf("%s, %v, want %s", again, err, compact.Bytes())
		}
		s.put()
	}
}
