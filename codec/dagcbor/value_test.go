package dagcbor

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

// TestAppend is F10, F11 and F12: each value in its one form, and read again.
func TestAppend(t *testing.T) {
	f := func(name string, got []byte, want string) {
		t.Helper()
		if !bytes.Equal(got, unhex(t, want)) {
			t.Errorf("%s: got %x, want %s", name, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "00", 23: "17", 24: "1818", 255: "18ff", 256: "190100", 65535: "19ffff", 65536: "1a00010000",
		1<<32 - 1: "1affffffff", 1 << 32: "1b0000000100000000", 1<<53 - 1: "1b001fffffffffffff",
		-1: "20", -24: "37", -25: "3818", -256: "38ff", -257: "390100", math.MinInt64: "3b7fffffffffffffff",
	} {
		got := AppendInt(nil, n)
		f("integer", got, want)
		if back, ok := Int(got); !ok || back != n {
			t.Errorf("%d reads as %d, %v", n, back, ok)
		}
		if n >= 0 && HeadLen(uint64(n)) != len(got) {
			t.Errorf("%d: HeadLen is %d", n, HeadLen(uint64(n)))
		}
	}
	f("text", AppendText(nil, "€"), "63e282ac")
	f("text of 24", AppendText(nil, strings.Repeat("a", 24)), "7818"+strings.Repeat("61", 24))
	f("bytes", AppendBytes(nil, []byte{0, 255}), "4200ff")
	f("no bytes", AppendBytes(nil, nil), "40")
	f("array", AppendArray(nil, 24), "9818")
	f("map", AppendMap(nil, 23), "b7")
	f("bools and null", AppendNull(AppendBool(AppendBool(nil, false), true)), "f4f5f6")
	cid, err := ParseCID(unhex(t, "01711220"+digest))
	if err != nil {
		t.Fatal(err)
	}
	f("link", AppendLink(nil, cid), linkHex)
	got, err := AppendFloat(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	f("float", got, "fb3ff0000000000000")
	if v, ok := Float(got); !ok || v != 1 {
		t.Errorf("float reads as %v, %v", v, ok)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, err := AppendFloat([]byte{7}, v); err == nil || len(got) != 1 {
			t.Errorf("%v: got %x", v, got)
		}
	}
}

// TestReadersRefuseOtherTypes is C5 too: bytes of no Scanner do no harm.
func TestReadersRefuseOtherTypes(t *testing.T) {
	values := []string{
		"", "00", "20", "1bffffffffffffffff", "3bffffffffffffffff", "40", "60", "80", "a0", "f4", "f6", linkHex, "fb3ff0000000000000",
		"18", "1817", "6261", "9bffffffffffffffff00", "bbffffffffffffffff00", "81", "a161", "a1616161", "a10000", "d82a", "d82a40", "d82a6161", "821818", "81fb00", "5f", "ff", "82ff",
	}
	answers := map[string]string{
		"00": "int", "20": "int", "40": "bytes", "60": "text", "80": "count", "a0": "count", "f4": "bool", "f6": "null", linkHex: "link", "fb3ff0000000000000": "float",
		"81": "", "821818": "count", "81fb00": "count", "82ff": "", "a161": "count", "a1616161": "count", "a10000": "count",
	}
	for _, text := range values {
		value := unhex(t, text)
		var got []string
		note := func(name string, ok bool) {
			if ok {
				got = append(got, name)
			}
		}
		_, ok := Int(value)
		note("int", ok)
		_, ok = BytesOf(value)
		note("bytes", ok)
		_, ok = TextOf(value)
		note("text", ok)
		_, ok = Bool(value)
		note("bool", ok)
		_, ok = Float(value)
		note("float", ok)
		_, ok = Link(value)
		note("link", ok)
		_, ok = Count(value)
		note("count", ok)
		note("null", IsNull(value))
		if strings.Join(got, " ") != answers[text] {
			t.Errorf("%s: got %v, want %q", text, got, answers[text])
		}
		for element := range Elements(value) {
			if len(element) == 0 {
				t.Errorf("%s: an element of no bytes", text)
			}
		}
		for range Entries(value) {
			t.Errorf("%s: an entry", text)
		}
		new(Sorter).AppendSorted(nil, value)
	}
	new(Sorter).AppendSorted(nil, bytes.Repeat([]byte{0x81}, 1<<20))
}

func TestElementsAndEntries(t *testing.T) {
	var got []string
	for e := range Elements(unhex(t, "85 01 820203 a161610a fb3ff0000000000000 "+linkHex)) {
		got = append(got, string(rune('0'+len(e)/10))+string(rune('0'+len(e)%10)))
	}
	if strings.Join(got, " ") != "01 03 04 09 41" {
		t.Errorf("lengths %v", got)
	}
	got = nil
	for k, v := range Entries(unhex(t, "a3 616201 616181a0 62626260")) {
		got = append(got, string(k)+":"+string(rune('0'+len(v))))
	}
	if strings.Join(got, " ") != "b:1 a:2 bb:1" {
		t.Errorf("entries %v", got)
	}
	for range Elements(unhex(t, "820102")) {
		break
	}
	for range Entries(unhex(t, "a2616101616202")) {
		break
	}
}

// TestAppendSorted is F59 and F61: keys at all depths come into order, all else
// keeps its bytes.
func TestAppendSorted(t *testing.T) {
	var s Scanner
	var o Sorter
	f := func(name, in, want string) {
		t.Helper()
		value := unhex(t, in)
		if _, _, err := s.Value(value, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := o.AppendSorted([]byte{0xee}, value)
		if !bytes.Equal(got, append([]byte{0xee}, unhex(t, want)...)) {
			t.Errorf("%s: got %x, want %s", name, got, want)
		}
		if err := s.Check(got[1:]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	f("leaf", "1818", "1818")
	f("sorted", "a2616100616200", "a2616100616200")
	f("one map", "a362616103617a02616101", "a3616101617a0262616103")
	f("in an array", "82a261620061610100", "82a261610161620000")
	f("map in a map", "a2 6162a2617a016179"+linkHex+" 6161a0", "a2 6161a0 6162a26179"+linkHex+"617a01")
	f("three deep, order only at the bottom", "a16161a16161a2616201616100", "a16161a16161a2616100616201")
	f("a sorted map after an unsorted one", "82a2616201616100a2616100616201", "82a2616100616201a2616100616201")
}

// TestCID is F12: version, varints, hash functions and lengths.
func TestCID(t *testing.T) {
	f := func(name, text string, want error) {
		t.Helper()
		if _, err := ParseCID(unhex(t, text)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	f("SHA-256 of DAG-CBOR", "01711220"+digest, nil)
	f("SHA-256 of raw", "01551220"+digest, nil)
	f("a codec of two bytes", "0181021220"+digest, nil)
	f("a hash function of three bytes", "0171a0e40220"+digest, nil)
	f("identity of nothing", "01550000", nil)
	f("identity of two bytes", "0155000261ff", nil)
	f("an unknown function", "01713f03010203", nil)
	f("nothing", "", ErrCIDTruncated)
	f("only a version", "01", ErrCIDTruncated)
	f("no digest", "01711220", ErrCIDTruncated)
	f("a digest cut short", "01711220"+digest[2:], ErrCIDTruncated)
	f("a byte more", "01711220"+digest+"00", ErrCIDTrailing)
	f("version 0", "1220"+digest, ErrCIDVersion)
	f("version 2", "02711220"+digest, ErrCIDVersion)
	f("a long version", "8100711220"+digest, ErrCIDVarint)
	f("a codec without end", "01"+strings.Repeat("ff", 20), ErrCIDVarint)
	f("a codec that is cut", "01ff", ErrCIDTruncated)
	f("SHA-256 of 31 bytes", "0171121f"+digest[2:], ErrCIDDigest)
	f("SHA-512 of 32 bytes", "01711320"+digest, ErrCIDDigest)
	f("an unknown function of no bytes", "01713f00", ErrCIDDigest)
	f("a digest of 129 bytes", "01713f8101"+strings.Repeat("00", 129), ErrCIDDigest)

	longest := "01" + strings.Repeat("ff", 8) + "7f" + strings.Repeat("ff", 8) + "7f" + "8001" + strings.Repeat("00", 128)
	f("the longest", longest, nil)
	if len(longest)/2 != MaxCIDBytes {
		t.Errorf("the longest CID has %d bytes, MaxCIDBytes is %d", len(longest)/2, MaxCIDBytes)
	}

	cid, rest, err := CutCID(unhex(t, "01711220"+digest+"abcd"))
	if err != nil || len(cid) != 36 || !bytes.Equal(rest, []byte{0xab, 0xcd}) || cid.Codec() != CodecDAGCBOR {
		t.Errorf("cut: %x %x %v", cid, rest, err)
	}
	if _, rest, err := CutCID([]byte{1, 2}); err == nil || len(rest) != 2 {
		t.Errorf("cut of nothing: %x %v", rest, err)
	}
	if CID(nil).Codec() != 0 || CID(nil).String() != "" {
		t.Error("no CID has a codec or text")
	}
}

// TestCIDText: the text form goes both ways, and has one spelling.
func TestCIDText(t *testing.T) {
	const text = "bafyreihfjozo7iomxfj7v6cdfdvhusee53haeppbbvi44zr6gsgtbzjcnm"
	cid, err := ParseCIDText(text)
	if err != nil || cid.String() != text || cid.Codec() != CodecDAGCBOR {
		t.Fatalf("got %v %v", cid, err)
	}
	for name, bad := range map[string]string{
		"nothing": "", "only a prefix": "b", "upper case": strings.ToUpper(text), "another base": "z" + text[1:],
		"padding": text + "=", "a line end": text + "\n", "a line end inside": text[:9] + "\n" + text[9:], "bits left over": text[:len(text)-1] + "n", "a character outside": text[:9] + "1" + text[10:],
	} {
		if _, err := ParseCIDText(bad); !errors.Is(err, ErrCIDText) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseCIDText("bae"); !errors.Is(err, ErrCIDTruncated) {
		t.Errorf("a CID cut short: %v", err)
	}
}

// TestCIDVerify is F66: content against its CID.
func TestCIDVerify(t *testing.T) {
	content := []byte("content")
	cid := SHA256CID(CodecRaw, content)
	if err := cid.Verify(content); err != nil {
		t.Error(err)
	}
	if err := cid.Verify([]byte("Content")); !errors.Is(err, ErrCIDMismatch) {
		t.Errorf("other content: %v", err)
	}
	if err := CID(unhex(t, "01550000")).Verify(nil); !errors.Is(err, ErrCIDHash) {
		t.Errorf("identity: %v", err)
	}
	if err := CID(nil).Verify(nil); err == nil {
		t.Error("no CID verifies")
	}
	if err := (CID{1}).Verify(nil); err == nil {
		t.Error("half a CID verifies")
	}
}

func TestAppendJSON(t *testing.T) {
	var s Scanner
	f := func(in, want string) {
		t.Helper()
		got, err := s.AppendJSON([]byte("x"), unhex(t, in))
		if err != nil || string(got) != "x"+want {
			t.Errorf("%s: got %s %v, want %s", in, got, err, want)
		}
	}
	f("00", "0")
	f("1bffffffffffffffff", "18446744073709551615")
	f("3b7fffffffffffffff", "-9223372036854775808")
	f("3b8000000000000000", "-9223372036854775809")
	f("3bffffffffffffffff", "-18446744073709551616")
	f("83f4f5f6", "[false,true,null]")
	f("fb3ff8000000000000", "1.5")
	f("fb7fefffffffffffff", "1.7976931348623157e+308")
	f("4200ff", `{"$bytes":"AP8"}`)
	f("40", `{"$bytes":""}`)
	f("a2616180626162a0", `{"a":[],"ab":{}}`)
	f("a2616201616102", `{"b":1,"a":2}`)
	f("6a"+"225c0a0d09001f7f"+"c3a9", `"\"\\\n\r\t\u0000\u001f\u007fé"`)
	f("d82a450001550000", `{"$link":"bafkqaaa"}`)
	for _, bad := range []string{"", "f7", "0000"} {
		if got, err := s.AppendJSON([]byte("x"), unhex(t, bad)); err == nil || string(got) != "x" {
			t.Errorf("%s: got %s", bad, got)
		}
	}
}
