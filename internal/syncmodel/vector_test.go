package syncmodel

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "seal the envelopes of testdata anew")

// sealed is one envelope with what it has inside.
type sealed struct {
	Plaintext string          `json:"plaintext"`
	AAD       string          `json:"aad"`
	Envelope  json.RawMessage `json:"envelope"`
}

// identity is an owner with its keys.
type identity struct {
	OwnerID    string `json:"ownerId"`
	RelayAuth  string `json:"relayAuth"`
	DataKeyHex string `json:"dataKeyHex"`
}

// vectors are envelopes of the first of the identities.
type vectors struct {
	Identities []identity `json:"identities"`
	Envelopes  []sealed   `json:"envelopes"`
}

func gcm(t *testing.T, keyHex string) cipher.AEAD {
	t.Helper()
	key, err := hex.DecodeString(keyHex)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return aead
}

// header is the additional data of an envelope: its members but nonce and
// ciphertext, sorted by name, each value as it is spelled there.
func header(t *testing.T, envelope string) (aad string, nonce, ciphertext []byte) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(envelope), &members); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for name, value := range members {
		var text string
		switch name {
		case "nonce", "ciphertext":
			if err := json.Unmarshal(value, &text); err != nil {
				t.Fatal(err)
			}
			content, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			if name == "nonce" {
				nonce = content
			} else {
				ciphertext = content
			}
		default:
			parts = append(parts, fmt.Sprintf("%q:%s", name, value))
		}
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}", nonce, ciphertext
}

// TestSealedEnvelopes: S19, section 13 and hard case 8 with real encryption.
// The header is authenticated: one octet that the relay spells in another way,
// and the envelope does not open.
func TestSealedEnvelopes(t *testing.T) {
	for name, file := range vectorFiles(t) {
		t.Run(name, func(t *testing.T) {
			var v vectors
			if err := json.Unmarshal(file, &v); err != nil {
				t.Fatal(err)
			}
			if len(v.Envelopes) < 3 || len(v.Identities) == 0 {
				t.Fatal("vectors are missing")
			}
			id := v.Identities[0]
			a := &account{site: newSite(t), owner: id.OwnerID, token: id.RelayAuth}
			var sent []string
			for _, e := range v.Envelopes {
				sent = append(sent, string(e.Envelope)) // with the file's white space
			}
			a.pushed(len(sent), 0, sent...)
			a.restart()
			got, _ := a.pull("")
			if len(got) != len(sent) {
				t.Fatalf("%d of %d came back", len(got), len(sent))
			}
			aead := gcm(t, id.DataKeyHex)
			for i, e := range v.Envelopes {
				var compact bytes.Buffer
				if err := json.Compact(&compact, e.Envelope); err != nil {
					t.Fatal(err)
				}
				if got[i] != compact.String() {
					t.Errorf("S19: got %s, want %s", got[i], &compact)
				}
				aad, nonce, ciphertext := header(t, got[i])
				plain, err := aead.Open(nil, nonce, ciphertext, []byte(aad))
				if err != nil || string(plain) != e.Plaintext || aad != e.AAD {
					t.Errorf("S19: %s opens to %q, %v; its header is %s, want %s", got[i], plain, err, aad, e.AAD)
				}
			}
		})
	}
}

// TestEventIDOrder: S37, what one stream keeps of the published sets of ids.
func TestEventIDOrder(t *testing.T) {
	text := shared(t)
	var v struct {
		EventIDOrder struct {
			Sets []struct {
				Name                string
				IDs                 []string
				SurvivorOfOneStream string
			}
			Trap struct{ IDs []string }
		}
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.EventIDOrder.Sets) == 0 {
		t.Fatalf("no sets: %v", err)
	}
	s := newSite(t)
	for i, set := range v.EventIDOrder.Sets {
		a := s.account(fmt.Sprint("o", i))
		for _, id := range set.IDs {
			a.pushed(1, 0, a.envelope(id, "s", "x"))
		}
		s.compactAll()
		a.holds(set.Name, set.SurvivorOfOneStream)
	}
	a := s.account("trap")
	for _, id := range v.EventIDOrder.Trap.IDs {
		wantCode(t, "S18: "+id, a.push(a.envelope(id, "s", "x")), 400, "bad_envelope")
	}
}

// vectorFiles are our own vectors and, where they are, those of the contract.
func vectorFiles(t *testing.T) map[string][]byte {
	t.Helper()
	path := filepath.Join("testdata", "envelopes.json")
	if *update {
		sealAnew(t, path)
	}
	own, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"own": own}
	if path := sharedPath(t); path != "" {
		if files["contract"], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// sharedPath finds the contract's vectors beside the repository, "" if they are
// not there.
func sharedPath(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		path := filepath.Join(dir, "..", "shared", "vectors", "sync-relay.json")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

func shared(t *testing.T) []byte {
	t.Helper()
	path := sharedPath(t)
	if path == "" {
		t.Skip("the contract's vectors are not beside the repository")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sealAnew writes testdata/envelopes.json: headers that a relay could spell in
// another way, and contents of several lengths.
func sealAnew(t *testing.T, path string) {
	t.Helper()
	key := sha256.Sum256([]byte("key of the envelopes in testdata"))
	id := identity{OwnerID: "vectors-of-the-relay", RelayAuth: "token-of-the-vectors", DataKeyHex: hex.EncodeToString(key[:])}
	v := vectors{Identities: []identity{id}}
	for i, odd := range []string{
		``,
		`"extra": { "z": 1.0, "a": [1E+2, -0, 10000000000000000000001, null, true] },`,
		`"note": "caf\u00e9 \/ \ud83d\ude00 \u0000 <&> é",`,
		`"streamId": null, "": "a member without a name",`,
		`"streamId": "s\u0074ream",`,
	} {
		plain := strings.Repeat(fmt.Sprintf("row %d ", i), i*20)
		nonce := sha256.Sum256(fmt.Append(nil, "nonce ", i))
		open := fmt.Sprintf(`{ "deviceId": "d", %s "eventId": "%04d", "createdAt": "2026-01-01T00:00:00.000Z", "ownerId": %q, "version": 1, "nonce": %q, "ciphertext": `,
			odd, i, id.OwnerID, base64.RawURLEncoding.EncodeToString(nonce[:12]))
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(open+`"" }`)); err != nil {
			t.Fatal(err)
		}
		aad, _, _ := header(t, compact.String())
		text := gcm(t, id.DataKeyHex).Seal(nil, nonce[:12], []byte(plain), []byte(aad))
		v.Envelopes = append(v.Envelopes, sealed{
			Plaintext: plain, AAD: aad,
			Envelope: json.RawMessage(open + fmt.Sprintf("%q }", base64.RawURLEncoding.EncodeToString(text))),
		})
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
