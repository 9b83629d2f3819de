package limit

import "net/netip"

// key is what an address is counted by: 16 bytes, an IPv4 address in its
// IPv6-mapped form, an IPv6 address cut to its /64. The two never meet: the
// lower half of the first is not zero, that of the second is.
type key [16]byte

// keyOf returns the key of a valid address. Its zone does not count.
func keyOf(addr netip.Addr) key {
	k := key(addr.As16())
	if addr.Is6() && !addr.Is4In6() {
		clear(k[8:])
	}
	return k
}
