package aepws

import (
	"fmt"
	"strings"
	"testing"
)

// usual is an event of about 600 bytes.
func usual() []byte {
	return []byte(`{"aep_version":"0.1","id":"evt_01JZ0000000000000000000000","type":"tool.call.progress","source":"agent:planner",` +
		`"target":"agent:worker-7","topic":"builds","session_id":"sess_01JZ0000000000000000000001","conversation_id":"conv_42",` +
		`"task_id":"task_1024","correlation_id":"corr_7","created_at":"2026-03-01T12:00:00.123+05:30",` +
		`"delivery":{"mode":"at_least_once","retry":{"max_attempts":3}},` +
		`"payload":{"call_id":"call_9","progress":0.42,"text":"` + strings.Repeat("compiling ", 12) + `","n":[1,2,3],"ok":true}}`)
}

// wideFilter has each member, and what a group of agents may ask for.
const wideFilter = `{"types":["tool.call.*","task.*","*.failed"],"source":["agent:planner","agent:critic"],"target":"agent:worker-7","session_id":"sess_01JZ0000000000000000000001"}`

// TestAllocations is E2: nothing that is done per event or per delivery costs
// an allocation, but for the copy of an event's attributes.
func TestAllocations(t *testing.T) {
	text := usual()
	escaped := []byte(strings.ReplaceAll(string(text), "agent:", `\u0061gent:`))
	dst := make([]byte, 0, 4096)
	keys := make([]uint64, 0, 16)
	var s Scanner
	var e Envelope
	var ack AckRequest
	if err := s.Scan(text, &e); err != nil || len(e.Faults) > 0 || e.Mode != AtLeastOnce || len(text) < 550 || len(text) > 700 {
		t.Fatalf("%d bytes: %v, %v", len(text), err, e.Faults)
	}
	attributes := e.Attributes("")
	stored := StoredForm(nil, &e)
	filter := filterOf(t, wideFilter)
	if !filter.Match(&attributes) {
		t.Fatal("no match")
	}
	author := NewAuthor("r", NewIDs())
	acknowledged := []byte(control(KindEventAcknowledged, `{"acknowledged_event_id":"evt_\u0031","subscription_id":"sub_1","cursor":"evt_1:4"}`))
	strict, _ := NewRegistry()
	s.Types = strict
	f := func(what string, want float64, run func()) {
		t.Helper()
		run()
		if got := testing.AllocsPerRun(200, run); got != want {
			t.Errorf("E2: %s: %v allocations, want %v", what, got, want)
		}
	}
	f("scan", 0, func() { _ = s.Scan(text, &e) })
	f("scan escapes", 0, func() { _ = s.Scan(escaped, &e) })
	f("stored form", 0, func() { dst = StoredForm(dst[:0], &e) })
	f("digest", 0, func() { _ = e.Digest() })
	f("attributes", 1, func() { attributes = e.Attributes("") })
	f("read stored", 0, func() { _, _ = s.ReadStored(stored, "") })
	f("delivery", 0, func() { dst = AppendDelivery(dst[:0], stored, &full) })
	f("frame", 0, func() { dst = AppendDeliveryFrame(dst[:0], stored, &full) })
	f("match", 0, func() { _ = filter.Match(&attributes) })
	f("keys", 0, func() { keys = attributes.AppendKeys(keys[:0]) })
	f("acknowledgement", 0, func() {
		_ = s.Scan(acknowledged, &e)
		_ = s.ReadAck(&e, &ack)
	})
	f("acknowledged", 0, func() { dst = author.AppendAcknowledged(dst[:0], e.Answer("s", testNow), "evt_1", 4) })
}

func BenchmarkScan(b *testing.B) {
	for name, text := range map[string][]byte{
		"600": usual(), "16K": []byte(event(`,"metadata":"` + strings.Repeat("x y z ", 2700) + `"`)),
		"escaped": []byte(strings.ReplaceAll(string(usual()), "agent:", `\u0061gent:`)),
	} {
		b.Run(name, func(b *testing.B) {
			var s Scanner
			var e Envelope
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := s.Scan(text, &e); err != nil || len(e.Faults) > 0 {
					b.Fatal(err, e.Faults)
				}
			}
		})
	}
}

func BenchmarkStored(b *testing.B) {
	s, e := admitted(b, string(usual()))
	stored := StoredForm(nil, e)
	dst := make([]byte, 0, 2048)
	for name, run := range map[string]func(){
		"StoredForm":          func() { dst = StoredForm(dst[:0], e) },
		"AppendDelivery":      func() { dst = AppendDelivery(dst[:0], stored, &full) },
		"AppendDeliveryFrame": func() { dst = AppendDeliveryFrame(dst[:0], stored, &full) },
		"ReadStored":          func() { _, _ = s.ReadStored(stored, "") },
		"Digest":              func() { _ = e.Digest() },
		"Attributes":          func() { _ = e.Attributes("") },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(stored)))
			for b.Loop() {
				run()
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	_, e := admitted(b, string(usual()))
	a := e.Attributes("")
	topics := make([]string, MaxFilterValues)
	for i := range topics {
		topics[i] = fmt.Sprintf(`"topic-%d"`, i)
	}
	for name, payload := range map[string]string{
		"all": `{"types":"*"}`, "wide": wideFilter, "exact": `{"types":"tool.call.progress"}`, "star": `{"types":"*.call.*"}`,
		"64 values": `{"topic":[` + strings.Join(topics, ",") + `]}`,
	} {
		f := filterOf(b, payload)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.Match(&a)
			}
		})
	}
	keys := make([]uint64, 0, 16)
	b.Run("keys", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			keys = a.AppendKeys(keys[:0])
		}
	})
}

func BenchmarkAuthor(b *testing.B) {
	a := NewAuthor("r", NewIDs())
	h := Head{Now: testNow, SessionID: "sess_1", CausationID: []byte("evt_1")}
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = a.AppendAcknowledged(dst[:0], h, "evt_1", 42)
	}
}
