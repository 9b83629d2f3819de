package serve

import (
	"bytes"
	"errors"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

// errUpgradeBody tells that a handshake has a body: where the frames would
// begin is then not known (RFC 9110 section 7.8).
var errUpgradeBody = errors.New("upgrade with a request body")

// Upgrade finishes the WebSocket handshake (R300 to R302) and returns the peer,
// or answers with the handshake error, or 503 when the relay goes down, and
// returns nil. It is called inside Handler.Serve.
func (x *Exchange) Upgrade(h SocketHandler) *Peer {
	if !x.Alive() {
		return nil
	}
	head := x.Head
	req := wsframe.UpgradeRequest{
		Method:     head.Method,
		Minor:      int(head.Minor),
		Upgrade:    joined(head, "Upgrade"),
		Connection: joined(head, "Connection"),
		Key:        joined(head, "Sec-WebSocket-Key"),
		Version:    joined(head, "Sec-WebSocket-Version"),
		Protocols:  joined(head, "Sec-WebSocket-Protocol"),
	}
	err := req.Check()
	if err == nil && x.length != 0 {
		err = errUpgradeBody
	}
	if err != nil {
		x.refuseUpgrade(err)
		return nil
	}
	if x.refuseStopping() {
		return nil
	}
	c := x.conn
	c.w.stats.Upgrades++
	protocol := wsframe.FirstSubprotocol(req.Protocols)
	c.w.buf = wsframe.AppendSwitching(c.w.buf[:0], req.Key, protocol)
	x.logAccess(101, 0)
	c.x = nil
	x.lost()
	c.w.freeExchange(x)
	c.dropParser()
	c.clearDeadline(dueBody)
	c.tr.StreamBuffers()
	c.socket = &socket{heardAt: c.w.instantAt(c.w.loop.Now())}
	c.phase = phaseSocket
	p := c.newPeer(h, false)
	c.out.SendBorrowed(c.w.buf)
	return p
}

// joined returns the value of a field. Those of one that is repeated are one
// list (RFC 9110 section 5.3).
func joined(h *http1.Head, name string) []byte {
	if h.HeaderCount(name) < 2 {
		return h.Header(name)
	}
	return bytes.Join(h.Values(name), []byte(","))
}

func (x *Exchange) refuseUpgrade(err error) {
	res := http1.Response{Status: 400, Fields: textFields, Body: append([]byte(err.Error()), '\n')}
	var e *wsframe.HandshakeError
	if errors.As(err, &e) {
		res.Status = e.Status()
		if name, value := e.Header(); name != "" {
			res.Fields = append([]http1.Field{{Name: name, Value: value}}, textFields...)
		}
	}
	x.Respond(&res)
}
