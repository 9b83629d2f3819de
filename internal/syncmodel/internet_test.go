package syncmodel

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// internet is how devices reach sites by the names of their hosts.
type internet struct {
	mu        sync.Mutex
	sites     map[string]*site
	transport *http.Transport
}

func newInternet() *internet {
	n := &internet{sites: map[string]*site{}}
	n.transport = &http.Transport{DialContext: n.dial, DisableCompression: true, MaxIdleConnsPerHost: 16}
	return n
}

func (n *internet) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	s := n.sites[host]
	n.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("syncmodel: no host %s", host)
	}
	to := s.addr.Load()
	if to == nil {
		return nil, errDown
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", *to)
}
