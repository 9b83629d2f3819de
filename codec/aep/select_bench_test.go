package aep

import "testing"

func BenchmarkMatch(b *testing.B) {
	e := mustAdmit(b, sampleEvent)
	f, err := ParseFilter([]byte(sampleFilter))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !f.Match(e) {
			b.Fatal("no match")
		}
	}
}

func BenchmarkAppendKeys(b *testing.B) {
	e := mustAdmit(b, sampleEvent)
	keys := make([]uint64, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		keys = e.AppendKeys(keys[:0])
	}
}

func BenchmarkAppendDownlevel(b *testing.B) {
	e := mustAdmit(b, sampleEvent)
	dst := make([]byte, 0, 4096)
	for _, to := range []Level{LevelNone, LevelMetadata} {
		b.Run(to.String(), func(b *testing.B) {
			b.SetBytes(int64(len(e.Text())))
			b.ReportAllocs()
			for b.Loop() {
				dst = e.AppendDownlevel(dst[:0], to)
			}
		})
	}
}

func BenchmarkParseFilter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseFilter([]byte(sampleFilter)); err != nil {
			b.Fatal(err)
		}
	}
}
