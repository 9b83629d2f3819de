package serve

import (
	"net/netip"

	"github.com/sluice-relay/sluice/codec/http1"
)

// Gate decides how many connections a client address may have. Its methods are
// called on the loops and must not block.
type Gate interface {
	// Acquire counts a connection of addr and tells whether it may be served.
	Acquire(addr netip.Addr) bool
	// Release ends what Acquire allowed.
	Release(addr netip.Addr)
	// Client returns whom a connection is counted for: peer itself, which is
	// invalid on a Unix socket, or whom a trusted proxy at peer names. forwarded are the X-Forwarded-For values of
	// the request at hand, nil when there is none yet; ok is false when that
	// cannot be told without one.
	Client(peer netip.Addr, forwarded [][]byte) (addr netip.Addr, ok bool)
}

const tooMany = "too many connections from this address"

// admit counts a new connection, or answers it at once. One that comes from a
// trusted proxy is counted with its first request.
func (c *Conn) admit() {
	g := c.w.cfg.Gate
	peer := c.tr.RemoteAddr().Addr()
	if g == nil {
		return
	}
	addr, ok := g.Client(peer, nil)
	if !ok {
		return
	}
	if !g.Acquire(addr) {
		c.w.stats.PerAddress++
		c.sendRefusal(c.w.refusalOf(nil), 429, tooMany)
		c.closeAfterFlush()
		c.afterWrite()
		return
	}
	c.count(addr)
}

// recount counts the connection for the client that the request names, where a
// trusted proxy forwards it. It returns false when that client has too many.
func (c *Conn) recount(h *http1.Head) bool {
	g := c.w.cfg.Gate
	if g == nil {
		return true
	}
	peer := c.tr.RemoteAddr().Addr()
	forwarded := h.Values("X-Forwarded-For")
	if forwarded == nil {
		forwarded = [][]byte{}
	}
	addr, ok := g.Client(peer, forwarded)
	if !ok || addr == c.countedAs() {
		return true
	}
	if !g.Acquire(addr) {
		c.w.stats.PerAddress++
		return false
	}
	c.countNobody()
	c.count(addr)
	return true
}

// count makes addr, already acquired, the one that the connection is counted
// for. Mostly that is the peer, whose address the transport has.
func (c *Conn) count(addr netip.Addr) {
	c.counted = addr.IsValid()
	if c.counted && addr != c.tr.RemoteAddr().Addr() {
		c.client = &addr
	}
}

// countNobody releases whom the connection is counted for.
func (c *Conn) countNobody() {
	if addr := c.countedAs(); addr.IsValid() {
		c.w.cfg.Gate.Release(addr)
	}
	c.counted, c.client = false, nil
}

// countedAs returns whom the Gate has counted, the zero value for nobody.
func (c *Conn) countedAs() netip.Addr {
	if !c.counted {
		return netip.Addr{}
	}
	return c.clientAddr()
}

// ClientAddr returns the address of the client: that of the connection, or the
// one that a trusted proxy names.
func (x *Exchange) ClientAddr() netip.Addr { return x.conn.clientAddr() }

// ClientAddr is Exchange.ClientAddr for a peer.
func (p *Peer) ClientAddr() netip.Addr { return p.c.clientAddr() }

func (c *Conn) clientAddr() netip.Addr {
	if c.client != nil {
		return *c.client
	}
	return c.tr.RemoteAddr().Addr()
}
