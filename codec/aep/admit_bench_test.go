package aep

import (
	"fmt"
	"strings"
	"testing"
)

// benchTexts are events of the sizes that the relay is measured with.
func benchTexts() []struct {
	name string
	text []byte
} {
	const small = `{"aep":"0.1","id":"01JX9YB2Z1QK","type":"progress.status",` +
		`"time":"2026-07-03T10:15:03Z","source":"aep://h/agent/a","agent":"a",` +
		`"session":"s_8f2c","seq":2,"data":{"status":"working on it"}}`
	const medium = `{"aep":"0.1","id":"01JX9YB3P4T90000000000GOLD",` +
		`"type":"tool.completed","subject":"Bash",` +
		`"time":"2026-07-03T10:15:04.221Z",` +
		`"source":"aep://host-a/agent/claude-code/session/s_8f2c",` +
		`"agent":"claude-code","session":"s_8f2c","run":"r_0042",` +
		`"step":"turn-3","seq":3,"epoch":0,` +
		`"cause":"01JX9YB2Z1QK0000000000GOLD","severity":"info",` +
		`"capture":"metadata","acmeregion":"eu-1","acmeshard":12,` +
		`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",` +
		`"data":{"tool":{"name":"Bash","call_id":"t_91"},"status":"success",` +
		`"duration_ms":1240,"gen_ai.usage.input_tokens":142,` +
		`"gen_ai.usage.output_tokens":87,"ok":true}}`
	var large strings.Builder
	large.WriteString(strings.TrimSuffix(medium, "}}"))
	large.WriteString(`,"documents":[`)
	for i := 0; large.Len() < 16<<10-250; i++ {
		if i > 0 {
			large.WriteByte(',')
		}
		fmt.Fprintf(&large, `{"id":%d,"score":0.%d,"content":"%s\n“%s”"}`, i, i+1,
			strings.Repeat("the quick brown fox ", 7), "déjà vu")
	}
	large.WriteString(`]}}`)
	return []struct {
		name string
		text []byte
	}{
		{"200B", []byte(small)},
		{"600B", []byte(medium)},
		{"16KiB", []byte(large.String())},
	}
}

func BenchmarkScan(b *testing.B) {
	for _, c := range benchTexts() {
		b.Run(c.name, func(b *testing.B) {
			var s Scanner
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				if err := s.Scan(c.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkScanEvent(b *testing.B) {
	for _, c := range benchTexts() {
		b.Run(c.name, func(b *testing.B) {
			var s Scanner
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				if err := s.Scan(c.text); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Event(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	var s Scanner
	if err := s.Scan(benchTexts()[1].text); err != nil {
		b.Fatal(err)
	}
	e, err := s.Event()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"type", "severity", "acmeshard", "absent"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Lookup(name)
			}
		})
	}
}

func BenchmarkParseInteger(b *testing.B) {
	for _, raw := range []string{"5", "1842", "5.0", "12e3", "1e1000000000"} {
		b.Run(raw, func(b *testing.B) {
			number := []byte(raw)
			b.ReportAllocs()
			for b.Loop() {
				ParseInteger(number)
			}
		})
	}
}
