package http1

import (
	"bytes"
	"net/netip"
)

// readTarget splits the target into path and query (RFC 9112 section 3.2).
// Origin form, absolute form for http and https, and "*" for OPTIONS are taken;
// authority form is not, because the relay is no proxy. Nothing is decoded and
// no dot segment is removed: paths are compared as sent (R32).
func (h *Head) readTarget() *Error {
	t := h.Target
	if span(t, classTarget) != len(t) || string(h.Method) == "CONNECT" {
		return ErrTarget
	}
	switch {
	case t[0] == '/':
		// A path that begins with "//" is read as an authority by URL parsers:
		// without one it does not parse (W1).
		if len(t) > 1 && t[1] == '/' && !validAuthority(t[2:2+authorityEnd(t[2:])]) {
			return ErrTarget
		}
	case len(t) == 1 && t[0] == '*':
		if string(h.Method) != "OPTIONS" {
			return ErrTarget
		}
	default:
		scheme, rest, ok := bytes.Cut(t, []byte("://"))
		if !ok || !equalFold(scheme, "http") && !equalFold(scheme, "https") {
			return ErrTarget
		}
		n := authorityEnd(rest)
		if !validAuthority(rest[:n]) {
			return ErrTarget
		}
		h.Host, t = rest[:n:n], rest[n:]
	}
	h.Path, h.RawQuery, _ = bytes.Cut(t, []byte("?"))
	if len(h.Path) == 0 { // absolute form without a path
		h.Path = rootPath
	}
	return nil
}

// rootPath is shared and immutable.
var rootPath = []byte("/")

// authorityEnd returns where an authority at the start of b ends.
func authorityEnd(b []byte) int {
	if i := bytes.IndexAny(b, "/?"); i >= 0 {
		return i
	}
	return len(b)
}

// validAuthority tells whether b is host [":" port] (RFC 3986 section 3.2) with
// a host that is not empty and a port of at most 65535, which may be empty.
// User information is refused (RFC 9110 section 4.2.4).
func validAuthority(b []byte) bool {
	n := 0
	if len(b) > 0 && b[0] == '[' {
		n = bytes.IndexByte(b, ']') + 1
		if n == 0 {
			return false
		}
		// Zones name interfaces of the client; "%" is refused with them.
		addr, err := netip.ParseAddr(string(b[1 : n-1]))
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return false
		}
	} else {
		for n < len(b) && b[n] != ':' {
			switch {
			case is(b[n], classHost):
				n++
			case b[n] == '%' && len(b)-n > 2 && unhex(b[n+1]) >= 0 && unhex(b[n+2]) >= 0:
				n += 3
			default:
				return false
			}
		}
	}
	return n > 0 && (n == len(b) || b[n] == ':' && validPort(b[n+1:]))
}

func validPort(b []byte) bool {
	port := 0
	for _, c := range b {
		if !is(c, classDigit) {
			return false
		}
		if port = port*10 + int(c-'0'); port > 65535 {
			return false
		}
	}
	return true
}
