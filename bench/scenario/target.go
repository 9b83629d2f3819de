package scenario

import (
	"fmt"
	"net/url"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/bench/report"
)

// relaySession is the session of event 0, and of all when there is one.
const relaySession = "s00000"

// ask is what one class of consumers wants of a target.
type ask struct {
	kind    load.Kind
	session string // "" for everything
	capture string // ceiling, "" for none
	after   string // SSE only: the event id that was seen last, "" for none
}

// target knows how a server is spoken to. Immutable.
type target interface {
	// command returns the arguments and further environment of a server that
	// is to listen on port of 127.0.0.1. admin is a free port beside it.
	command(o *Options, port, admin int) (args, env []string)
	// consumer fills in how a consumer of the class asks.
	consumer(c *load.Class, a ask)
	// publisher returns how events are published by WebSocket.
	publisher(s *shape, sessions bool) load.Publisher
}

func targetOf(name string) target {
	if name == report.TargetSluice {
		return sluiceTarget{}
	}
	return rival(name)
}

const handshake = "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

func upgrade(path string) []byte { return fmt.Appendf(nil, handshake, path) }

// sluiceTarget is the relay itself.
type sluiceTarget struct{}

func (sluiceTarget) command(o *Options, port, admin int) (args, env []string) {
	return []string{o.Relay, "serve"}, []string{
		fmt.Sprint("AEP_PORT=", port), "AEP_HOST=127.0.0.1", fmt.Sprint("SLUICE_ADMIN=127.0.0.1:", admin),
		"AEP_MAX_SESSIONS=20000", "SLUICE_LOG_LEVEL=warn",
	}
}

func (sluiceTarget) consumer(c *load.Class, a ask) {
	filter := ""
	if a.session != "" {
		filter = fmt.Sprintf(`{"session":%q}`, a.session)
	}
	if a.kind == load.SSE {
		q := url.Values{}
		if filter != "" {
			q.Set("filter", filter)
		}
		if a.capture != "" {
			q.Set("capture", a.capture)
		}
		head := fmt.Sprintf("GET /stream?%s HTTP/1.1\r\nHost: 127.0.0.1\r\n", q.Encode())
		if a.after != "" {
			head += "Last-Event-ID: " + a.after + "\r\n"
		}
		c.Request = []byte(head + "\r\n")
		return
	}
	c.Request = upgrade("/socket")
	frame := `{"type":"subscribe","id":"a"`
	if filter != "" {
		frame += `,"filter":` + filter
	}
	if a.capture != "" {
		frame += fmt.Sprintf(`,"capture":%q`, a.capture)
	}
	c.After = append(message(`{"type":"hello","versions":["0.1"],"role":"consumer"}`), message(frame+"}")...)
	c.Ready = `"subscribed"`
}

func (sluiceTarget) publisher(s *shape, _ bool) load.Publisher {
	return load.Publisher{
		Request: upgrade("/socket"),
		After:   message(`{"type":"hello","versions":["0.1"],"role":"emitter"}`),
		Ready:   `"hello"`,
		Encode:  s.appendMessage,
	}
}

// rival is one server of bench/rivals, by its name.
type rival string

func (r rival) command(o *Options, port, _ int) (args, env []string) {
	return []string{o.Rivals, string(r), "-addr", fmt.Sprint("127.0.0.1:", port)}, nil
}

func (r rival) consumer(c *load.Class, a ask) {
	path := "/ws"
	if r == report.TargetCentrifuge || r == report.TargetCentrifugeJoined {
		channel := "all"
		if a.session != "" {
			channel = "s:" + a.session
		}
		c.Request = upgrade(path)
		c.After = append(message(`{"id":1,"connect":{}}`),
			message(fmt.Sprintf(`{"id":2,"subscribe":{"channel":%q}}`, channel))...)
		c.Ready = `"id":2,"subscribe"`
		return
	}
	if a.session != "" {
		path += "?topic=" + a.session
	}
	c.Request = upgrade(path)
}

func (r rival) publisher(s *shape, sessions bool) load.Publisher {
	path := "/pub"
	if sessions {
		path += "?topics=1"
	}
	return load.Publisher{Request: upgrade(path), Encode: s.appendMessage}
}
