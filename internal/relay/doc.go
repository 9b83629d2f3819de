// Package relay is the composition root: it makes the log, the session buffers,
// the loops with their fan-out and HTTP side, the job pool and the surfaces,
// starts them, and ends them in order.
//
// It owns nothing but the wiring and the order of starting and stopping. It is
// the only package that knows both the engine and the protocols; its methods may
// be called by any goroutine.
package relay
