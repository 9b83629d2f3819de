package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultURL is where a relay listens that was started without settings.
const DefaultURL = "http://127.0.0.1:8787"

// ErrURL tells that a relay's address cannot be used.
var ErrURL = errors.New("bad relay URL")

// Relay says where a relay is and how it is spoken to. Immutable.
type Relay struct {
	// Base is the relay's URL without a path's last slash. It may have a path,
	// if a proxy puts the relay below one.
	Base *url.URL
	// Token is the bearer token, "" for none. It is sent as a header, never in
	// a URL.
	Token string
	// HTTP has no overall timeout, since a stream has no end; requests that are
	// to end carry a context.
	HTTP *http.Client

	socket string // path of a Unix socket, "" for TCP
}

// New returns the relay at an http, https or unix URL (unix:/path). A host
// without a scheme is taken as http. The error is ErrURL.
func New(address, token string) (*Relay, error) {
	if address == "" {
		address = DefaultURL
	}
	r := &Relay{Token: token}
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		r.socket, address = path, "http://localhost"
	} else if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if parse, ok := errors.AsType[*url.Error](err); ok {
		err = parse.Err // without the address: it may hold a secret
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%w: %q is not http or https", ErrURL, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: %q has no host", ErrURL, plain(u))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%w: %q has more than a host and a path", ErrURL, plain(u))
	}
	u.Path = strings.TrimRight(u.Path, "/")
	r.Base = u
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	r.HTTP = &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		MaxIdleConnsPerHost:   4,
		DisableCompression:    true, // a compressing proxy would delay a stream
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if r.socket != "" {
				return dialer.DialContext(ctx, "unix", r.socket)
			}
			return dialer.DialContext(ctx, network, addr)
		},
	}}
	return r, nil
}

// plain returns a URL for an error, without what may hold a secret.
func plain(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Local tells whether the relay is on this machine, by its address.
func (r *Relay) Local() bool {
	host := r.Base.Hostname()
	ip := net.ParseIP(host)
	return r.socket != "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

// String returns the relay's address for people.
func (r *Relay) String() string {
	if r.socket != "" {
		return "unix:" + r.socket
	}
	return r.Base.String()
}

// URL returns the address of one of the relay's paths.
func (r *Relay) URL(path string, query url.Values) string {
	u := *r.Base
	u.Path += path
	u.RawQuery = query.Encode()
	return u.String()
}

// Request makes a request with the headers that each one needs.
func (r *Relay) Request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.URL(path, query), body)
	if err != nil {
		return nil, err
	}
	r.authorize(req.Header)
	req.Header.Set("AEP-Version", "0.1")
	return req, nil
}

// Header returns the headers of a WebSocket handshake.
func (r *Relay) Header() http.Header {
	h := http.Header{}
	r.authorize(h)
	return h
}

func (r *Relay) authorize(h http.Header) {
	if r.Token != "" {
		h.Set("Authorization", "Bearer "+r.Token)
	}
}
