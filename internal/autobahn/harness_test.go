package autobahn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/echo"
)

// addr is where the server listens that all cases run against.
var addr string

func TestMain(m *testing.M) { os.Exit(withServer(m)) }

// withServer runs the tests and then checks that the server holds nothing of
// them any more.
func withServer(m *testing.M) int {
	before := goroutines()
	s, err := echo.New(echo.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.Start()
	addr = s.Addr()
	code := m.Run()
	fault := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "after all cases: "+format+"\n", args...)
		code = max(code, 1)
	}
	if !eventually(patience, func() bool { return s.Conns() == 0 }) {
		fault("%d connections are left", s.Conns())
	}
	if !eventually(patience, func() bool { return s.HeldBytes() == 0 }) {
		fault("%d bytes are held", s.HeldBytes())
	}
	if err := s.Shutdown(context.Background()); err != nil {
		fault("shutdown: %v", err)
	}
	if !eventually(patience, func() bool { return goroutines() <= before }) {
		fault("%d goroutines, %d before", goroutines(), before)
	}
	return code
}

// goroutines counts those that are not idle workers of the reactor library's
// process-wide pool, which stay for up to 10 s.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !strings.Contains(stack, "panjf2000/ants") {
			n++
		}
	}
	return n
}

// eventually polls until cond holds.
func eventually(limit time.Duration, cond func() bool) bool {
	for end := time.Now().Add(limit); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// dialogue is one case: what is sent, one write each, and what is due.
type dialogue struct {
	name string
	send []string
	// want ends with the server's Close where a rule is broken, or where send
	// has a Close. Else the connection must still serve, and is closed in an
	// orderly way.
	want []item
	// reset allows the connection to end with a reset: octets that follow a
	// Close may meet a socket that is gone.
	reset bool
}

// play runs a case as it is, with all in one write, and octet by octet.
func play(t *testing.T, d dialogue) {
	t.Helper()
	t.Run(d.name, func(t *testing.T) {
		t.Helper()
		d.run(t, "as given", d.send, 0)
		all := strings.Join(d.send, "")
		d.run(t, "in one write", []string{all}, 0)
		if len(all) < 2000 {
			d.run(t, "octet by octet", []string{all}, 1)
		}
	})
}

func (d *dialogue) run(t *testing.T, how string, writes []string, chop int) {
	t.Helper()
	c := dial(t, addr)
	defer c.nc.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, w := range writes {
			c.chopped(w, chop)
		}
	}()
	got, err := c.items(len(d.want))
	if err != nil || !equalItems(got, d.want) {
		t.Errorf("%s: got %v (%v), want %v", how, got, err, d.want)
		return
	}
	if n := len(got); n == 0 || !got[n-1].broken() {
		<-sent
		c.send(closeFrame(1000, "done"))
		if got, err := c.items(1); err != nil || !equalItems(got, []item{closing(1000)}) {
			t.Errorf("%s: the closing handshake gave %v (%v)", how, got, err)
			return
		}
	}
	if err := c.ended(); err != nil && (!d.reset || !errors.Is(err, syscall.ECONNRESET)) {
		t.Errorf("%s: the server did not end the connection: %v", how, err)
	}
	_ = c.nc.Close() // or a sender could wait for ever
	<-sent
}

// items reads n items, or up to a Close.
func (c *client) items(n int) (got []item, err error) {
	c.within(patience)
	for len(got) < n {
		i, err := c.next()
		if err != nil {
			return got, err
		}
		if got = append(got, i); i.op == opClose {
			break
		}
	}
	return got, nil
}

// ended waits for the server's FIN; nothing may come before it (V1, V4).
func (c *client) ended() error {
	c.within(patience)
	b, err := c.r.ReadByte()
	switch {
	case err == nil:
		return fmt.Errorf("sent 0x%02x after its Close", b)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// wantFailed wants the server to close with code and to end the connection,
// with nothing more sent to it (V3).
func (c *client) wantFailed(t *testing.T, code int) {
	t.Helper()
	got, err := c.items(1)
	if err != nil || !equalItems(got, []item{closing(code)}) {
		t.Errorf("got %v (%v), want %v", got, err, closing(code))
	} else if err := c.ended(); err != nil {
		t.Errorf("the server did not end the connection: %v", err)
	}
	_ = c.nc.Close()
}

// wantItems wants items to come next.
func (c *client) wantItems(t *testing.T, want ...item) {
	t.Helper()
	if got, err := c.items(len(want)); err != nil || !equalItems(got, want) {
		t.Fatalf("got %v (%v), want %v", got, err, want)
	}
}

// wantClosed closes in an orderly way (V2).
func (c *client) wantClosed(t *testing.T) {
	t.Helper()
	c.send(closeFrame(1000, ""))
	c.wantFailed(t, 1000)
}
