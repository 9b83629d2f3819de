package synccrypt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type lockedCase struct {
	Credential, SecretHex, OwnerID, RelayAuth, DataKeyHex, StreamKeyHex string
	NonceHex, Plaintext, Envelope                                       string
	BlobID                                                              string
	Index                                                               int
	ChunkHex, SealedHex, SealedHash                                     string
}

func readLocked(t testing.TB) []lockedCase {
	t.Helper()
	var file struct{ Cases []lockedCase }
	readJSON(t, filepath.Join("testdata", "locked.json"), &file)
	return file.Cases
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLockedCasesAreThose is D4: cases are added behind the last, with a new
// line here, and never edited.
func TestLockedCasesAreThose(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	readJSON(t, filepath.Join("testdata", "locked.json"), &file)
	for n, want := range map[int]string{
		11: "-3XFPG67DTbYgpPSiRUVkmZcHUaSzMSZq3ByY3M_7HY",
	} {
		if len(file.Cases) < n {
			t.Fatalf("%d of %d cases are left", len(file.Cases), n)
		}
		var all bytes.Buffer
		for _, c := range file.Cases[:n] {
			if err := json.Compact(&all, c); err != nil {
				t.Fatal(err)
			}
		}
		if got := HashText(sha256.Sum256(all.Bytes())); got != want {
			t.Errorf("the first %d cases have changed: %s", n, got)
		}
	}
}

// TestLocked is D1 to D4, D10, D13 and D50: everything that follows from a
// credential, both forms and every length of phrase.
func TestLocked(t *testing.T) {
	words := map[int]int{}
	owners := map[string]bool{}
	for _, c := range readLocked(t) {
		words[len(strings.Fields(c.Credential))]++
		secret := unhex(t, c.SecretHex)
		k := phraseKeys(secret)
		if strings.HasPrefix(c.Credential, nativePrefix) {
			k = nativeKeys(secret)
		} else if got := phraseOf(secret); got != c.Credential {
			t.Errorf("%s: phrase %s", c.OwnerID, got)
		}
		if k.ownerID != c.OwnerID || k.relayAuth != c.RelayAuth ||
			hex.EncodeToString(k.data) != c.DataKeyHex || hex.EncodeToString(k.stream) != c.StreamKeyHex {
			t.Errorf("%s: %+v", c.OwnerID, k)
		}
		id, normal, err := ParseCredential(c.Credential)
		if err != nil || normal != c.Credential || id.OwnerID != c.OwnerID || id.RelayAuth != c.RelayAuth {
			t.Fatalf("%s: %v, %v", c.OwnerID, id, err)
		}
		if owners[c.OwnerID] {
			t.Errorf("%s: the owner of two credentials (D1)", c.OwnerID)
		}
		owners[c.OwnerID] = true
		checkLockedSeals(t, id, c)
	}
	for _, n := range []int{1, 12, 15, 18, 21, 24} {
		if words[n] == 0 {
			t.Errorf("no case of %d words", n)
		}
	}
}

func checkLockedSeals(t *testing.T, id *Identity, c lockedCase) {
	t.Helper()
	nonce := unhex(t, c.NonceHex)
	p, h, plain, err := id.OpenPayload([]byte(c.Envelope))
	if err != nil || string(plain) != c.Plaintext || h.StreamID != id.StreamID(p.Table, p.ID) {
		t.Fatalf("%s: %s, %v", c.OwnerID, plain, err)
	}
	created, err := time.Parse(createdForm, h.CreatedAt)
	if err != nil {
		t.Fatal(err)
	}
	again, err := id.Seal(nil, &p, h.DeviceID, created.In(time.FixedZone("", 3600)), bytes.NewReader(nonce))
	if err != nil || string(again) != c.Envelope {
		t.Errorf("%s: %s, %v, want %s", c.OwnerID, again, err, c.Envelope)
	}
	chunk := unhex(t, c.ChunkHex)
	sealed, err := id.SealChunk(nil, chunk, c.BlobID, c.Index, bytes.NewReader(nonce))
	if err != nil || hex.EncodeToString(sealed) != c.SealedHex || ChunkHash(sealed) != c.SealedHash {
		t.Errorf("%s: chunk %x, %v", c.OwnerID, sealed, err)
	}
	if opened, err := id.OpenChunk(nil, unhex(t, c.SealedHex), c.BlobID, c.Index); err != nil || !bytes.Equal(opened, chunk) {
		t.Errorf("%s: chunk %x, %v", c.OwnerID, opened, err)
	}
}

// TestSLIP21 is the example of SLIP-21, which begins with the seed of a wallet;
// D3 begins with the entropy.
func TestSLIP21(t *testing.T) {
	m := masterNode(unhex(t, "c76c4ac4f4e4a00d6b274d5c39c700bb4a7ddc04fbc6f78e85ca75007b5b495f74a9043eeb77bdd53aa6fc3a0e31462270316fa04b8c19114c8798706cd02ac8"))
	for want, n := range map[string]node{
		"dbf12b44133eaab506a740f6565cc117228cbf1dd70635cfa8ddfdc9af734756": m,
		"1d065e3ac1bbe5c7fad32cf2305f7d709dc070d672044a19e610c77cdf33de0d": m.child("SLIP-0021"),
		"ea163130e35bbafdf5ddee97a17b39cef2be4b4f390180d65b54cf05c6a82fde": m.child("SLIP-0021").child("Master encryption key"),
		"47194e938ab24cc82bfa25f6486ed54bebe79c40ae2a5a32ea6db294d81861a6": m.child("SLIP-0021").child("Authentication key"),
	} {
		if got := hex.EncodeToString(n.key()); got != want {
			t.Errorf("key %s, want %s", got, want)
		}
	}
}

// TestRFC5869 is cases 1 to 3 of appendix A of RFC 5869.
func TestRFC5869(t *testing.T) {
	sequence := func(from, to int) string {
		var b []byte
		for i := from; i <= to; i++ {
			b = append(b, byte(i))
		}
		return string(b)
	}
	for _, v := range []struct {
		secret, salt, info string
		n                  int
		want               string
	}{
		{
			strings.Repeat("\x0b", 22), sequence(0, 12), sequence(0xf0, 0xf9), 42,
			"3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
		},
		{
			sequence(0, 0x4f), sequence(0x60, 0xaf), sequence(0xb0, 0xff), 82,
			"b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
		},
		{
			strings.Repeat("\x0b", 22), "", "", 42,
			"8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
		},
	} {
		if got := hex.EncodeToString(expand([]byte(v.secret), v.salt, v.info, v.n)); got != v.want {
			t.Errorf("%d bytes: %s, want %s", v.n, got, v.want)
		}
	}
}

// TestBIP39 is the English vectors of BIP39: entropy and phrase, both ways.
func TestBIP39(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "bip39-english.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 24 {
		t.Fatalf("%d vectors", len(lines))
	}
	for _, line := range lines {
		entropyHex, phrase, _ := strings.Cut(line, "\t")
		if got := phraseOf(unhex(t, entropyHex)); got != phrase {
			t.Errorf("%s: %s", entropyHex, got)
		}
		entropy, err := phraseEntropy(strings.Fields(phrase))
		if err != nil || hex.EncodeToString(entropy) != entropyHex {
			t.Errorf("%s: %x, %v", entropyHex, entropy, err)
		}
		made, err := NewPhrase(len(strings.Fields(phrase)), bytes.NewReader(unhex(t, entropyHex)))
		if err != nil || made != phrase {
			t.Errorf("%s: %s, %v", entropyHex, made, err)
		}
	}
}
