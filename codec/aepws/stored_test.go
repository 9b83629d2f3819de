package aepws

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

var full = Delivery{Mode: AtLeastOnce, Sequence: 42, ID: `e"\1`, SubscriptionID: "sub_7", Attempt: 2, Dropped: 3}

// TestStoredForm is B57 and B17 (hard case 19): everything but delivery stays
// byte for byte.
func TestStoredForm(t *testing.T) {
	members := []string{
		`"aep_version":"0.1"`, `"id":"e1"`, `"type":"a.b"`, `"source":"s\u0061"`, `"created_at":"2026-03-01T12:00:00Z"`,
		`"payload":{"n":12345678901234567890,"m": 1.10,"e":1E+2}`, `"\u0078":[ 1 , 2 ]`,
	}
	f := func(delivery string, at int, comma, want string) {
		t.Helper()
		all := slices.Clone(members)
		if delivery != "" {
			all = slices.Insert(all, at, delivery)
		}
		s, e := admitted(t, " { "+strings.Join(all, comma)+" } ")
		stored := StoredForm(nil, e)
		if got := string(stored); !strings.HasSuffix(got, want) {
			t.Fatalf("B57: %s, want %s at the end", got, want)
		}
		if len(stored) > e.StoredBytes() {
			t.Errorf("%d bytes, bound %d", len(stored), e.StoredBytes())
		}
		kept := strings.TrimSuffix(string(stored), want)
		if kept = strings.TrimSpace(strings.TrimPrefix(kept, "{")); kept != strings.Join(members, comma) {
			t.Errorf("B17: delivery at %d: %s\nwant %s", at, kept, strings.Join(members, comma))
		}
		if a, err := s.ReadStored(stored, "tenant"); err != nil || a != (Attributes{Type: "a.b", Source: "sa", TenantID: "tenant"}) {
			t.Errorf("%s: %+v, %v", stored, a, err)
		}
	}
	for _, comma := range []string{",", " , ", ",\n"} {
		f("", 0, comma, `,"delivery":{`)
		for at := range len(members) + 1 {
			f(`"delivery":{"mode":"replayable"}`, at, comma, `,"delivery":{`)
			f(`"delivery" : { "retry" : {"x":[1.50]} , "mode":"best_effort" }`, at, comma, `,"delivery":{"retry":{"x":[1.50]},`)
			f(`"d\u0065livery":{"retry":null}`, at, comma, `,"delivery":{"retry":null,`)
		}
	}
}

// TestDelivery is B57, B58 and B60: what a subscriber reads.
func TestDelivery(t *testing.T) {
	f := func(extra string, d Delivery, want string) {
		t.Helper()
		_, e := admitted(t, event(extra))
		stored := StoredForm(nil, e)
		got := AppendDelivery([]byte("before"), stored, &d)[len("before"):]
		members := stdMembers(t, got)
		if last := members[len(members)-1]; last.name != "delivery" || last.raw != want {
			t.Errorf("%s\nwant delivery %s", got, want)
		}
		framed := AppendDeliveryFrame([]byte("before"), stored, &d)
		if whole := wsframe.AppendText([]byte("before"), got); !bytes.Equal(framed, whole) {
			t.Errorf("B10: frame %q\nwant %q", framed, whole)
		}
	}
	f("", Delivery{Mode: BestEffort, Sequence: 1, ID: "evt_1", SubscriptionID: "sub_1"},
		`{"mode":"best_effort","sequence":1,"cursor":"evt_1:1","subscription_id":"sub_1"}`)
	f("", Delivery{Mode: Replayable, Sequence: 1 << 62, ID: "a:b", SubscriptionID: "sub_1", Attempt: 1},
		`{"mode":"replayable","sequence":4611686018427387904,"cursor":"a:b:4611686018427387904","subscription_id":"sub_1"}`)
	f(`,"delivery":{"mode":"replayable","retry":{"max":9}}`, full,
		`{"retry":{"max":9},"mode":"at_least_once","sequence":42,"cursor":"e\"\\1:42","subscription_id":"sub_7","attempt":2,"dropped":3}`)
	long := full
	long.ID, long.SubscriptionID = strings.Repeat(`"`, 128), strings.Repeat("s", 600)
	f(`,"metadata":"`+strings.Repeat("x", 70_000)+`"`, long,
		`{"mode":"at_least_once","sequence":42,"cursor":"`+strings.Repeat(`\"`, 128)+`:42","subscription_id":"`+long.SubscriptionID+`","attempt":2,"dropped":3}`)
}

// TestTailFits: a usual delivery needs no more than its scratch.
func TestTailFits(t *testing.T) {
	d := Delivery{Mode: AtLeastOnce, Sequence: 1<<63 - 1, ID: strings.Repeat(`"`, 128), SubscriptionID: "sub_1844674407370955", Attempt: 1 << 30, Dropped: 1<<63 - 1}
	if n := len(d.append(nil)); n > maxTailBytes {
		t.Errorf("%d bytes", n)
	}
}

// TestOriginal: a dead letter holds the event as published (B58).
func TestOriginal(t *testing.T) {
	f := func(delivery, want string) {
		t.Helper()
		_, e := admitted(t, event(delivery))
		got := string(AppendOriginal([]byte("x"), StoredForm(nil, e), e.Mode))[1:]
		if got != event(want) {
			t.Errorf("B58: %s\nwant %s", got, event(want))
		}
	}
	f("", "")
	f(`,"delivery":{}`, "")
	f(`,"delivery":{"mode":"replayable"}`, `,"delivery":{"mode":"replayable"}`)
	f(`,"delivery":{"retry":1}`, `,"delivery":{"retry":1}`)
	f(`,"delivery":{"mode":"best_effort","retry":{}}`, `,"delivery":{"retry":{},"mode":"best_effort"}`)
}

// TestReadStored: attributes come back as they went in, and damage is found.
func TestReadStored(t *testing.T) {
	s, e := admitted(t, event(`,"target":"t","topic":"to","session_id":"se","conversation_id":"c\n","task_id":"ta","tenant_id":"te","delivery":{"retry":[{}]}`))
	stored := StoredForm(nil, e)
	want := e.Attributes("te")
	if a, err := s.ReadStored(stored, "te"); err != nil || a != want {
		t.Fatalf("%+v, %v, want %+v", a, err, want)
	}
	_, plain := admitted(t, event(""))
	bad := [][]byte{nil, []byte("{"), []byte(`{"delivery":{`), []byte(event("")), AppendDelivery(nil, stored, &full), []byte(`{"type":"x","delivery":{`)}
	for n := range stored {
		if !bytes.HasSuffix(stored[:n], []byte(openDelivery)) { // that one is whole
			bad = append(bad, stored[:n])
		}
	}
	for _, change := range [][2]string{{`"target"`, `"topic"`}, {"task.", "Task."}, {`"t"`, "\"\xff\""}, {`[{}],`, `[{}]`}, {`[{}],`, `[{}],,`}, {`"retry"`, `"retri"`}} {
		bad = append(bad, []byte(strings.Replace(string(stored), change[0], change[1], 1)))
	}
	for _, text := range bad {
		if a, err := s.ReadStored(text, ""); !errors.Is(err, ErrStored) || a != (Attributes{}) {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
	if _, err := s.ReadStored(StoredForm(nil, plain), ""); err != nil {
		t.Error(err)
	}
}
