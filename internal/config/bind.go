package config

import (
	"net"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/internal/auth"
)

// unixPrefix begins the value of AEP_HOST that names a Unix socket.
const unixPrefix = "unix:"

// ListenAddrs returns the addresses to bind, as host:port or unix:path (R13):
// the configured one; every interface when only a token is set; else
// localhost, which means both loopback addresses, the second where the
// machine has it, on the same port. A Unix socket has no port.
func (c Config) ListenAddrs() []string {
	port := strconv.Itoa(c.Port)
	switch {
	case c.Unix():
		return []string{c.Host}
	case c.Host != "":
		return []string{net.JoinHostPort(c.Host, port)}
	case c.HasToken():
		return []string{":" + port}
	default:
		return []string{net.JoinHostPort("localhost", port)}
	}
}

// Unix reports whether the relay listens on a Unix socket. Its peers have no
// address.
func (c Config) Unix() bool { return strings.HasPrefix(c.Host, unixPrefix) }

// Loopback reports whether only this machine reaches the relay (R13, R38): the
// bind address is a loopback name or address, or a Unix socket, whose file
// mode says who may connect. A name other than localhost counts as reachable,
// since it is not resolved here.
func (c Config) Loopback() bool {
	if c.Host == "" {
		return !c.HasToken()
	}
	return c.Unix() || auth.Loopback([]byte(c.Host))
}

// HostCheck reports whether a relay without a token is to check Host (R38):
// when it is bound to loopback addresses, where a browser may end up by a name
// that was rebound to them. No name leads a browser to a Unix socket. What
// does is a proxy, which knows by itself which names it serves, and they are
// seldom loopback names. The check of Origin stays on there.
func (c Config) HostCheck() bool { return c.Loopback() && !c.Unix() }

// Exposed reports whether a relay without a token is bound beyond this
// machine, which deserves a warning at start (R13).
func (c Config) Exposed() bool { return !c.HasToken() && !c.Loopback() }

// HasToken reports whether requests need a token: there is one, or a file of
// some.
func (c Config) HasToken() bool { return c.Token.IsSet() || c.TokenFile != "" }

// Tokens returns all tokens that are valid now: the one of AEP_TOKEN and those
// that the token file has at the moment of the call. Without either it is
// empty. The error is a [*VariableError] around an [*auth.TokenFileError].
// Reads the file, so not for a loop.
func (c Config) Tokens() ([]string, error) {
	var tokens []string
	if c.Token.IsSet() {
		tokens = append(tokens, c.Token.Reveal())
	}
	if c.TokenFile == "" {
		return tokens, nil
	}
	more, err := auth.ReadTokenFile(c.TokenFile)
	if err != nil {
		return nil, &VariableError{Env: EnvTokenFile, Err: err}
	}
	return append(tokens, more...), nil
}
