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
	return x.UpgradeWith(h, UpgradeOptions{Protocol: wsframe.FirstSubprotocol})
}

// UpgradeOptions say what the answer to a WebSocket handshake holds.
type UpgradeOptions struct {
	// Protocol chooses the subprotocol from the value of Sec-WebSocket-Protocol,
	// "" for none; nil for none at all.
	Protocol func(offered []byte) string
	// Fields are added to the answer of a handshake that succeeds.
	Fields []http1.Field
	// Refuse answers a handshake that fails: with the status, why, and a field
	// that the answer must have, unless its name is empty. Nil for a plain text.
	Refuse func(x *Exchange, status int, why string, field http1.Field)
	// Whole refuses messages in fragments with wsframe.ErrFragmented.
	Whole bool
}

// UpgradeWith is Upgrade with options.
func (x *Exchange) UpgradeWith(h SocketHandler, o UpgradeOptions) *Peer {
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
		x.refuseUpgrade(err, o.Refuse)
		return nil
	}
	if x.refuseStopping() {
		return nil
	}
	c := x.conn
	c.w.stats.Upgrades++
	protocol := ""
	if o.Protocol != nil {
		protocol = o.Protocol(req.Protocols)
	}
	c.w.buf = wsframe.AppendSwitching(c.w.buf[:0], req.Key, protocol)
	if len(o.Fields) > 0 {
		c.w.buf = http1.AppendFields(c.w.buf[:len(c.w.buf)-len("\r\n")], o.Fields)
		c.w.buf = append(c.w.buf, "\r\n"...)
	}
	x.logAccess(101, 0)
	c.x = nil
	x.lost()
	c.w.freeExchange(x)
	c.dropParser()
	c.clearDeadline(dueBody)
	c.tr.StreamBuffers()
	c.socket = &socket{heardAt: c.w.instantAt(c.w.loop.Now()), whole: o.Whole}
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

func (x *Exchange) refuseUpgrade(err error, refuse func(*Exchange, int, string, http1.Field)) {
	status, field := 400, http1.Field{}
	var e *wsframe.HandshakeError
	if errors.As(err, &e) {
		status = e.Status()
		field.Name, field.Value = e.Header()
	}
	if refuse != nil {
		refuse(x, status, err.Error(), field)
		return
	}
	res := http1.Response{Status: status, Fields: textFields, Body: append([]byte(err.Error()), '\n')}
	if field.Name != "" {
		res.Fields = append([]http1.Field{field}, textFields...)
	}
	x.Respond(&res)
}
