package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"

	"github.com/coder/websocket"
)

// gone tells that nothing listens where the relay should: its port is closed, or
// its socket is no more.
func gone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// plain says in plain words what errors of the network mean, without the calls
// and requests that they passed through. Others are told as they are.
func plain(err error) string {
	closed := websocket.CloseError{}
	lookup, dial := (*net.DNSError)(nil), (*net.OpError)(nil)
	errno := syscall.Errno(0)
	request := (*url.Error)(nil)
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, errSilent):
		return err.Error()
	case errors.As(err, &closed) && closed.Reason != "":
		return "the relay closed the connection: " + closed.Reason
	case errors.As(err, &closed):
		return "the relay closed the connection"
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "cannot reach the relay: no such host"
	case errors.As(err, &lookup):
		return "cannot reach the relay: its name cannot be looked up"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return errSilent.Error()
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Timeout():
		return "cannot reach the relay: no answer in time"
	case errors.As(err, &dial) && dial.Op == "dial" && errors.As(err, &errno):
		return "cannot reach the relay: " + errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.As(err, &errno):
		return "the connection was lost"
	}
	if errors.As(err, &request) {
		return "cannot reach the relay: " + request.Err.Error()
	}
	return err.Error()
}
