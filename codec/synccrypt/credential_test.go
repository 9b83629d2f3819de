package synccrypt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	goodPhrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	goodNative = "sf1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
)

// TestCredentialSpellings is D5: however it is written, it is one owner.
func TestCredentialSpellings(t *testing.T) {
	wide := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'ａ' // full width: NFKD gives the plain letter
		}
		return r
	}, goodPhrase)
	for _, text := range []string{
		strings.ToUpper(goodPhrase),
		"\uFEFF" + strings.ReplaceAll(goodPhrase, " ", "\r\n"),
		"\t " + strings.ReplaceAll(goodPhrase, " ", " \t\u00a0\u3000") + " \n",
		wide,
		strings.ReplaceAll(goodPhrase, "k", "\u212a"), // the sign of Kelvin
	} {
		id, normal, err := ParseCredential(text)
		if err != nil || normal != goodPhrase || id.OwnerID != identity(t, goodPhrase).OwnerID {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
	if _, normal, err := ParseCredential("\uFEFF \n" + goodNative + "\r\n"); err != nil || normal != goodNative {
		t.Errorf("a native key between blanks: %v", err)
	}
}

// TestCredentialFaults is D5 and hard case 13: the position is named, and no
// word of the credential.
func TestCredentialFaults(t *testing.T) {
	words := strings.Fields(goodPhrase)
	with := func(i int, word string) string {
		changed := append([]string(nil), words...)
		changed[i] = word
		return strings.Join(changed, " ")
	}
	for _, c := range []struct {
		name, text, reason string
		word               int
	}{
		{"empty", "", "empty", 0},
		{"blank", " \n\u3000", "empty", 0},
		{"eleven words", strings.Join(words[:11], " "), "this one 11", 0},
		{"thirteen words", goodPhrase + " legal", "this one 13", 0},
		{"27 words", goodPhrase + " " + goodPhrase + " legal winner thank", "this one 27", 0},
		{"a wrong first word", with(0, "secretive"), "word 1 ", 1},
		{"a wrong last word", with(11, "secretive"), "word 12 ", 12},
		{"the first of two wrong ones", strings.Replace(with(7, "secretive"), "thank", "secretive", 1), "word 3 ", 3},
		{"a prefix of a word", with(4, "saus"), "word 5 ", 5},
		{"letters with marks", with(4, "wáve"), "word 5 ", 5},
		{"no UTF-8", with(4, "secretive\xff"), "word 5 ", 5},
		{"a wrong checksum", with(11, "zoo"), "checksum", 0},
		{"words out of order", with(0, "winner")[:len("winner")] + " legal" + goodPhrase[len("legal winner"):], "checksum", 0},
		{"a native key in upper case", "SF1_" + goodNative[4:], "lower case", 0},
		{"a short native key", goodNative[:len(goodNative)-1], "this one 42", 0},
		{"a padded native key", goodNative + "=", "this one 44", 0},
		{"the standard alphabet", "sf1_" + strings.Repeat("+", 43), "base64url", 0},
		{"bits that say nothing", goodNative[:len(goodNative)-1] + "9", "base64url", 0},
		{"a native key with a blank", goodNative[:20] + "\n" + goodNative[20:], "no blanks", 0},
		{"too long", strings.Repeat("secretive ", 500), "longer than 4096", 0},
	} {
		id, normal, err := ParseCredential(c.text)
		var fault *CredentialError
		if !errors.As(err, &fault) || !errors.Is(err, ErrCredential) || id != nil || normal != "" {
			t.Errorf("%s: %v, %v", c.name, id, err)
			continue
		}
		if fault.Word != c.word || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v (word %d)", c.name, err, fault.Word)
		}
		for _, word := range append(words, "secretive", goodNative[4:]) {
			if word != "year" && strings.Contains(strings.ToLower(err.Error()), word) {
				t.Errorf("%s: %q is in %v", c.name, word, err)
			}
		}
	}
}

// TestNewCredentials is D2 and D3: what is made parses to itself.
func TestNewCredentials(t *testing.T) {
	seen := map[string]bool{}
	take := func(text string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if _, normal, err := ParseCredential(text); err != nil || normal != text || seen[text] {
			t.Errorf("%v, twice %v", err, seen[text])
		}
		seen[text] = true
	}
	for range 20 {
		take(NewNativeKey(nil))
		for _, words := range []int{12, 15, 18, 21, 24} {
			text, err := NewPhrase(words, nil)
			take(text, err)
			if got := len(strings.Fields(text)); got != words {
				t.Errorf("%d words, want %d", got, words)
			}
		}
	}
	for _, words := range []int{-3, 0, 3, 9, 13, 27} {
		if _, err := NewPhrase(words, nil); !errors.Is(err, ErrCredential) {
			t.Errorf("%d words: %v", words, err)
		}
	}
	broken := iotest.ErrReader(io.ErrClosedPipe)
	if text, err := NewPhrase(12, broken); !errors.Is(err, io.ErrClosedPipe) || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := NewNativeKey(bytes.NewReader(make([]byte, 31))); !errors.Is(err, io.ErrUnexpectedEOF) || text != "" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestIdentityPrintsNoSecret is K2.
func TestIdentityPrintsNoSecret(t *testing.T) {
	id := identity(t, goodPhrase)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "identity", id)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "identity", id)
	asJSON, err := json.Marshal(map[string]any{"id": id})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(id), fmt.Sprintf("%v %+v %#v %s %q", id, id, id, id, id), string(asJSON), log.String(),
	} {
		if !strings.Contains(text, id.OwnerID) || strings.Contains(text, id.RelayAuth) {
			t.Errorf("printed as %s", text)
		}
	}
}
