package firehose

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// TestAppendKeepsFields is F59 and F61: keys out of order at any depth come
// into order, unknown fields stay, and only seq differs.
func TestAppendKeepsFields(t *testing.T) {
	var s Scanner
	f := func(name, in, want string) {
		t.Helper()
		var frame Frame
		if err := s.Scan(unhex(t, in), &frame); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		got, err := frame.Append([]byte{0xee}, 1<<32)
		if err != nil || !bytes.Equal(got, append([]byte{0xee}, unhex(t, want)...)) {
			t.Errorf("%s: %v\ngot  %x\nwant ee%s", name, err, got, want)
		}
		if frame.SizeBytes() != len(got)-1 {
			t.Errorf("%s: size %d of %d", name, frame.SizeBytes(), len(got)-1)
		}
	}
	const header = "a2 6174 69 236964656e74697479 626f70 01"
	const number = "1b0000000100000000"
	didField, timeField := text("did")+text(did), text("time")+text(when)
	seqKeyHex := text("seq")
	want := header + "a3" + didField + seqKeyHex + number + timeField
	f("canonical", header+"a3"+didField+seqKeyHex+"05"+timeField, want)
	f("longer number", header+"a3"+didField+seqKeyHex+"1b001fffffffffffff"+timeField, want)
	f("schema order", header+"a3"+seqKeyHex+"05"+didField+timeField, want)
	f("number last", header+"a3"+didField+timeField+seqKeyHex+"05", want)
	f("header with more", "a4 627a7a 80 626f70 01 6174 69 236964656e74697479 6161 f6 a3"+didField+seqKeyHex+"05"+timeField, want)
	nested := "81a2" + "6162" + "a2" + "617a01" + "617902" + "6161" + "81a0"
	sorted := "81a2" + "6161" + "81a0" + "6162" + "a2" + "617902" + "617a01"
	f("unsorted in a sorted body", header+"a4"+didField+seqKeyHex+"05"+timeField+text("zzzzz")+nested, header+"a4"+didField+seqKeyHex+number+timeField+text("zzzzz")+sorted)
	f("unknown short key after the others", header+"a4"+didField+seqKeyHex+"05"+timeField+text("a")+nested, header+"a4"+text("a")+sorted+didField+seqKeyHex+number+timeField)
	f("the empty key", header+"a4"+text("")+"f6"+didField+seqKeyHex+"05"+timeField, header+"a4"+text("")+"f6"+didField+seqKeyHex+number+timeField)
}

// TestAppendPublished is F52: a number is put in where there is none, and one
// of any type is ignored.
func TestAppendPublished(t *testing.T) {
	var s Scanner
	want := message(t, KindIdentity, about("seq", "07", "zNew", "a16161420102", "a", "00"))
	for _, seq := range []string{"", "07", "1b001fffffffffffff", "00", "20", "f6", "fb3ff0000000000000", "80"} {
		var f Frame
		in := message(t, KindIdentity, about("seq", seq, "zNew", "a16161420102", "a", "00"))
		if err := s.ScanPublished(in, &f); err != nil {
			t.Errorf("seq %q: %v", seq, err)
			continue
		}
		got, err := f.Append(nil, 7)
		if err != nil || !bytes.Equal(got, want) || f.SizeBytes() != len(got)+8 || f.Seq != 0 {
			t.Errorf("seq %q: %v, size %d, seq %d, got %x", seq, err, f.SizeBytes(), f.Seq, got)
		}
	}
	// 23 fields and a number make a longer head.
	m := about("seq", "")
	for i := range 21 {
		m[string(rune('a'+i))] = "00"
	}
	var f Frame
	if err := s.ScanPublished(message(t, KindIdentity, m), &f); err != nil {
		t.Fatal(err)
	}
	got, err := f.Append(nil, 1<<40)
	m["seq"] = "1b0000010000000000"
	if err != nil || !bytes.Equal(got, message(t, KindIdentity, m)) || f.SizeBytes() != len(got) {
		t.Errorf("24 fields: %v, size %d, got %x", err, f.SizeBytes(), got)
	}
	// A number that comes after all other keys.
	short := map[string]string{"did": text("did:web:a"), "seq": ""}
	f = Frame{kind: KindIdentity}
	if _, err := s.cbor.Map(body(t, short), 0, &f.fields); err != nil {
		t.Fatal(err)
	}
	got, err = f.Append(nil, 7)
	short["seq"] = "07"
	if err != nil || !bytes.Equal(got, message(t, KindIdentity, short)) {
		t.Errorf("number last: %v, got %x", err, got)
	}
}

