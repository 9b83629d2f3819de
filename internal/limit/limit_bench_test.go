package limit

import (
	"net/netip"
	"testing"
	"time"
)

func BenchmarkAddresses(b *testing.B) {
	a := NewAddresses(100)
	for i := range 10_000 {
		a.Acquire(numbered(i))
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			addr := numbered(i & 0x3fff)
			i++
			a.Acquire(addr)
			a.Release(addr)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				addr := numbered(i & 0x3fff)
				a.Acquire(addr)
				a.Release(addr)
			}
		})
	})
}

func BenchmarkRate(b *testing.B) {
	now := time.Now()
	addrs := make([]netip.Addr, 1<<17)
	for i := range addrs {
		addrs[i] = numbered(i)
	}
	run := func(name string, known int) {
		r := NewRate(1000, 2000, now)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.Allow(addrs[i&(known-1)], 1, now)
				i++
			}
		})
	}
	run("one-address", 1)
	run("16384-addresses", 1<<14)
	run("forgetting", 1<<17) // twice the table: each call drops one and makes one
	b.Run("parallel", func(b *testing.B) {
		r := NewRate(1000, 2000, now)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				r.Allow(addrs[i&0x3fff], 1, now)
			}
		})
	})
}

func BenchmarkClient(b *testing.B) {
	run := func(name string, list []string, peer, header string) {
		p, err := NewProxies(list)
		if err != nil {
			b.Fatal(err)
		}
		addr, lines := ip(peer), [][]byte{[]byte(header)}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Client(addr, lines)
			}
		})
	}
	run("untrusted", []string{"10.0.0.0/8"}, "192.0.2.1", "198.51.100.7")
	run("one-hop", []string{"10.0.0.0/8"}, "10.0.0.1", "198.51.100.7")
	run("ipv6-behind-three", []string{"10.0.0.0/8", "2001:db8::/32"}, "10.0.0.1",
		"203.0.113.9, [2a00::1]:4711, 2001:db8::7, 10.1.2.3:80")
}
