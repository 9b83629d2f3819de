package auth

import (
	"bytes"
	"net/netip"
)

// Loopback reports whether host names this machine (R38): "localhost" or a
// name below it (RFC 6761 section 6.3), an IPv4 address in 127.0.0.0/8, or
// the IPv6 loopback, with or without brackets and also when it is an IPv4
// loopback in IPv6 clothes. host carries no port; case and one trailing dot
// of a name do not matter. Nothing is resolved: a name that DNS or a hosts
// file points to loopback is not a loopback name, since that is what a
// rebinding attack does.
//
// host is borrowed until return. Any goroutine.
func Loopback(host []byte) bool {
	if len(host) == 0 || len(host) > maxHostBytes {
		return false
	}
	if host[0] == '[' || bytes.IndexByte(host, ':') >= 0 {
		return loopbackIPv6(host)
	}
	if loopbackIPv4(host) {
		return true
	}
	host = bytes.TrimSuffix(host, []byte("."))
	const name = "localhost"
	if len(host) < len(name) || !equalFold(host[len(host)-len(name):], name) {
		return false
	}
	below := host[:len(host)-len(name)]
	return len(below) == 0 || (len(below) > 1 && below[len(below)-1] == '.')
}

// maxHostBytes bounds a host before it is looked at: a DNS name has at most
// 253 octets (RFC 1035 section 2.3.4), an address far fewer.
const maxHostBytes = 255

// loopbackIPv4 reports whether host is a dotted quad in 127.0.0.0/8. The
// short and octal forms of inet_aton are not addresses here: browsers
// rewrite them before they send Host or Origin.
func loopbackIPv4(host []byte) bool {
	rest, ok := bytes.CutPrefix(host, []byte("127."))
	for part := 0; ok && part < 3; part++ {
		digits := rest
		if part < 2 {
			digits, rest, ok = bytes.Cut(rest, []byte("."))
		}
		ok = ok && decimalOctet(digits)
	}
	return ok
}

// decimalOctet reports whether b is 0 to 255 without leading zeros.
func decimalOctet(b []byte) bool {
	if len(b) == 0 || len(b) > 3 || (len(b) > 1 && b[0] == '0') {
		return false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 255
}

// loopbackIPv6 reports whether host is an IPv6 loopback literal. The form
// that clients send needs no allocation.
func loopbackIPv6(host []byte) bool {
	if host[0] == '[' {
		if host[len(host)-1] != ']' {
			return false
		}
		host = host[1 : len(host)-1]
	}
	if string(host) == "::1" {
		return true
	}
	addr, err := netip.ParseAddr(string(host))
	return err == nil && addr.Is6() && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// equalFold reports whether a equals b when ASCII case is ignored.
// bytes.EqualFold would also take U+212A, the Kelvin sign, for a "k".
func equalFold[T ~string | ~[]byte](a []byte, b T) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if lowerASCII(c) != lowerASCII(b[i]) {
			return false
		}
	}
	return true
}

// lowerASCII returns the lower-case form of an ASCII letter, and any other
// octet as it is.
func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
