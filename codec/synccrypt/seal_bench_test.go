package synccrypt

import (
	"fmt"
	"strings"
	"testing"
)

// benchRow is a payload whose row has about size bytes.
func benchRow(size int) *Payload {
	row := `{"done":false,"notes":"` + strings.Repeat("some words ", (size-60)/11) + `","title":"a title","version":12}`
	return &Payload{SchemaVersion: 1, Table: "todo", ID: "0190a1b2-c3d4-7000-8000-000000000001", HLC: someHLC, Row: []byte(row)}
}

func BenchmarkSeal(b *testing.B) {
	id := identity(b, goodPhrase)
	for _, size := range []int{200, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := benchRow(size)
			dst := make([]byte, 0, 4*size+4096)
			b.SetBytes(int64(len(p.Row)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := id.Seal(dst, p, "device-a", someTime, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	id := identity(b, goodPhrase)
	for _, size := range []int{200, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := benchRow(size)
			envelope := sealPayload(b, id, p)
			dst := make([]byte, 0, 4*size+4096)
			b.SetBytes(int64(len(p.Row)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := id.Open(dst, envelope); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkOpenPayload is what a pull does for each event.
func BenchmarkOpenPayload(b *testing.B) {
	id := identity(b, goodPhrase)
	for _, size := range []int{200, 4096} {
		p := benchRow(size)
		envelope := sealPayload(b, id, p)
		open := func(b *testing.B) {
			if _, _, _, err := id.OpenPayload(envelope); err != nil {
				b.Error(err)
			}
		}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(p.Row)))
			b.ReportAllocs()
			for b.Loop() {
				open(b)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
		b.Run(fmt.Sprint(size, "-parallel"), func(b *testing.B) {
			b.SetBytes(int64(len(p.Row)))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					open(b)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"sorted", string(benchRow(4096).Row)},
		{"unsorted", `{"z":{"y":1,"x":[1,2,3]},"b":"\u00e9\n","a":"` + strings.Repeat("é ", 100) + `","0":null}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			src := []byte(c.text)
			dst := make([]byte, 0, len(src))
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Canonical(dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkChunk(b *testing.B) {
	id := identity(b, goodPhrase)
	plain := make([]byte, ChunkBytes)
	sealed, err := id.SealChunk(nil, plain, "b", 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, len(sealed))
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"seal", func() error { _, err := id.SealChunk(dst, plain, "b", 0, nil); return err }},
		{"open", func() error { _, err := id.OpenChunk(dst, sealed, "b", 0); return err }},
		{"hash", func() error { ChunkHash(sealed); return nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(ChunkBytes)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
