package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

const (
	maxAddrs     = 8 // of a name that are tried
	expiryNotice = 14 * 24 * time.Hour
)

// checkAddress looks the name up and connects to what it stands for.
func (d *doctor) checkAddress(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if path, unix := strings.CutPrefix(d.Relay.String(), "unix:"); unix {
		return d.connect(ctx, "unix", []string{path})
	}
	request := &http.Request{URL: d.Relay.Base}
	if via, err := http.ProxyFromEnvironment(request); err == nil && via != nil {
		return warn("connections go through the HTTP proxy "+quote(via.Redacted()),
			"what follows is about that proxy too; unset HTTP_PROXY and HTTPS_PROXY, or set NO_PROXY, to leave it out")
	}
	host, port := d.Relay.Base.Hostname(), d.Relay.Base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[d.Relay.Base.Scheme]
	}
	names, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		d.dead = "the name is not known"
		return fail(fmt.Sprintf("the name %s is not known: %s", quote(host), quote(err.Error())),
			"check the spelling, and the DNS of this machine")
	}
	var addrs []string
	for _, name := range names[:min(len(names), maxAddrs)] {
		addrs = append(addrs, net.JoinHostPort(name, port))
	}
	return d.connect(ctx, "tcp", addrs)
}

// connect tries all addresses. One that answers is enough to go on.
func (d *doctor) connect(ctx context.Context, network string, addrs []string) finding {
	var good, bad []string
	var last error
	var dialer net.Dialer
	var took time.Duration
	for i, addr := range addrs {
		// Each has its share of what time is left.
		deadline, _ := ctx.Deadline()
		one, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addrs)-i))
		begin := time.Now()
		c, err := dialer.DialContext(one, network, addr)
		cancel()
		if err != nil {
			bad, last = append(bad, quote(addr)), err
			continue
		}
		took = time.Since(begin)
		good = append(good, quote(addr))
		_ = c.Close()
	}
	switch {
	case len(good) == 0:
		d.dead = "the relay cannot be reached"
		return fail(strings.Join(bad, ", ")+": "+reason(last).Error(), adviceDial(last, d.Relay.Local()))
	case len(bad) > 0 && !d.Relay.Local():
		return warn(fmt.Sprintf("%s answers, %s does not: %s", strings.Join(good, ", "), strings.Join(bad, ", "), reason(last)),
			"clients that try the dead address first are slow: have the relay or its proxy listen on it, or take it out of the DNS")
	}
	return ok("%s answers, %v to connect", strings.Join(good, ", "), took.Round(10*time.Microsecond))
}

func adviceDial(err error, local bool) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket: is the relay running, with AEP_HOST=unix:/path?"
	case errors.Is(err, syscall.EACCES):
		return "this user may not open the socket: see its owner and mode"
	case errors.Is(err, syscall.ECONNREFUSED) && local:
		return "nothing listens there: start the relay (sluice serve), or give its port"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is the relay running and bound to this address (AEP_HOST, AEP_PORT)?"
	}
	return "no way there: check the address, routes and firewalls"
}

// checkTLS makes a handshake and looks at the certificate.
func (d *doctor) checkTLS(ctx context.Context) finding {
	if d.Relay.Base.Scheme != "https" {
		if d.Relay.Local() {
			return ok("none, and the relay is on this machine")
		}
		return warn("none: token and events cross the network in the clear",
			"put a proxy with TLS in front (docs/deploy), and give an https URL")
	}
	a, err := d.askRaw(ctx)
	if err != nil {
		d.dead = "there is no TLS connection"
		return fail("no TLS connection: "+reason(err).Error(), adviceTLS(err))
	}
	state := a.full.TLS
	if state == nil || len(state.PeerCertificates) == 0 {
		d.dead = "there is no TLS connection"
		return fail("the answer came without TLS", "give an https URL of a port that speaks TLS")
	}
	end := state.PeerCertificates[0].NotAfter
	seen := fmt.Sprintf("%s, certificate valid until %s", tls.VersionName(state.Version), end.UTC().Format("2006-01-02 15:04 MST"))
	if left := time.Until(end); left < expiryNotice {
		return warn(fmt.Sprintf("%s: %.1f days", seen, left.Hours()/24), "renew the certificate now, and see why it was not renewed by itself")
	}
	return ok("%s", seen)
}

// askRaw asks for the health with the error as net/http gives it.
func (d *doctor) askRaw(ctx context.Context) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	request, err := d.Relay.Request(ctx, http.MethodGet, "/healthz", nil, nil)
	if err != nil {
		return nil, err
	}
	response, err := d.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return &answer{status: response.StatusCode, header: response.Header, full: response}, nil
}

func adviceTLS(err error) string {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the certificate; if it is fresh, the clock of this machine is wrong"
	case errors.As(err, &unknown):
		return "no authority that this machine knows has signed it: serve the whole chain, or name your authority in SSL_CERT_FILE"
	case errors.As(err, &host):
		return "the certificate is for another name: use that name, or get one for this"
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response"):
		return "the port does not speak TLS: use http://, or the port of the proxy that does"
	}
	return "check the TLS configuration of the proxy in front"
}
