package faults_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// TestPortAfterKill: a relay that was killed with clients connected leaves a
// port that the next one binds at once, and serves (C57).
func TestPortAfterKill(t *testing.T) {
	t.Parallel()
	port := testrelay.FixedPort(t)
	p, err := testrelay.Spawn("AEP_PORT=" + port)
	must(t, "start", err)
	boots := map[string]bool{}
	for round := range 6 {
		boot, err := p.Boot()
		must(t, "boot id", err)
		if boots[boot] {
			t.Errorf("R55: boot id %s was drawn twice", boot)
		}
		boots[boot] = true
		var clients []*faults.Consumer
		for i := range 20 {
			c, err := faults.OpenConsumer(p.Addr, faults.Subscription{Socket: i%2 == 0})
			must(t, "client", err)
			clients = append(clients, c)
		}
		pub := faults.NewPublisher(p.Addr, "s")
		must(t, "publish", pub.Publish(10))
		for _, c := range clients {
			if it, err := c.Next(patience); err != nil || it.Event == nil {
				t.Errorf("round %d: got %+v, %v", round, it, err)
			}
		}
		checkLog(t, p)
		if round == 5 {
			for _, c := range clients {
				c.Close()
			}
			pub.Close()
			break
		}
		p.Kill()
		begin := time.Now()
		p, err = testrelay.Spawn("AEP_PORT=" + port)
		must(t, "C57: start on the port of the one that was killed", err)
		t.Logf("round %d: served again %v after the kill", round, time.Since(begin))
		for _, c := range clients {
			c.Close()
		}
		pub.Close()
	}
	endRelay(t, p)
}

// TestTwoOnOnePort: a second relay on a port that is taken ends at once and
// says so; the first one is not disturbed (C57).
func TestTwoOnOnePort(t *testing.T) {
	t.Parallel()
	p := startRelay(t)
	_, port, err := net.SplitHostPort(p.Addr)
	must(t, "address", err)
	h := startHealthy(t, p.Addr, "healthy", 2, 200)
	for range 3 {
		second, err := testrelay.Spawn("AEP_PORT=" + port)
		if err == nil {
			second.Kill()
			t.Fatal("C57: two relays listen on one port")
		}
		if !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("C57: a relay on a taken port says %v", err)
		}
	}
	h.end()
}
