package hub

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/centrifugal/centrifuge"
	"github.com/gobwas/ws"
)

// joinedTransport carries the library's protocol so that each push is a frame
// of its own and all that its writer collected go in one write. The library's
// handler would put them in one frame, a line each, which the bench protocol
// does not know. It is called by the client's writer, one call at a time, but
// for Close, which any goroutine may call.
type joinedTransport struct {
	conn net.Conn // immutable after construction
}

// frames holds the joined frames of one write.
var frames = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledFrames is the largest buffer that is kept for another write.
const maxPooledFrames = 1 << 20

func (t *joinedTransport) Name() string                      { return "websocket" }
func (t *joinedTransport) AcceptProtocol() string            { return "h1" }
func (t *joinedTransport) Protocol() centrifuge.ProtocolType { return centrifuge.ProtocolTypeJSON }
func (t *joinedTransport) Unidirectional() bool              { return false }
func (t *joinedTransport) Emulation() bool                   { return false }
func (t *joinedTransport) DisabledPushFlags() uint64         { return centrifuge.PushFlagDisconnect }

func (t *joinedTransport) ProtocolVersion() centrifuge.ProtocolVersion {
	return centrifuge.ProtocolVersion2
}

func (t *joinedTransport) PingPongConfig() centrifuge.PingPongConfig { return noPings }

// Write writes one message.
func (t *joinedTransport) Write(message []byte) error { return t.WriteMany(message) }

// WriteMany writes each message as a frame, all in one write.
func (t *joinedTransport) WriteMany(messages ...[]byte) error {
	b := frames.Get().(*bytes.Buffer)
	b.Reset()
	for _, m := range messages {
		_ = ws.WriteFrame(b, ws.NewTextFrame(m)) // a Buffer takes all
	}
	_, err := t.conn.Write(b.Bytes())
	if b.Cap() <= maxPooledFrames {
		frames.Put(b)
	}
	return err
}

// Close closes the connection.
func (t *joinedTransport) Close(centrifuge.Disconnect) error { return t.conn.Close() }

// consumeJoined upgrades a consumer and reads its commands. The handler
// returns, so that net/http frees what belongs to the request.
func (h *Centrifuge) consumeJoined(w http.ResponseWriter, r *http.Request) {
	conn, _, _, err := ws.UpgradeHTTP(r, w)
	if err != nil {
		if conn != nil {
			_ = conn.Close()
		}
		return
	}
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		client, leave, err := centrifuge.NewClient(ctx, h.node, &joinedTransport{conn: conn})
		if err != nil {
			_ = conn.Close()
			return
		}
		defer func() { _ = leave() }()
		_ = readClient(conn, func(text []byte) bool {
			return centrifuge.HandleReadFrame(client, bytes.NewReader(text), maxClientBytes)
		})
	}()
}
