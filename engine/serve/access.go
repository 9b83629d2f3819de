package serve

import (
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
)

// note is what the access log needs of a request after its head is gone: never
// the query, which may hold a token (R15).
type note struct {
	method, path string
	at           time.Time
}

// note keeps what the access log needs, where there is one.
func (x *Exchange) note(h *http1.Head) {
	if x.conn.w.cfg.AccessLog {
		x.noted = &note{string(h.Method), string(h.Path), x.Now()}
	}
}

// logAccess writes the line of a request when its answer is begun.
func (x *Exchange) logAccess(status, bodyBytes int) {
	n := x.noted
	if n == nil {
		return
	}
	x.noted = nil
	w := x.conn.w
	w.cfg.Log.Info("request", "method", n.method, "path", n.path, "status", status, "bytes", bodyBytes,
		"client", x.ClientAddr().String(), "took", w.loop.Now().Sub(n.at))
}
