package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/sluice-relay/sluice/internal/faults"
)

// TestSealRoundTrip: Unseal reads what Seal wrote, for every size of padding,
// and the text is a JSON object with the members that R101 to R110 ask for.
func TestSealRoundTrip(t *testing.T) {
	for _, s := range []faults.Sealing{
		{Session: "a", Seq: 0, Severity: "debug"},
		{Session: "fleet12", Seq: 1<<63 - 1, Severity: "notice", Stamp: -5, PadBytes: 1},
		{Session: "x.y-z", Seq: 77, Severity: "critical", Stamp: 1, PadBytes: faults.MaxPad},
		{Session: "x.y-z", Seq: 78, Severity: "info", PadBytes: faults.MaxPad + 1},
	} {
		text := faults.Seal([]byte("before"), s)[len("before"):]
		e, err := faults.Unseal(text)
		if err != nil || string(e.Session) != s.Session || e.Seq != s.Seq || string(e.Severity) != s.Severity || e.Stamp != s.Stamp {
			t.Errorf("%+v: got %+v, %v", s, e, err)
		}
		var members map[string]any
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		for _, name := range []string{"aep", "id", "type", "time", "source", "agent", "session", "seq", "severity", "data"} {
			if members[name] == nil {
				t.Errorf("%+v: no member %s", s, name)
			}
		}
	}
}

// TestSealBreaks: no octet of a text can be changed, left out or doubled, and no
// piece of another text put in its place, without Unseal telling.
func TestSealBreaks(t *testing.T) {
	text := faults.Seal(nil, faults.Sealing{Session: "s", Seq: 9, Severity: "notice", PadBytes: 100})
	refuse := func(what string, at int, b []byte) {
		t.Helper()
		if e, err := faults.Unseal(b); !errors.Is(err, faults.ErrSeal) {
			t.Errorf("%s at %d: got %+v, %v", what, at, e, err)
		}
	}
	other := faults.Seal(nil, faults.Sealing{Session: "s", Seq: 8, Severity: "notice", PadBytes: 100})
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		refuse("changed", i, changed)
		refuse("left out", i, append(bytes.Clone(text[:i]), text[i+1:]...))
		refuse("doubled", i, append(bytes.Clone(text[:i+1]), text[i:]...))
		if i > 0 {
			refuse("cut", i, text[:i])
			refuse("torn", i, text[i:])
		}
		if mixed := append(bytes.Clone(other[:i]), text[i:]...); !bytes.Equal(mixed, text) && !bytes.Equal(mixed, other) {
			refuse("mixed", i, mixed)
		}
	}
}

func BenchmarkUnseal(b *testing.B) {
	text := faults.Seal(nil, faults.Sealing{Session: "s", Seq: 9, Severity: "notice", PadBytes: 600})
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := faults.Unseal(text); err != nil {
			b.Fatal(err)
		}
	}
}
