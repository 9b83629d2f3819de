package dagcbor

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	digest  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	linkHex = "d82a58250001711220" + digest
)

// nested is depth arrays around a leaf.
func nested(depth int) string { return strings.Repeat("81", depth) + "00" }

// TestCheckAccepts is F10 to F12: what is canonical passes.
func TestCheckAccepts(t *testing.T) {
	var s Scanner
	f := func(name, text string) {
		t.Helper()
		if err := s.Check(unhex(t, text)); err != nil {
			t.Errorf("%s: %s: %v", name, text, err)
		}
	}
	f("F11 integers", "8a 00 17 1818 18ff 190100 19ffff 1a00010000 1affffffff 1b0000000100000000 1bffffffffffffffff")
	f("F11 negative", "86 20 37 3818 390100 3a00010000 3bffffffffffffffff")
	f("F11 bytes", "82 40 4100")
	f("F11 bytes of 24", "5818"+strings.Repeat("ff", 24))
	f("F11 bytes of 256", "590100"+strings.Repeat("ff", 256))
	f("F11 bytes of 65536", "5a00010000"+strings.Repeat("ff", 65536))
	f("F11 text", "82 60 63e282ac")
	f("F11 map", "a0")
	f("F10 three simple values", "83 f4 f5 f6")
	f("F10 64-bit floats", "83 fb3ff0000000000000 fb8000000000000000 fb7fefffffffffffff")
	f("F10 shorter key first", "a3 617a00 62616101 62616202")
	f("F10 the empty key", "a2 60 00 6161 00")
	f("F12 link", linkHex)
	f("F12 link to raw", strings.Replace(linkHex, "0171", "0155", 1))
	f("depth", nested(MaxDepth))
	f("the empty text of RFC 3629's largest rune", "64f48fbfbf")
}

