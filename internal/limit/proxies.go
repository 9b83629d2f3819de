package limit

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unsafe"
)

const (
	// maxProxies bounds the list of trusted proxies, which is searched from
	// start to end; the largest public lists have some hundred entries.
	maxProxies = 1000
	// maxHops bounds how many addresses of a header are looked at. Real chains
	// have fewer than ten.
	maxHops = 64
	// maxAddrBytes is the length of the longest textual address with
	// brackets and port.
	maxAddrBytes = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535")
)

// UnixPeer is the list entry that means every peer on a Unix socket.
const UnixPeer = "unix"

// Causes of a [ProxyError].
var (
	ErrProxyEntry  = errors.New("not an IP address, a range such as 10.0.0.0/8, or unix")
	ErrProxyZone   = errors.New("an address with a zone cannot be a proxy's")
	ErrProxyMapped = errors.New("write the IPv4 range itself")
	ErrProxyCount  = fmt.Errorf("more than %d entries", maxProxies)
)

// ProxyError is the error of an entry that names no proxy.
type ProxyError struct {
	Entry string // as written
	Err   error  // what is wrong with it
}

// Error implements error with one line.
func (e *ProxyError) Error() string {
	const most = 64
	entry := e.Entry
	if len(entry) > most {
		entry = entry[:most] + "..."
	}
	return strconv.Quote(entry) + " is no proxy: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ProxyError) Unwrap() error { return e.Err }

// ParseProxies reads a comma list of trusted proxies: IP addresses, ranges in
// CIDR form, and the word unix for every peer on a Unix socket. White space
// around an entry and empty entries are forgiven. The entries come back
// normalised: a range without host bits, IPv4 in its own form. The error is a
// [*ProxyError]. Any goroutine.
func ParseProxies(list string) ([]string, error) {
	var entries []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if len(entries) == maxProxies {
			return nil, &ProxyError{Entry: entry, Err: ErrProxyCount}
		}
		if strings.EqualFold(entry, UnixPeer) {
			entries = append(entries, UnixPeer)
			continue
		}
		p, err := parsePrefix(entry)
		if err != nil {
			return nil, &ProxyError{Entry: entry, Err: err}
		}
		if p.IsSingleIP() {
			entries = append(entries, p.Addr().String())
		} else {
			entries = append(entries, p.String())
		}
	}
	return entries, nil
}

// parsePrefix reads an address or a range.
func parsePrefix(entry string) (netip.Prefix, error) {
	if strings.Contains(entry, "%") {
		return netip.Prefix{}, ErrProxyZone
	}
	if addr, err := netip.ParseAddr(entry); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(entry)
	switch {
	case err != nil:
		return netip.Prefix{}, ErrProxyEntry
	case p.Addr().Is4In6():
		return netip.Prefix{}, ErrProxyMapped
	}
	return p.Masked(), nil
}

// Proxies knows the proxies whose word on a client's address counts. A nil
// Proxies trusts nobody. Immutable; any goroutine.
type Proxies struct {
	// immutable after construction
	trusted []netip.Prefix
	unix    bool // peers on Unix sockets
}

// NewProxies returns the proxies of a list as [ParseProxies] returns it. An
// empty list is nil. The error is a [*ProxyError].
func NewProxies(list []string) (*Proxies, error) {
	if len(list) == 0 {
		return nil, nil
	}
	p := &Proxies{}
	for _, entry := range list {
		if entry == UnixPeer {
			p.unix = true
			continue
		}
		prefix, err := parsePrefix(entry)
		if err != nil {
			return nil, &ProxyError{Entry: entry, Err: err}
		}
		p.trusted = append(p.trusted, prefix)
	}
	return p, nil
}

// Client returns the address of the client behind a connection (X1): that of
// the peer, or, if the peer is a trusted proxy, what the proxies wrote into
// X-Forwarded-For. peer is the other end of the connection, invalid for a
// Unix socket; forwardedFor has the values of the header lines in the order
// in which they came.
//
// The addresses are read from the right, where the nearest proxy wrote. The
// first that is not trusted is the client; what is left of it may be invented
// and is not looked at. If all are trusted it is the leftmost, and an entry
// that is no address ends the search with the last good one. A port after an
// address and brackets around it are taken off. The result has no zone and is
// IPv4 where it can be; it is invalid only if peer is and nothing was found.
//
// forwardedFor is borrowed until return. Does not allocate, unless an entry is
// no address.
func (p *Proxies) Client(peer netip.Addr, forwardedFor [][]byte) netip.Addr {
	client := peer.Unmap().WithZone("")
	hops := 0
	for line := len(forwardedFor) - 1; line >= 0; line-- {
		for rest, more := forwardedFor[line], true; more; {
			if hops == maxHops || !p.Trusts(client) {
				return client
			}
			hops++
			entry := rest
			comma := bytes.LastIndexByte(rest, ',')
			if more = comma >= 0; more {
				rest, entry = rest[:comma], rest[comma+1:]
			}
			entry = bytes.Trim(entry, " \t")
			if len(entry) == 0 {
				continue // an empty list element (RFC 9110 section 5.6.1.2)
			}
			addr, ok := parseHop(entry)
			if !ok {
				return client
			}
			client = addr
		}
	}
	return client
}

// Trusts reports whether the word of a peer counts.
func (p *Proxies) Trusts(peer netip.Addr) bool {
	if p == nil {
		return false
	}
	if !peer.IsValid() {
		return p.unix
	}
	for i := range p.trusted {
		if p.trusted[i].Contains(peer) {
			return true
		}
	}
	return false
}

// parseHop reads an address with or without brackets and port. A zone is no
// part of an address that another machine can mean. entry is borrowed until
// return.
func parseHop(entry []byte) (netip.Addr, bool) {
	if len(entry) > maxAddrBytes || bytes.IndexByte(entry, '%') >= 0 {
		return netip.Addr{}, false
	}
	text, bracketed := bytes.CutPrefix(entry, []byte("["))
	var port []byte
	withPort := false
	if bracketed {
		var closed bool
		if text, port, closed = bytes.Cut(text, []byte("]")); !closed {
			return netip.Addr{}, false
		}
		if len(port) > 0 {
			if port, withPort = bytes.CutPrefix(port, []byte(":")); !withPort {
				return netip.Addr{}, false
			}
		}
	} else if bytes.Count(text, []byte(":")) == 1 {
		text, port, withPort = bytes.Cut(text, []byte(":"))
	}
	if withPort && !validPort(port) || len(text) == 0 {
		return netip.Addr{}, false
	}
	// A conversion would allocate, since the text is part of the error. An
	// address without a zone keeps nothing of it, and the error is dropped.
	addr, err := netip.ParseAddr(unsafe.String(&text[0], len(text)))
	if err != nil || bracketed && !addr.Is6() {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// validPort checks for up to five digits: the number is not used, but what
// has another form may not be what it seems.
func validPort(port []byte) bool {
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(port) > 0 && len(port) <= 5
}
