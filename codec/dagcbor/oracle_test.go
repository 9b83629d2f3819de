package dagcbor

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// oracle is another implementation of the same form, as strict as its options
// make it.
type oracle struct {
	dec cbor.DecMode
	enc cbor.EncMode
}

func newOracle(t testing.TB) oracle {
	t.Helper()
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, UTF8: cbor.UTF8RejectInvalid,
		NaN: cbor.NaNDecodeForbidden, Inf: cbor.InfDecodeForbidden, MaxNestedLevels: MaxDepth + 1, // it counts the tag
		MaxArrayElements: 1<<31 - 1, MaxMapPairs: 1<<31 - 1,
	}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	enc, err := cbor.EncOptions{
		Sort: cbor.SortLengthFirst, IndefLength: cbor.IndefLengthForbidden, ShortestFloat: cbor.ShortestFloatNone,
		NaNConvert: cbor.NaNConvertReject, InfConvert: cbor.InfConvertReject,
	}.EncMode()
	if err != nil {
		t.Fatal(err)
	}
	return oracle{dec, enc}
}

// canonical returns what the oracle makes of exactly one value.
func (o oracle) canonical(b []byte) ([]byte, error) {
	var v any
	if err := o.dec.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	return o.enc.Marshal(v)
}

// compare holds a verdict on b to the oracle's: what it refuses is refused, and
// what is accepted and sorted is what it writes (C3).
func compare(t *testing.T, o oracle, b []byte) {
	t.Helper()
	var s Scanner
	var sorter Sorter
	end, sorted, err := s.Value(b, 0)
	if err != nil {
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(b) {
			t.Fatalf("%x: error %v", b, err)
		}
		return
	}
	value := b[:end]
	want, oracleErr := o.canonical(value)
	if oracleErr != nil {
		t.Fatalf("%x is accepted, and refused by the oracle: %v", value, oracleErr)
	}
	if sorted != bytes.Equal(value, want) {
		t.Fatalf("%x: sorted %v, and the oracle writes %x", value, sorted, want)
	}
	got := sorter.AppendSorted(nil, value)
	if !bytes.Equal(got, want) {
		t.Fatalf("%x: sorts as %x, and the oracle writes %x", value, got, want)
	}
	if err := s.Check(got); err != nil {
		t.Fatalf("%x sorts as %x: %v", value, got, err)
	}
	text, err := s.AppendJSON(nil, value)
	if err != nil || !json.Valid(text) {
		t.Fatalf("%x: JSON %s %v", value, text, err)
	}
	if at := skip(value, 0); at != end {
		t.Fatalf("%x: skipped to %d of %d", value, at, end)
	}
	checkMap(t, &s, value, sorted)
}

// checkMap reads a value as a map and holds that to what is known of it.
func checkMap(t *testing.T, s *Scanner, value []byte, sorted bool) {
	t.Helper()
	var m Fields
	end, err := s.Map(value, 0, &m)
	switch {
	case MajorOf(value) != Map:
		if !errors.Is(err, ErrNotMap) {
			t.Fatalf("%x as a map: %v", value, err)
		}
		return
	case err != nil:
		if !errors.Is(err, ErrTooManyFields) {
			t.Fatalf("%x as a map: %v", value, err)
		}
		return
	}
	count, _ := Count(value)
	if end != len(value) || len(m.List) != count || m.Sorted() != sorted {
		t.Fatalf("%x as a map: %d fields of %d, end %d, sorted %v", value, len(m.List), count, end, m.Sorted())
	}
	i := 0
	for k, v := range Entries(value) {
		if f := m.List[i]; !bytes.Equal(f.Key, k) || !bytes.Equal(f.Value, v) {
			t.Fatalf("%x: field %d is %q %x, want %q %x", value, i, f.Key, f.Value, k, v)
		}
		i++
	}
	if i != count {
		t.Fatalf("%x: %d entries of %d", value, i, count)
	}
}

// seeds are values with something of everything.
var seeds = []string{
	"a3616201616182006161626262" + linkHex, "1bffffffffffffffff", "3bffffffffffffffff", "fb8000000000000000", "a0",
	"a2616200616100", "82a2626161016162824100f6f5", "5818" + digest, "f93c00", "f7", "bf616100ff", "a2616100616101", "1817", "c24101", "d82a450001550000",
	"a462616100616100617a006261620a",
}

func TestOracle(t *testing.T) {
	o := newOracle(t)
	for _, text := range seeds {
		b := unhex(t, text)
		compare(t, o, b)
		// Every cut, and every bit turned.
		for i := range b {
			compare(t, o, b[:i])
			for bit := range 8 {
				turned := bytes.Clone(b)
				turned[i] ^= 1 << bit
				compare(t, o, turned)
			}
		}
	}
}

func FuzzValue(f *testing.F) {
	o := newOracle(f)
	for _, text := range seeds {
		f.Add(unhex(f, text))
	}
	f.Add(unhex(f, nested(MaxDepth)))
	f.Fuzz(func(t *testing.T, b []byte) { compare(t, o, b) })
}

func FuzzCID(f *testing.F) {
	f.Add(unhex(f, "01711220"+digest))
	f.Add(unhex(f, "01550000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		cid, rest, err := CutCID(b)
		if err != nil {
			if _, err := ParseCID(b); err == nil {
				t.Fatalf("%x parses and cannot be cut", b)
			}
			return
		}
		if len(cid)+len(rest) != len(b) || len(cid) < 4 {
			t.Fatalf("%x: cut into %x and %x", b, cid, rest)
		}
		back, err := ParseCIDText(cid.String())
		if err != nil || !bytes.Equal(back, cid) {
			t.Fatalf("%x: text %s reads as %x, %v", b, cid, back, err)
		}
		_, _ = cid.Codec(), cid.Verify(rest)
	})
}
