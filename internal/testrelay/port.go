package testrelay

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports of FixedPort lie below those that the kernel gives out by itself
// (ip_local_port_range begins at 32,768), and above most servers' own.
const (
	firstPort = 20_000
	portCount = 12_000
)

// given holds the ports that this process had from FixedPort.
var given sync.Map

// FixedPort returns a port of 127.0.0.1 on which nobody listens and which
// nobody gets who does not ask for it: no listener on port 0 and no connection.
// So a relay can come back to it, another program can be told to listen there,
// and a client finds nobody there. A process gets each port once.
func FixedPort(tb testing.TB) string {
	tb.Helper()
	for range 1000 {
		port := strconv.Itoa(firstPort + rand.IntN(portCount))
		if _, had := given.LoadOrStore(port, true); had {
			continue
		}
		ln, err := net.Listen("tcp4", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			tb.Fatal(err)
		}
		return port
	}
	tb.Fatal("no port is free")
	return ""
}
