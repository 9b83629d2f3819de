package synccrypt

import (
	"strings"
	"testing"
	"time"
)

const (
	someHLC = "1720519200000-0001-device-a"
	nonce12 = "0123456789ab"
)

var someTime = time.Date(2024, 7, 9, 10, 0, 0, 0, time.UTC)

// sealed seals a small row of table todo under a fixed nonce.
func sealed(t testing.TB, id *Identity, row string) string {
	t.Helper()
	return string(sealPayload(t, id, &Payload{SchemaVersion: 1, Table: "todo", ID: row, HLC: someHLC, Row: []byte(`{"title":"` + row + `"}`)}))
}

func sealPayload(t testing.TB, id *Identity, p *Payload) []byte {
	t.Helper()
	envelope, err := id.Seal(nil, p, "device-a", someTime, strings.NewReader(nonce12))
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// sealPlain seals any text as a payload, with event and stream ids of choice.
func sealPlain(t testing.TB, id *Identity, plain, event, stream string) []byte {
	t.Helper()
	s := getScratch()
	defer s.put()
	s.text = s.text[:0]
	h := parts{owner: s.quote(id.OwnerID), event: s.quote(event), device: s.quote("device-a"), created: s.quote("t")}
	if stream != "" {
		h.stream = s.quote(stream)
	}
	s.bytes = append(s.bytes[:0], plain...)
	copy(s.nonce[:], nonce12)
	out, err := id.sealParts(nil, s, &h)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// memberText returns where the value of a string member lies in an envelope,
// without its quotes.
func memberText(t testing.TB, envelope, name string) (from, to int) {
	t.Helper()
	from = strings.Index(envelope, `"`+name+`":"`)
	if from < 0 {
		t.Fatalf("no %s", name)
	}
	from += len(name) + 4
	return from, from + strings.IndexByte(envelope[from:], '"')
}

// zeros is a source of nonces that costs nothing.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
