package device

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/internal/client"
)

// RelayURL returns the spelling of a relay's address that a device keeps, so
// that a relay is not there twice: without a last slash, the host in lower case,
// without a port that goes without saying. The path of a Unix socket is made
// absolute, since the next command may run elsewhere; a name that begins with @
// is no path. The error is client.ErrURL.
func RelayURL(address string) (string, error) {
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		return socketURL(path)
	}
	r, err := client.New(address, "")
	if err != nil {
		return "", err
	}
	u := *r.Base
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return "", fmt.Errorf("%w: port %s is not 1 to 65535", client.ErrURL, port)
		}
		port = strconv.FormatUint(n, 10)
	}
	switch {
	case port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme]:
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	return u.String(), nil
}

// socketURL is RelayURL of a Unix socket.
func socketURL(path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("%w: unix: has no path", client.ErrURL)
	}
	if path[0] == '@' {
		return "unix:" + path, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", client.ErrURL, err)
	}
	return "unix:" + path, nil
}
