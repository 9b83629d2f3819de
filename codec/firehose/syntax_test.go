package firehose

import (
	"strings"
	"testing"
	"time"
)

func TestValidDID(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := ValidDID([]byte(text)); got != want {
			t.Errorf("%.40q: %v", text, got)
		}
	}
	for _, good := range []string{did, "did:web:pds.example", "did:web:localhost%3A80", "did:web:a", "did:x:a:b:c", "did:key:zQ3shwhAys_-.Z", "did:x:" + strings.Repeat("a", maxDIDBytes-6)} {
		f(good, true)
	}
	for _, bad := range []string{
		"", "did", "did:", "did:plc", "did:plc:", "did::a", "did:PLC:a", "did:p1c:a", "DID:plc:a", "plc:a", "did:plc:a b", "did:plc:a/b", "did:plc:a#b", "did:plc:a?b",
		"did:plc:a:", "did:plc:a%", "did:plc:é", "did:plc:a\x00", " did:plc:a", "did:x:" + strings.Repeat("a", maxDIDBytes-5),
	} {
		f(bad, false)
	}
}

func TestTID(t *testing.T) {
	f := func(text string, micros int64, want bool) {
		t.Helper()
		at, ok := TIDTime([]byte(text))
		if ok != want || ok && at.UnixMicro() != micros || ValidTID([]byte(text)) != want {
			t.Errorf("%q: %v %v", text, at, ok)
		}
	}
	f("2222222222222", 0, true)
	f("22222222223zz", 1, true)
	f("jzzzzzzzzzzzz", 1<<54-1, true)
	f(rev, time.Date(2024, 7, 9, 10, 0, 0, 0, time.UTC).UnixMicro(), true)
	for _, bad := range []string{"", "222222222222", "22222222222222", "k222222222222", "z222222222222", "2222222222221", "2222222222228", "222222222222A", "222222222222-", "2222-22-22222", "é22222222222"} {
		f(bad, 0, false)
	}
}

func TestDatetime(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := ValidDatetime(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, good := range []string{
		when, "2024-07-09T10:00:00.1Z", "2024-07-09T10:00:00.123456789123Z", "2024-07-09T10:00:00+01:45", "2024-07-09T10:00:00.5-12:00", "2024-02-29T23:59:59Z", "0010-01-01T00:00:00Z", "2024-07-09T10:00:00+00:00",
	} {
		f(good, true)
	}
	for _, bad := range []string{
		"", "2024-07-09", "2024-07-09T10:00Z", "2024-07-09T10:00:00", "2024-07-09t10:00:00Z", "2024-07-09T10:00:00z", "2024-07-09 10:00:00Z", "2024-13-09T10:00:00Z", "2023-02-29T00:00:00Z",
		"2024-07-09T24:00:00Z", "2024-07-09T10:00:00-00:00", "2024-07-09T10:00:00.Z", "2024-07-09T10:00:00,5Z", "2024-07-09T10:00:00+01", "2024-07-09T10:00:00+0100", "2024-07-09T10:00:00ZZ", "2024-7-9T10:00:00Z",
		"0009-01-01T00:00:00Z", "-2024-07-09T10:00:00Z", "2024-07-09T1:00:00Z", "2024-07-09T10:00:00." + strings.Repeat("1", 50) + "Z",
	} {
		f(bad, false)
	}
	// F16: made here.
	at := time.Date(2026, 7, 9, 12, 0, 0, 999_999_999, time.FixedZone("", 2*3600))
	if got := FormatTime(at); got != "2026-07-09T10:00:00Z" || !ValidDatetime(got) {
		t.Errorf("got %s", got)
	}
}

func TestHandle(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := ValidHandle(text); got != want {
			t.Errorf("%.40q: %v", text, got)
		}
	}
	label := strings.Repeat("a", 63)
	for _, good := range []string{"note.example", "a.b", "A.Test", "xn--x.test", "1.test", "a-b.c-d.t2", label + ".test", strings.Join([]string{label, label, label, strings.Repeat("a", 61)}, ".")} {
		f(good, true)
	}
	for _, bad := range []string{
		"", "a", ".", "a.", ".a", "a..b", "-a.b", "a-.b", "a.b-", "a.1", "a.1b", "127.0.0.1", "a_b.c", "a b.c", "é.test", "@a.b", label + "a.test", strings.Join([]string{label, label, label, strings.Repeat("a", 62)}, "."),
	} {
		f(bad, false)
	}
}
