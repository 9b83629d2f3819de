package netloop

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
)

// Errors that callers branch on.
var (
	// ErrConfig tells of a Config that cannot be used.
	ErrConfig = errors.New("netloop: bad configuration")
	// ErrAddress tells of an address that cannot be parsed.
	ErrAddress = errors.New("netloop: bad address")
	// ErrMaxConns tells that MaxConns cannot be honoured under the process's
	// descriptor limit: a setting without effect stops the start.
	ErrMaxConns = errors.New("netloop: MaxConns exceeds the descriptor limit less the reserve")
	// ErrFewDescriptors tells that the descriptor limit leaves no connection.
	ErrFewDescriptors = errors.New("netloop: the descriptor limit leaves no room for connections")
	// ErrNotListening is returned by Serve before Listen.
	ErrNotListening = errors.New("netloop: not listening")
	// ErrAlreadyListening is returned by a second Listen or Serve.
	ErrAlreadyListening = errors.New("netloop: already listening or serving")
	// ErrStopped is returned by Listen after Stop, and given to OnClose when
	// Stop ended the connection.
	ErrStopped = errors.New("netloop: server stopped")
	// ErrLoopDied is wrapped by the error of Serve when an event loop ended or
	// hangs, and given to OnClose of that loop's connections.
	ErrLoopDied = errors.New("netloop: event loop died")
	// ErrClosed is returned by Write after Close, Abort, CloseWrite or OnClose.
	ErrClosed = errors.New("netloop: connection closed for writing")
	// ErrAborted is given to OnClose after Abort, also when a panic caused it.
	ErrAborted = errors.New("netloop: connection aborted")
)

// Config is what a Server is made from.
type Config struct {
	// Addrs are the addresses to listen on: "host:port" or "unix:path". The
	// host is an IP address or a name; empty means every interface;
	// "localhost" means 127.0.0.1 and, where it exists, ::1 on the same port.
	// Port 0 asks the kernel for one.
	Addrs []string

	// Loops is the number of event loops, 0 for one per usable CPU.
	Loops int

	// MaxConns caps the connections, 0 for the descriptor limit less Reserve.
	MaxConns int

	// Reserve is the number of descriptors kept for all that is no client
	// connection, 0 for a derived number.
	Reserve int

	// SendBufferBytes is what StreamBuffers asks the kernel for, 16 KiB to
	// 4 MiB, 0 for 256 KiB. The kernel caps it at net.core.wmem_max and doubles
	// it for its bookkeeping (socket(7), SO_SNDBUF).
	SendBufferBytes int

	// Log takes what an operator should know, nil for slog.Default.
	Log *slog.Logger
}

const (
	maxLoops = 255 // the reactor's own bound on its loop index

	// Bounds of SendBufferBytes. With autotuned buffers, which grow to 4 MiB,
	// EPOLLOUT came 97 s late to a reader of 20 KB/s (measured).
	minSendBuffer     = 16 << 10
	defaultSendBuffer = 256 << 10
	maxSendBuffer     = 4 << 20
)

func (c *Config) ensureDefaults() {
	if c.Loops == 0 {
		c.Loops = min(runtime.GOMAXPROCS(0), maxLoops)
	}
	if c.SendBufferBytes == 0 {
		c.SendBufferBytes = defaultSendBuffer
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

func (c *Config) validate() error {
	switch {
	case len(c.Addrs) == 0:
		return fmt.Errorf("%w: no address to listen on", ErrConfig)
	case c.Loops < 0 || c.Loops > maxLoops:
		return fmt.Errorf("%w: %d loops, want 0 to %d", ErrConfig, c.Loops, maxLoops)
	case c.MaxConns < 0:
		return fmt.Errorf("%w: MaxConns %d is negative", ErrConfig, c.MaxConns)
	case c.Reserve < 0:
		return fmt.Errorf("%w: Reserve %d is negative", ErrConfig, c.Reserve)
	case c.SendBufferBytes < minSendBuffer || c.SendBufferBytes > maxSendBuffer:
		return fmt.Errorf("%w: SendBufferBytes %d, want 0 or %d to %d",
			ErrConfig, c.SendBufferBytes, minSendBuffer, maxSendBuffer)
	}
	for _, a := range c.Addrs {
		if _, err := parseAddr(a); err != nil {
			return err
		}
	}
	return nil
}
