package syncwire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
)

type vectors struct {
	Tokens []struct {
		Token, SHA256Base64Url string
	}
	Identities []struct {
		OwnerID, RelayAuth, StoredAuthHash string
	}
	StreamIDs struct {
		Examples []struct{ StreamID string }
		Validity []struct {
			Value any
			Valid bool
		}
	}
	Blobs struct {
		Bodies []struct {
			Length        int
			BodyHex, Hash string
		}
		HashValidity []struct {
			Value string
			Valid bool
		}
	}
	Envelopes []struct {
		Envelope         json.RawMessage
		CompactJSONBytes int
	}
	UsedPct []struct {
		UsedBytes, QuotaBytes int64
		UsedPct               json.Number
	}
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	if err := json.Unmarshal(vectorFile(t), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Tokens) == 0 || len(v.Envelopes) == 0 || len(v.Blobs.HashValidity) == 0 {
		t.Fatal("vectors are missing")
	}
	return v
}

// TestVectorHashes is S12 and S45.
func TestVectorHashes(t *testing.T) {
	v := readVectors(t)
	for _, tok := range v.Tokens {
		if got := TokenHash([]byte(tok.Token)); got != tok.SHA256Base64Url {
			t.Errorf("token %q: %s, want %s", tok.Token, got, tok.SHA256Base64Url)
		}
	}
	for _, id := range v.Identities {
		if got := TokenHash([]byte(id.RelayAuth)); got != id.StoredAuthHash {
			t.Errorf("token %q: %s, want %s", id.RelayAuth, got, id.StoredAuthHash)
		}
		if !ValidOwnerID(id.OwnerID) {
			t.Errorf("owner %q is refused", id.OwnerID)
		}
	}
	for _, b := range v.Blobs.Bodies {
		content, err := hex.DecodeString(b.BodyHex)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) != b.Length { // told by its recipe
			content = make([]byte, b.Length)
			for i := range content {
				content[i] = byte(i*7 + 3)
			}
		}
		if got := HashString(sha256.Sum256(content)); got != b.Hash || !ValidHash(got) {
			t.Errorf("blob of %d bytes: %s, want %s", b.Length, got, b.Hash)
		}
	}
	for _, h := range v.Blobs.HashValidity { // hard case 30 among them
		if got := ValidHash(h.Value); got != h.Valid {
			t.Errorf("hash %q: valid %v", h.Value, got)
		}
	}
}

// TestVectorStreamIDs is S40, hard case 25.
func TestVectorStreamIDs(t *testing.T) {
	v := readVectors(t)
	for _, id := range v.StreamIDs.Validity {
		value, err := json.Marshal(id.Value)
		if err != nil {
			t.Fatal(err)
		}
		text := `{"ownerId":"o","streamIds":["AAAAAAAAAAAAAAAAAAAAAA",` + string(value) + `]}`
		r, err := DecodeCompact([]byte(text), 2)
		switch {
		case !id.Valid:
			wantFault(t, text, err, BadStreamID, -1)
		case err != nil || len(r.StreamIDs) != 2 || r.StreamIDs[1] != id.Value:
			t.Errorf("%s: %q, %v", text, r.StreamIDs, err)
		}
	}
	for _, id := range v.StreamIDs.Examples {
		if !ValidStreamID(id.StreamID) {
			t.Errorf("stream %q is refused", id.StreamID)
		}
	}
}

// TestVectorEnvelopes is S19: what clients sealed comes back as it was.
func TestVectorEnvelopes(t *testing.T) {
	for _, e := range readVectors(t).Envelopes {
		var compact bytes.Buffer
		if err := json.Compact(&compact, e.Envelope); err != nil {
			t.Fatal(err)
		}
		var ids struct{ OwnerID, EventID, StreamID string }
		if err := json.Unmarshal(e.Envelope, &ids); err != nil {
			t.Fatal(err)
		}
		sink, err := push(`{"ownerId":"`+ids.OwnerID+`","events":[`+string(e.Envelope)+`]}`, wide, 1<<20)
		if err != nil || len(sink.stored) != 1 {
			t.Fatalf("%s: %v", e.Envelope, err)
		}
		if sink.stored[0] != compact.String() || len(sink.stored[0]) != e.CompactJSONBytes {
			t.Errorf("stored %s (%d bytes), want %d bytes", sink.stored[0], len(sink.stored[0]), e.CompactJSONBytes)
		}
		if !bytes.Contains([]byte(sink.log[1]), []byte(ids.EventID+`" "`+ids.StreamID+`" `)) {
			t.Errorf("ids of %s", sink.log[1])
		}
	}
}

// TestVectorPercent is the usedPct of section 9, and its edges.
func TestVectorPercent(t *testing.T) {
	for _, p := range readVectors(t).UsedPct {
		if got := string(appendPercent(nil, p.UsedBytes, p.QuotaBytes)); got != p.UsedPct.String() {
			t.Errorf("%d of %d: %s, want %s", p.UsedBytes, p.QuotaBytes, got, p.UsedPct)
		}
	}
	const most = 1<<63 - 1
	for _, p := range []struct {
		used, quota int64
		want        string
	}{
		{1, 3, "33.33"},
		{2, 3, "66.67"},
		{1, 8, "12.5"},
		{1, 20_000, "0.01"},
		{1, 20_001, "0"},
		{3, 1000, "0.3"},
		{201, 200, "100.5"},
		{3, 1, "300"},
		{0, 0, "0"},
		{1, 0, "100"},
		{most, most, "100"},
		{-1, 5, "0"},
		{most, 1, "100"}, // told as full, not computed
	} {
		if got := string(appendPercent(nil, p.used, p.quota)); got != p.want {
			t.Errorf("%d of %d: %s, want %s", p.used, p.quota, got, p.want)
		}
	}
}