// TestCheckRefuses is F10 and F12: each breach has an error of its own.
func TestCheckRefuses(t *testing.T) {
	var s Scanner
	f := func(name, text string, want error, offset int) {
		t.Helper()
		err := s.Check(unhex(t, text))
		var at *SyntaxError
		if !errors.Is(err, want) || !errors.As(err, &at) || at.Offset != offset {
			t.Errorf("%s: %s: got %v, want %v at %d", name, text, err, want, offset)
		}
		// The same breach inside a map that has to be read as fields.
		var m Fields
		if want != ErrTrailing && want != ErrUnsortedKey && want != ErrDepth {
			if _, err := s.Map(unhex(t, "a16161"+text), 0, &m); !errors.Is(err, want) || len(m.List) > 0 {
				t.Errorf("%s: in a map: got %v with %d fields", name, err, len(m.List))
			}
		}
	}
	f("nothing", "", ErrTruncated, 0)
	f("a head of one byte is cut", "18", ErrTruncated, 0)
	f("a head of eight bytes is cut", "1b00000000010000", ErrTruncated, 0)
	f("text is cut", "6261", ErrTruncated, 0)
	f("bytes are cut", "4261", ErrTruncated, 0)
	f("an array is cut", "8200", ErrTruncated, 0)
	f("an array's last value is cut", "820118", ErrTruncated, 2)
	f("an array's last value is missing", "821818", ErrTruncated, 3)
	f("a map is cut", "a16161", ErrTruncated, 3)
	f("a float is cut", "fb00000000000000", ErrTruncated, 0)
	f("a link is cut", linkHex[:40], ErrTruncated, 0)
	f("a tag is cut", "d82a", ErrTruncated, 0)
	f("C2 array of 2^64-1", "9bffffffffffffffff", ErrTruncated, 0)
	f("C2 map of 2^63", "bb8000000000000000", ErrTruncated, 0)
	f("C2 text of 2^63", "7b8000000000000000", ErrTruncated, 0)
	f("C2 key of 2^64-1", "a17bffffffffffffffff00", ErrTruncated, 1)
	f("a key is cut", "a261610063", ErrTruncated, 4)
	for _, long := range []string{"1817", "1900ff", "1a0000ffff", "1b00000000ffffffff"} {
		f("long integer", long, ErrLongHead, 0)
	}
	f("long negative integer", "3817", ErrLongHead, 0)
	f("long bytes", "580100", ErrLongHead, 0)
	f("long text", "780161", ErrLongHead, 0)
	f("long key", "a178016100", ErrLongHead, 1)
	f("long array", "980100", ErrLongHead, 0)
	f("long map", "b801616100", ErrLongHead, 0)
	f("long tag", "d9002a582500017112"+"20"+digest, ErrLongHead, 0)
	f("long link", "d82a59002500017112"+"20"+digest, ErrLongHead, 0)
	f("indefinite bytes", "5f4100ff", ErrIndefinite, 0)
	f("indefinite text", "7f6161ff", ErrIndefinite, 0)
	f("indefinite key", "a17f6161ff00", ErrIndefinite, 1)
	f("indefinite array", "9f00ff", ErrIndefinite, 0)
	f("indefinite map", "bf616100ff", ErrIndefinite, 0)
	f("break alone", "ff", ErrIndefinite, 0)
	for _, reserved := range []string{"1c", "1d", "1e", "1f", "3f", "5c", "7d", "9e", "bc", "df", "fc", "fe"} {
		f("reserved", reserved, ErrReserved, 0)
	}
	f("duplicate key side by side", "a2616100616101", ErrDuplicateKey, 4)
	f("duplicate key out of order", "a3616200616100616201", ErrDuplicateKey, 8)
	f("duplicate key far away", "a462616100616100617a006261610a", ErrDuplicateKey, 12)
	f("keys by bytes, not by length", "a262616100617a00", ErrUnsortedKey, 0)
	f("keys of one length", "a2616200616100", ErrUnsortedKey, 0)
	f("unsorted inside", "81a2616200616100", ErrUnsortedKey, 0)
	f("integer key", "a10100", ErrKeyType, 1)
	f("byte string key", "a1416100", ErrKeyType, 1)
	f("array key", "a18000", ErrKeyType, 1)
	f("simple key", "a1f600", ErrKeyType, 1)
	f("tag 0", "c074323032342d30372d30395431303a30303a30305a", ErrTag, 0)
	f("tag 2, a big number", "c24101", ErrTag, 0)
	f("tag 43", "d82b4100", ErrTag, 0)
	f("tag 55799", "d9d9f700", ErrTag, 0)
	f("undefined", "f7", ErrUndefined, 0)
	f("simple 0", "e0", ErrSimple, 0)
	f("simple 19", "f3", ErrSimple, 0)
	f("simple in two bytes", "f8ff", ErrSimple, 0)
	f("16-bit float", "f93c00", ErrFloatSize, 0)
	f("32-bit float", "fa3f800000", ErrFloatSize, 0)
	f("NaN", "fb7ff8000000000000", ErrFloatValue, 0)
	f("infinity", "fb7ff0000000000000", ErrFloatValue, 0)
	f("minus infinity", "fbfff0000000000000", ErrFloatValue, 0)
	f("text of a stray byte", "61ff", ErrUTF8, 0)
	f("text of half a surrogate pair", "63eda080", ErrUTF8, 0)
	f("overlong text", "62c080", ErrUTF8, 0)
	f("key that is not UTF-8", "a161ff00", ErrUTF8, 1)
	f("trailing byte", "0000", ErrTrailing, 1)
	f("depth", nested(MaxDepth+1), ErrDepth, MaxDepth)
	f("depth of maps", strings.Repeat("a16161", MaxDepth+1)+"00", ErrDepth, 3*MaxDepth)
	f("link on text", "d82a6178", ErrLink, 0)
	f("link on an empty string", "d82a40", ErrLink, 0)
	f("link without 00", "d82a5824"+"01711220"+digest, ErrLink, 0)
	f("link on a link", "d82ad82a4100", ErrLink, 0)
	f("link to nothing", "d82a4100", ErrCIDTruncated, 0)
	f("link of version 0", "d82a5823001220"+digest, ErrCIDVersion, 0)
	f("link with a byte more", "d82a58260001711220"+digest+"00", ErrCIDTrailing, 0)
	f("link with a byte less", "d82a58240001711220"+digest[2:], ErrCIDTruncated, 0)
	f("link with a short digest", "d82a58240001711"+"21f"+digest[2:], ErrCIDDigest, 0)
}

// TestValueEnds: bytes after a value are not looked at, and the order of keys
// is reported and not refused (F59).
func TestValueEnds(t *testing.T) {
	var s Scanner
	f := func(name, text string, at, end int, sorted bool) {
		t.Helper()
		gotEnd, gotSorted, err := s.Value(unhex(t, text), at)
		if err != nil || gotEnd != end || gotSorted != sorted {
			t.Errorf("%s: got %d %v %v, want %d %v", name, gotEnd, gotSorted, err, end, sorted)
		}
	}
	f("two values", "01ff", 0, 1, true)
	f("from the middle", "ff6161ff", 1, 3, true)
	f("unsorted", "a2616200616100", 0, 7, false)
	f("unsorted in a sorted map in an array", "82a16161a261620061610000", 0, 12, false)
	f("unsorted before a sorted sibling", "82a2616200616100a0", 0, 9, false)
}

