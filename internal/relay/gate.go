package relay

import (
	"net/netip"

	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/limit"
)

// gate implements serve.Gate: connections are counted for the client that a
// trusted proxy names, and for the peer otherwise. Any goroutine.
type gate struct {
	proxies   *limit.Proxies
	addresses *limit.Addresses
}

// newGate returns nil where there is nothing to decide.
func newGate(p *limit.Proxies, a *limit.Addresses) serve.Gate {
	if p == nil && a == nil {
		return nil
	}
	return gate{p, a}
}

// Acquire implements serve.Gate.
func (g gate) Acquire(addr netip.Addr) bool { return g.addresses.Acquire(addr) }

// Release implements serve.Gate.
func (g gate) Release(addr netip.Addr) { g.addresses.Release(addr) }

// Client implements serve.Gate.
func (g gate) Client(peer netip.Addr, forwarded [][]byte) (addr netip.Addr, ok bool) {
	if forwarded == nil && g.proxies.Trusts(peer) {
		return netip.Addr{}, false
	}
	return g.proxies.Client(peer, forwarded), true
}
