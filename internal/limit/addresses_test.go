package limit

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// numbered returns one of many different IPv4 addresses.
func numbered(i int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 0x0a000000+uint32(i))
	return netip.AddrFrom4(b)
}

// What is one client and what are two.
func TestKey(t *testing.T) {
	f := func(a, b string, same bool) {
		t.Helper()
		if got := keyOf(ip(a)) == keyOf(ip(b)); got != same {
			t.Errorf("%s and %s: same %v, want %v", a, b, got, same)
		}
	}
	f("192.0.2.1", "192.0.2.1", true)
	f("192.0.2.1", "192.0.2.2", false)
	f("192.0.2.1", "::ffff:192.0.2.1", true)
	f("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true)
	f("2001:db8::1", "2001:db8:0:1::1", false)
	f("fe80::1%eth0", "fe80::2%eth1", true)
	f("::1", "127.0.0.1", false)
	f("::1", "0.0.0.0", false)
	f("::", "0.0.0.0", false)
	f("::192.0.2.1", "192.0.2.1", false)
	f("64:ff9b::1", "::1", false)
}

// C54: with a cap of ten the eleventh of one address is refused, and others
// do not feel it.
func TestC54CapPerAddress(t *testing.T) {
	a := NewAddresses(10)
	one, other := ip("2001:db8::1"), ip("192.0.2.1")
	for i := range 10 {
		if !a.Acquire(one) {
			t.Fatalf("refused number %d", i)
		}
	}
	for range 3 {
		if a.Acquire(one) || a.Acquire(ip("2001:db8::2")) {
			t.Fatal("more than the cap")
		}
	}
	if !a.Acquire(other) || !a.Acquire(ip("2001:db8:0:1::1")) {
		t.Error("another address is refused")
	}
	// A refused one holds nothing: one Release makes room for one.
	a.Release(one)
	if !a.Acquire(ip("2001:db8::3")) || a.Acquire(one) {
		t.Error("a release makes room for exactly one")
	}
	for range 10 {
		a.Release(one)
	}
	a.Release(other)
	a.Release(ip("2001:db8:0:1::2"))
	if n := a.Len(); n != 0 {
		t.Errorf("A1: %d entries left", n)
	}
	a.Release(one) // too often
	if n := a.Len(); n != 0 || !a.Acquire(one) {
		t.Errorf("a release too many left %d entries", n)
	}
}

func TestAddressesOff(t *testing.T) {
	for _, most := range []int{0, -1} {
		a := NewAddresses(most)
		for range 100 {
			if !a.Acquire(ip("192.0.2.1")) {
				t.Fatal("refused without a cap")
			}
		}
		a.Release(ip("192.0.2.1"))
		if a.Len() != 0 {
			t.Error("counts without a cap")
		}
	}
	// Peers without an address are not one client.
	a := NewAddresses(1)
	for range 2 {
		if !a.Acquire(netip.Addr{}) {
			t.Error("a peer without an address is refused")
		}
	}
	a.Release(netip.Addr{})
	if a.Len() != 0 {
		t.Error("a peer without an address is counted")
	}
}

// A1: memory goes back when many addresses have left, and what is left is
// still counted.
func TestAddressesShrink(t *testing.T) {
	const many = 10 * shrinkEntries
	a := NewAddresses(1)
	for i := range many {
		a.Acquire(numbered(i))
	}
	if a.Len() != many || a.peak != many {
		t.Fatalf("%d entries, peak %d", a.Len(), a.peak)
	}
	for i := range many - 100 {
		a.Release(numbered(i))
	}
	if a.Len() != 100 || a.peak >= shrinkEntries {
		t.Errorf("%d entries, the table was made for %d", a.Len(), a.peak)
	}
	for i := many - 100; i < many; i++ {
		if a.Acquire(numbered(i)) {
			t.Fatal("A2: a count was lost")
		}
	}
}

// A2 under concurrency: never more than the cap are held, and all comes back.
func TestAddressesConcurrently(t *testing.T) {
	const most = 3
	a := NewAddresses(most)
	var held [4]atomic.Int32
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				who := (g + i) % len(held)
				if !a.Acquire(numbered(who)) {
					continue
				}
				if n := held[who].Add(1); n > most {
					t.Errorf("A2: %d held", n)
				}
				held[who].Add(-1)
				a.Release(numbered(who))
			}
		})
	}
	wg.Wait()
	if n := a.Len(); n != 0 {
		t.Errorf("A1: %d entries left", n)
	}
}

func TestAddressesDoNotAllocate(t *testing.T) {
	a := NewAddresses(10)
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		addr := numbered(i % 64)
		i++
		if !a.Acquire(addr) {
			t.Fatal("refused")
		}
		a.Release(addr)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