// TestMapLendsFields: fields come in the order of the input, with their spans,
// and the bound on their number is told after all other breaches.
func TestMapLendsFields(t *testing.T) {
	var s Scanner
	var m Fields
	b := unhex(t, "00 a3 616201 6161a2617a00617902 626262f6 00")
	end, err := s.Map(b, 1, &m)
	if err != nil || end != len(b)-1 || m.Ordered || m.Sorted() || len(m.List) != 3 {
		t.Fatalf("got %d %v, %+v", end, err, m)
	}
	if string(m.List[0].Key) != "b" || string(m.List[0].Value) != "\x01" || m.List[1].Sorted || !m.List[2].Sorted {
		t.Errorf("got %+v", m.List)
	}
	if m.Find("zz") != nil || !IsNull(m.Find("bb")) {
		t.Errorf("got %v and %v", m.Find("zz"), m.Find("bb"))
	}
	m.Sort()
	if string(m.List[0].Key) != "a" || string(m.List[1].Key) != "b" || !m.Ordered || m.Sorted() {
		t.Errorf("sorted: %+v", m)
	}
	if _, err := s.Map(unhex(t, "80"), 0, &m); !errors.Is(err, ErrNotMap) || len(m.List) != 0 {
		t.Errorf("array: %v", err)
	}
	if _, err := s.Map(unhex(t, "811c"), 0, &m); !errors.Is(err, ErrReserved) {
		t.Errorf("bad array: %v", err)
	}
	if _, err := s.Map(nil, 0, &m); !errors.Is(err, ErrTruncated) {
		t.Errorf("nothing: %v", err)
	}

	many := AppendMap(nil, MaxFields+1)
	for i := range MaxFields + 1 {
		many = AppendInt(AppendText(many, string([]byte{'a' + byte(i/676), 'a' + byte(i/26%26), 'a' + byte(i%26)})), 0)
	}
	if _, err := s.Map(many, 0, &m); !errors.Is(err, ErrTooManyFields) || len(m.List) != 0 {
		t.Errorf("%d fields: %v", MaxFields+1, err)
	}
	if err := s.Check(many); err != nil {
		t.Errorf("as a value: %v", err)
	}
	if _, err := s.Map(append(many[:len(many)-1], 0x1c), 0, &m); !errors.Is(err, ErrReserved) {
		t.Errorf("%d fields, the last one bad: %v", MaxFields+1, err)
	}
}

// TestSetKeepsOrder: a field is replaced, put in at its place, and taken out.
func TestSetKeepsOrder(t *testing.T) {
	var s Scanner
	var m Fields
	if _, err := s.Map(unhex(t, "a3 62626200 616100 616300"), 0, &m); err != nil {
		t.Fatal(err)
	}
	m.Set("b", []byte{1})
	m.Set("c", []byte{2})
	m.Set("a", nil)
	m.Set("none", nil)
	var got []string
	for _, f := range m.List {
		got = append(got, string(f.Key)+hex.EncodeToString(f.Value))
	}
	if strings.Join(got, " ") != "b01 c02 bb00" {
		t.Errorf("got %v", got)
	}
}

// TestScratchIsBounded is C2: what one large map has cost is given back.
func TestScratchIsBounded(t *testing.T) {
	var s Scanner
	var o Sorter
	large := AppendMap(nil, 10000)
	for i := range 10000 {
		large = AppendInt(AppendText(large, hex.EncodeToString([]byte{byte(i % 100), byte(i / 100)})), 0)
	}
	end, sorted, err := s.Value(large, 0)
	if end != len(large) || sorted || err != nil {
		t.Fatalf("got %d %v %v", end, sorted, err)
	}
	if err := s.Check(o.AppendSorted(nil, large)); err != nil {
		t.Errorf("sorted: %v", err)
	}
	if cap(s.keys) > keptSpans || cap(o.entries) > keptSpans || cap(o.region) > keptRegion {
		t.Errorf("kept %d keys, %d entries, %d bytes", cap(s.keys), cap(o.entries), cap(o.region))
	}
}

func TestScanAllocations(t *testing.T) {
	var s Scanner
	var m Fields
	var o Sorter
	unsorted := unhex(t, "a3 616201 6161a2617a00617902 626262"+linkHex)
	out := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.Map(unsorted, 0, &m); err != nil {
			t.Fatal(err)
		}
		m.Sort()
		out = o.AppendSorted(out[:0], unsorted)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
