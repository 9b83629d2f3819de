package auth

import (
	"fmt"
	"strconv"
	"testing"
)

func BenchmarkAllow(b *testing.B) {
	for _, count := range []int{1, 2, 1000} {
		b.Run(strconv.Itoa(count)+"tokens", func(b *testing.B) {
			var tokens []string
			for i := range count {
				tokens = append(tokens, fmt.Sprintf("%032d", i))
			}
			a := New(tokens...)
			header := []byte("Bearer " + tokens[0])
			b.ReportAllocs()
			for b.Loop() {
				if !a.Allow(header, "") {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkGuardCheck(b *testing.B) {
	g, err := NewGuard([]string{"https://dash.example"}, false, true)
	if err != nil {
		b.Fatal(err)
	}
	origin, host := []byte("https://dash.example"), []byte("127.0.0.1:8787")
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Check(origin, true, host, true); err != nil {
			b.Fatal(err)
		}
	}
}
