package netloop

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// hooks is a gnet handler made of functions.
type hooks struct {
	gnet.BuiltinEventEngine
	boot     func(gnet.Engine)
	open     func(gnet.Conn)
	traffic  func(gnet.Conn) gnet.Action
	closed   func(gnet.Conn, error)
	shutdown func()
	tick     func()
}

func (h *hooks) OnBoot(e gnet.Engine) gnet.Action {
	if h.boot != nil {
		h.boot(e)
	}
	return gnet.None
}

func (h *hooks) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if h.open != nil {
		h.open(c)
	}
	return nil, gnet.None
}

func (h *hooks) OnTraffic(c gnet.Conn) gnet.Action {
	if h.traffic != nil {
		return h.traffic(c)
	}
	_, _ = c.Discard(-1)
	return gnet.None
}

func (h *hooks) OnClose(c gnet.Conn, err error) gnet.Action {
	if h.closed != nil {
		h.closed(c, err)
	}
	return gnet.None
}

func (h *hooks) OnShutdown(gnet.Engine) {
	if h.shutdown != nil {
		h.shutdown()
	}
}

func (h *hooks) OnTick() (time.Duration, gnet.Action) {
	if h.tick != nil {
		h.tick()
	}
	return time.Millisecond, gnet.None
}

// reactorTest is a gnet client with one loop.
type reactorTest struct {
	t   *testing.T
	cli *gnet.Client
}

func startReactor(t *testing.T, h *hooks, opts ...gnet.Option) *reactorTest {
	t.Helper()
	checkLeaks(t)
	opts = append(opts, gnet.WithNumEventLoop(1), gnet.WithLogger(reactorLog{quiet}))
	cli, err := gnet.NewClient(h, opts...)
	if err == nil {
		err = cli.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &reactorTest{t: t, cli: cli}
	t.Cleanup(r.stop)
	return r
}

func (r *reactorTest) stop() {
	if r.cli != nil {
		_ = r.cli.Stop()
		r.cli = nil
	}
}

// pair enrols one end of a socket pair and returns the other.
func (r *reactorTest) pair() (gnet.Conn, net.Conn) {
	r.t.Helper()
	nc, peer, err := socketPair()
	if err != nil {
		r.t.Fatal(err)
	}
	f := os.NewFile(uintptr(peer), "peer")
	other, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = other.Close() })
	_ = other.SetDeadline(time.Now().Add(patience))
	c, err := r.cli.Enroll(nc)
	if err != nil {
		r.t.Fatal(err)
	}
	return c, other
}

// run runs f on the loop and waits for it.
func (r *reactorTest) run(el gnet.EventLoop, f func()) {
	r.t.Helper()
	done := make(chan struct{})
	r.post(el, func() { f(); close(done) })
	recv(r.t, "task ran", done)
}

func (r *reactorTest) post(el gnet.EventLoop, f func()) {
	r.t.Helper()
	err := el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { f(); return nil }))
	if err != nil {
		r.t.Error(err)
	}
}
