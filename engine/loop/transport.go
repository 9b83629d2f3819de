package loop

import "net/netip"

// Transport is all that the engine knows of a socket. It buffers nothing: what
// Write does not take stays with the caller. Every method is loop only.
type Transport interface {
	// Write hands p (borrowed until return) to the kernel and returns how many
	// bytes it took. n < len(p) with a nil error means that the kernel's buffer
	// is full. An error is final: the connection is broken and the loop will
	// call OnClose later, never from inside Write.
	Write(p []byte) (n int, err error)

	// WantWritable asks for one OnWritable call once the kernel takes bytes
	// again. Asking twice is asking once.
	WantWritable()

	// UnackedBytes returns how many bytes the kernel holds that the peer has
	// not acknowledged (SIOCOUTQ), 0 when that cannot be told.
	UnackedBytes() int

	// CloseWrite sends a FIN after what was written. Reading goes on.
	CloseWrite()

	// Close closes the connection. What the kernel took is still sent.
	// OnClose follows from the loop, not from inside Close.
	Close()

	// Abort resets the connection: the peer gets a RST, unsent bytes are lost.
	// OnClose follows from the loop, not from inside Abort.
	Abort()

	// StreamBuffers sets the kernel's send buffer for a connection that will
	// carry a stream (about 256 KiB), so that writability is reported in time.
	StreamBuffers()

	// RemoteAddr returns the peer's address, the zero value for Unix sockets.
	RemoteAddr() netip.AddrPort

	// LocalAddr returns the address the peer connected to, the zero value for
	// Unix sockets.
	LocalAddr() netip.AddrPort
}

// Handler is one connection as its transport drives it. All methods are called
// on the connection's loop, OnClose exactly once and last.
type Handler interface {
	// OnData is called with bytes that the peer sent: borrowed until return.
	OnData(p []byte)
	// OnWritable answers one WantWritable.
	OnWritable()
	// OnClose tells that the connection is gone; err is nil for an orderly end.
	OnClose(err error)
}

// AcceptFunc makes the handler of a new connection, on its loop.
type AcceptFunc func(l *Loop, t Transport) Handler
