package upstream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// ParseUpstream reads a host as an operator writes it: a name, wss:// and a
// name, or ws:// and localhost or 127.0.0.1 with a port. The result is the name
// in lower case, with a port only for this machine's own names, and whether the
// connection is without TLS (F53). The error is ErrBadHostname.
func ParseUpstream(text string) (hostname string, noSSL bool, err error) {
	bad := func(why string) (string, bool, error) {
		return "", false, fmt.Errorf("%w: %.100q: %s", ErrBadHostname, text, why)
	}
	name := strings.ToLower(text)
	if scheme, rest, found := strings.Cut(name, "://"); found {
		if scheme != "ws" && scheme != "wss" {
			return bad("the scheme is not ws or wss")
		}
		name, noSSL = rest, scheme == "ws"
	}
	host, port, hasPort := strings.Cut(name, ":")
	local := host == "localhost" || host == "127.0.0.1"
	switch {
	case !local && !firehose.ValidHandle(host):
		return bad("a host name is needed, without a path")
	case !local && hasPort:
		return bad("only localhost has a port")
	case !local && noSSL:
		return bad("only localhost goes without TLS")
	case noSSL && !hasPort:
		return bad("localhost without TLS needs a port")
	case hasPort && !validPort(port):
		return bad("the port is not 1 to 65535")
	}
	return name, noSSL, nil
}

// validPort reports whether text is a port in its shortest form.
func validPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}
