package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-relay/sluice/bench/rivals/floor"
	"github.com/sluice-relay/sluice/bench/rivals/hub"
)

// rival is a server of the bench protocol.
type rival interface {
	http.Handler
	// Close disconnects all and frees what the rival holds.
	Close()
}

// options are what the command line says to a rival.
type options struct {
	loops int // threads of a floor
}

// starter makes a rival that is ready to serve.
type starter func(options) (rival, error)

// rivals is the table of all rivals, in the order of the list.
var rivals = []struct {
	name  string
	about string
	start starter
}{
	{"floor", "write(2) an event and consumer, on locked threads", floors(false, false)},
	{"floorcat", "as floor, waiting events joined in one write", floors(true, false)},
	{"floor-uring", "as floor, by SENDs of io_uring", floors(false, true)},
	{"floorcat-uring", "as floorcat, by SENDs of io_uring", floors(true, true)},
	{"gobwas", "net/http and gobwas/ws, two goroutines a connection", startGobwas},
	{"gws", "net/http and lxzan/gws with its Broadcaster", startGws},
	{"centrifuge", "centrifugal/centrifuge, one push a frame", centrifuges(false)},
	{"centrifuge-joined", "centrifugal/centrifuge, pushes joined in frames", centrifuges(true)},
}

// lookup finds a rival by name.
func lookup(name string) (starter, error) {
	names := make([]string, 0, len(rivals))
	for _, r := range rivals {
		if r.name == name {
			return r.start, nil
		}
		names = append(names, r.name)
	}
	return nil, fmt.Errorf("%w: no rival %q, there are %s", errUsage, name, strings.Join(names, ", "))
}

func floors(joined, uring bool) starter {
	return func(o options) (rival, error) {
		f, err := floor.New(floor.Config{Loops: o.loops, Joined: joined, Uring: uring})
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

func startGobwas(options) (rival, error) { return hub.NewGobwas(), nil }

func startGws(options) (rival, error) { return hub.NewGws(), nil }

func centrifuges(joined bool) starter {
	return func(options) (rival, error) {
		h, err := hub.NewCentrifuge(hub.CentrifugeConfig{Joined: joined})
		if err != nil {
			return nil, err
		}
		return h, nil
	}
}
