package auth

import "errors"

// Refusals of [Guard.Check]. Their text is the body of the 403 of R38: it
// says which setting would let the request in, and repeats nothing that the
// caller sent.
var (
	ErrOrigin = errors.New("this relay has no token, so it refuses web pages of other origins: " +
		"list the page's origin in AEP_ORIGINS, or set AEP_TOKEN")
	ErrHost = errors.New("this relay is bound to loopback and has no token, so it answers only to loopback host names: " +
		"list an origin with this host in AEP_ORIGINS, or set AEP_TOKEN")
)

// Guard protects a relay without a token from web pages (R38): from pages of
// foreign origins, and, bound to loopback, from names that were rebound to
// it. A nil Guard and one made for "*" allow everything; a relay with a
// token has none, the token is its protection. Immutable; any goroutine.
type Guard struct {
	// immutable after construction
	origins  []origin // listed, normalised
	any      bool     // AEP_ORIGINS=*
	loopback bool     // only loopback addresses are bound
}

// NewGuard returns the guard for the listed origins, which are in the form
// that [ParseOrigins] returns. anyOrigin turns both checks off. loopback
// says that the relay is reachable by loopback addresses only; it turns the
// Host check on. The error is an [*OriginError].
func NewGuard(origins []string, anyOrigin, loopback bool) (*Guard, error) {
	g := &Guard{any: anyOrigin, loopback: loopback}
	for _, text := range origins {
		o, err := parseOrigin([]byte(text))
		if err != nil {
			return nil, &OriginError{Entry: text, Err: err}
		}
		g.origins = append(g.origins, o)
	}
	return g, nil
}

// Check decides whether a request may be served, from the value of its
// Origin header and that of its Host header, which count only where the has
// flag is set. It returns nil, [ErrHost] or [ErrOrigin].
//
// A request without Origin is no web page's and passes that check; one
// without Host (HTTP/1.0) passes the other. An absolute-form target's
// authority replaces Host before this is called (RFC 9112 section 3.2.2).
// Both slices are borrowed until return.
func (g *Guard) Check(origin []byte, hasOrigin bool, host []byte, hasHost bool) error {
	if g == nil || g.any {
		return nil
	}
	if g.loopback && hasHost && !g.hostAllowed(host) {
		return ErrHost
	}
	if hasOrigin && !g.originAllowed(origin, host, hasHost) {
		return ErrOrigin
	}
	return nil
}

// hostAllowed reports whether a Host value names loopback or the host of a
// listed origin, whatever the port.
func (g *Guard) hostAllowed(value []byte) bool {
	host, _, err := splitHost(value)
	if err != nil {
		return false
	}
	if Loopback(host) {
		return true
	}
	for i := range g.origins {
		if equalFold(host, g.origins[i].host) {
			return true
		}
	}
	return false
}

// originAllowed reports whether an Origin value is a loopback page's, equals
// the request's Host, or is listed.
func (g *Guard) originAllowed(value, host []byte, hasHost bool) bool {
	o, err := parseOrigin(value)
	if err != nil {
		return false
	}
	if Loopback(o.host) || (hasHost && o.isHost(host)) {
		return true
	}
	for i := range g.origins {
		if o.equal(&g.origins[i]) {
			return true
		}
	}
	return false
}

// equal reports whether o, as a request sent it, is the listed origin.
func (o *origin) equal(listed *origin) bool {
	return equalFold(o.scheme, listed.scheme) &&
		equalFold(o.host, listed.host) &&
		string(o.port) == string(listed.port)
}

// isHost reports whether a Host value means the host and port of o. A Host
// without a port stands for the port of o's scheme: a proxy that ends TLS
// passes on the Host of an https page.
func (o *origin) isHost(value []byte) bool {
	host, port, err := splitHost(value)
	if err != nil || !equalFold(host, o.host) {
		return false
	}
	if string(port) == defaultPort(o.scheme) {
		port = nil
	}
	return string(port) == string(o.port)
}
