package firehoseclients

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/nodetest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// breaks is how a client is followed over broken connections.
type breaks struct {
	want  func([]sent) // takes these messages, no others
	ended func()       // takes that the connection is gone
	again func()       // takes that there is a new one
}

// resumes breaks a client's connection in three ways, and publishes on while
// it is away: it must get every frame once, in order.
func resumes(t *testing.T, v vectors, s *source, p *nodetest.Proxy, b breaks) {
	t.Helper()
	all := v.messages(t)
	b.want(s.publishAll(all[:3]))
	for _, cut := range []func() []sent{
		func() []sent { p.Drop(false); return nil },
		func() []sent { p.Drop(true); return nil },
		func() []sent { // in mid-frame: that one is lost and must come again
			p.CutAfter(100)
			return s.publishAll(all[3:4])
		},
	} {
		missed := cut()
		b.ended()
		missed = append(missed, s.publishAll(all[4:])...)
		p.Release()
		b.again()
		b.want(missed)
		b.want(s.publishAll(all[:2])) // and live
	}
}

// wantTargets holds the requests that came through a proxy to those of
// resumes: the first one, and one for each break, after the last number.
func wantTargets(t *testing.T, p *nodetest.Proxy, first, prefix string) {
	t.Helper()
	const away, live = messages - 4, 2
	want := []string{first}
	for n, seq := 0, 3; n < 3; n, seq = n+1, seq+away+live {
		want = append(want, prefix+strconv.Itoa(seq))
	}
	if got := strings.Join(p.Targets(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("F21: requests\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// restart stops a relay in an orderly way and starts one on the same port and
// directory. Its numbers go on where they ended (F25), and a cursor at the last
// of them is live (F27).
func restart(t *testing.T, s *source, dir string) *source {
	t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	testrelay.Stop(t, s.relay)
	again := startIn(t, dir, port, 1)
	again.next = s.next
	return again
}