// TestAppendRefuses is F15 and F62: numbers out of range, and frames that have
// none.
func TestAppendRefuses(t *testing.T) {
	var s Scanner
	var f Frame
	if err := s.Scan(message(t, KindAccount, about("active", "f5")), &f); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int64{0, -1, MaxSeq + 1, math.MinInt64, math.MaxInt64} {
		if got, err := f.Append([]byte("x"), seq); !errors.Is(err, ErrSeq) || string(got) != "x" {
			t.Errorf("seq %d: %v, got %x", seq, err, got)
		}
		for _, b := range []interface {
			Append([]byte, int64) ([]byte, error)
		}{&Commit{}, &Sync{}, &Identity{}, &Account{}} {
			if got, err := b.Append([]byte("x"), seq); !errors.Is(err, ErrSeq) || string(got) != "x" {
				t.Errorf("%T: seq %d: %v, got %x", b, seq, err, got)
			}
		}
	}
	if got, err := f.Append(nil, MaxSeq); err != nil || len(got) == 0 {
		t.Errorf("the largest number: %v", err)
	}
	if err := s.Scan(message(t, KindInfo, map[string]string{"name": text("x")}), &f); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Append(nil, 1); !errors.Is(err, ErrKind) || got != nil || f.SizeBytes() != 0 {
		t.Errorf("#info: %v, got %x", err, got)
	}
}

// TestSetAccount is F67 and hard case 39: the effective status goes out, with
// unknown fields as they came.
func TestSetAccount(t *testing.T) {
	var s Scanner
	f := func(in map[string]string, active bool, status string, want map[string]string) {
		t.Helper()
		var frame Frame
		if err := s.Scan(message(t, KindAccount, in), &frame); err != nil {
			t.Fatal(err)
		}
		if err := frame.SetAccount(active, status); err != nil {
			t.Fatal(err)
		}
		got, err := frame.Append(nil, 9)
		if err != nil || !bytes.Equal(got, message(t, KindAccount, want)) || frame.Active != active || string(frame.Status) != status || frame.SizeBytes() < len(got) {
			t.Errorf("%v %q: %v, got %x", active, status, err, got)
		}
	}
	unknown := []string{"aaaaaa", "a0", "zzzzzz", "81f6"}
	f(about(append(unknown, "active", "f5")...), false, StatusTakendown,
		about(append(unknown, "active", "f4", "status", text("takendown"), "seq", "09")...))
	f(about(append(unknown, "active", "f4", "status", text("deleted"))...), false, StatusTakendown,
		about(append(unknown, "active", "f4", "status", text("takendown"), "seq", "09")...))
	f(about(append(unknown, "active", "f4", "status", text("deleted"))...), true, "",
		about(append(unknown, "active", "f5", "seq", "09")...))

	var frame Frame
	if err := s.Scan(message(t, KindAccount, about("active", "f5")), &frame); err != nil {
		t.Fatal(err)
	}
	if err := frame.SetAccount(true, StatusDeleted); !errors.Is(err, ErrStatusWith) || !frame.Active {
		t.Errorf("status of an active account: %v", err)
	}
	if err := frame.SetAccount(false, "gone"); !errors.Is(err, ErrStatus) || !frame.Active {
		t.Errorf("unknown status: %v", err)
	}
	if err := s.Scan(message(t, KindIdentity, about()), &frame); err != nil {
		t.Fatal(err)
	}
	if err := frame.SetAccount(false, ""); !errors.Is(err, ErrKind) {
		t.Errorf("identity: %v", err)
	}
}
