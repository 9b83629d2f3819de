package auth

import (
	"bytes"
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// Errors of origin parsing. Callers that report them add the text.
var (
	errOriginScheme = errors.New("no scheme: write it as in https://dash.example")
	errOriginHost   = errors.New("no valid host after the scheme")
	errOriginPort   = errors.New("the port is not a number from 1 to 65535")
	errOriginTail   = errors.New("an origin has no user, path or query: only scheme, host and port")
)

// origin is a parsed web origin (RFC 6454 section 4), or a view of one that
// a request sent. In a listed origin all parts are lower case.
type origin struct {
	scheme []byte
	host   []byte // IPv6 with its brackets
	port   []byte // decimal digits, empty for the scheme's own
}

// ParseOrigins reads the value of AEP_ORIGINS (R38): a comma list of web
// origins such as https://dash.example or http://host:8080, or one "*".
// White space around an entry, empty entries and one trailing slash are
// forgiven. The origins come back normalised: lower case, without the port
// that their scheme implies. anyOrigin is true for "*", and then the list is
// empty. The error names the entry; any goroutine.
func ParseOrigins(list string) (origins []string, anyOrigin bool, err error) {
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		switch entry {
		case "":
			continue
		case "*":
			anyOrigin = true
			continue
		}
		text := strings.ToLower(entry)
		if !strings.HasSuffix(text, "//") {
			text = strings.TrimSuffix(text, "/")
		}
		o, err := parseOrigin([]byte(text))
		if err != nil {
			return nil, false, &OriginError{Entry: entry, Err: err}
		}
		origins = append(origins, o.String())
	}
	if anyOrigin {
		if len(origins) > 0 {
			return nil, false, &OriginError{Entry: "*", Err: errors.New("stands alone: it already allows every origin")}
		}
		return nil, true, nil
	}
	return origins, false, nil
}

// OriginError is the error of an entry that is no web origin.
type OriginError struct {
	Entry string // as written
	Err   error  // what is wrong with it
}

// Error implements error with one line.
func (e *OriginError) Error() string {
	return quoteShort(e.Entry) + " is not a web origin: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *OriginError) Unwrap() error { return e.Err }

// String returns the serialisation of RFC 6454 section 6.2.
func (o origin) String() string {
	s := string(o.scheme) + "://" + string(o.host)
	if len(o.port) > 0 {
		s += ":" + string(o.port)
	}
	return s
}

// parseOrigin reads scheme "://" host [":" port]. The parts point into text,
// which is borrowed by the result. An opaque origin ("null", RFC 6454
// section 6.1) has no scheme and is an error. The scheme's own port is left
// out. Does not allocate unless the host is IPv6.
func parseOrigin(text []byte) (origin, error) {
	scheme, rest, found := bytes.Cut(text, []byte("://"))
	if !found || !validScheme(scheme) {
		return origin{}, errOriginScheme
	}
	if bytes.ContainsAny(rest, "/?#@\\") {
		return origin{}, errOriginTail
	}
	host, port, err := splitHost(rest)
	if err != nil {
		return origin{}, err
	}
	if string(port) == defaultPort(scheme) {
		port = nil
	}
	return origin{scheme: scheme, host: host, port: port}, nil
}

// splitHost takes host [":" port] apart, as Host headers (RFC 9110 section
// 7.2) and origins write it. The host keeps the brackets of IPv6. An empty
// port after the colon is the same as none (RFC 3986 section 3.2.3).
func splitHost(text []byte) (host, port []byte, err error) {
	host = text
	// In brackets every colon before the last "]" belongs to the address.
	if i := bytes.LastIndexByte(text, ':'); i > bytes.LastIndexByte(text, ']') {
		host, port = text[:i], text[i+1:]
	}
	if !validHost(host) {
		return nil, nil, errOriginHost
	}
	if len(port) > 0 && !validPort(port) {
		return nil, nil, errOriginPort
	}
	return host, port, nil
}

// defaultPort returns the port that a scheme implies, "" when none is known.
func defaultPort(scheme []byte) string {
	switch {
	case equalFold(scheme, "http"):
		return "80"
	case equalFold(scheme, "https"):
		return "443"
	}
	return ""
}

// validScheme checks RFC 3986 section 3.1.
func validScheme(scheme []byte) bool {
	for i, c := range scheme {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		other := c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return len(scheme) > 0
}

// validHost accepts a bracketed IPv6 address or a run of the octets that
// names, IPv4 addresses and extension ids are made of.
func validHost(host []byte) bool {
	if len(host) == 0 || len(host) > maxHostBytes {
		return false
	}
	if host[0] == '[' {
		if string(host) == "[::1]" {
			return true
		}
		if host[len(host)-1] != ']' {
			return false
		}
		addr, err := netip.ParseAddr(string(host[1 : len(host)-1]))
		return err == nil && addr.Is6() && addr.Zone() == ""
	}
	for _, c := range host {
		alnum := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !alnum && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// validPort checks for 1 to 65535 in plain decimal.
func validPort(port []byte) bool {
	n := 0
	for _, c := range port {
		if c < '0' || c > '9' || n > 65535 {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n >= 1 && n <= 65535 && port[0] != '0'
}

// quoteShort quotes a text for an error line and cuts it to a bound.
func quoteShort(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}
