package aepwsload

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

const (
	idDigits  = 10 // of "bench-0000000042", what bench/load looks for
	keyDigits = 5  // of the target or session "s00042"
	seqDigits = 7
	// firstSeq is the AEP surface's number of event 0: with it all have as many
	// digits.
	firstSeq = 1_000_000
	// nobody is the key of events that no subscriber asked for.
	nobody = 99_999
	// eventBytes is the size of an event as the AEP surface delivers it.
	eventBytes = 512
	// deliveryBytes is how much longer an event of the binding is when it is
	// delivered: by its mode, number, cursor and subscription (B57 of the
	// contract), with numbers of four digits.
	deliveryBytes = 75
)

// shape makes the texts of events, all of one length. Immutable.
type shape struct {
	text         []byte // with zeros for digits
	id, key, seq int    // offsets of the digits; seq is 0 without any
}

// newShape fills the text of an event, in which one %s stands for padding, up to
// a size.
func newShape(format string, size int) shape {
	pad := size - len(format) + len("%s")
	text := fmt.Sprintf(format, strings.Repeat("x", max(pad, 0)))
	s := shape{
		text: []byte(text),
		id:   strings.Index(text, `"bench-`) + len(`"bench-`),
		key:  strings.Index(text, `"s`+strings.Repeat("0", keyDigits)+`"`) + len(`"s`),
	}
	const seq = `"seq":`
	if i := strings.Index(text, seq); i >= 0 {
		s.seq = i + len(seq)
	}
	return s
}

// append appends one event as a client's message.
func (s *shape) append(dst []byte, event, key int) []byte {
	// The header's mask is zero and the text stands as it is, so that the digits
	// can be written in place.
	dst = wsframe.AppendMasked(dst, wsframe.OpText, true, [4]byte{}, s.text)
	t := dst[len(dst)-len(s.text):]
	digits(t[s.id:s.id+idDigits], event)
	digits(t[s.key:s.key+keyDigits], key)
	if s.seq > 0 {
		digits(t[s.seq:s.seq+seqDigits], firstSeq+event)
	}
	return dst
}

// digits writes v into p, with leading zeros.
func digits(p []byte, v int) {
	for i := len(p) - 1; i >= 0; i-- {
		p[i] = byte('0' + v%10)
		v /= 10
	}
}

// message returns a client's text message.
func message(text string) []byte {
	return wsframe.AppendMasked(nil, wsframe.OpText, true, [4]byte{}, []byte(text))
}

const handshake = "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n"

// surface is how one of the two surfaces is spoken to. Immutable.
type surface struct {
	name    string
	request []byte
	hello   string // the message that opens a subscriber's or a publisher's session
	emitter string // and that of a publisher, if it is another
	opened  string // the text of its answer
	// subscribe is the message that asks for the events of one key, or for all if
	// own is false, and subscribed is the text of its answer.
	subscribe  func(own bool, key int) string
	subscribed string
	event      shape
}

// quiet opens a session without heartbeats, which are no events (B36 of the
// contract); the relay names it (B32).
const quiet = `{"type":"session.opened","payload":{"version":"0.1","capabilities":{"heartbeat_interval_ms":0}}}`

// binding is the surface that is measured.
var binding = surface{
	name:    "aepws",
	request: fmt.Appendf(nil, handshake, "/aep", "Sec-WebSocket-Protocol: aep-0.1\r\n"),
	hello:   quiet, emitter: quiet, opened: `"session.ready"`,
	subscribe: func(own bool, key int) string {
		filter := `"types":["*"]`
		if own {
			filter = fmt.Sprintf(`"target":"s%05d"`, key)
		}
		return requested(filter + `,"delivery_mode":"best_effort"`)
	},
	subscribed: `"subscription.created"`,
	event: newShape(`{"aep_version":"0.1","id":"bench-0000000000","type":"message.delta","source":"bench",`+
		`"target":"s00000","created_at":"2026-01-01T00:00:00Z","payload":{"text":"%s"},`+
		`"delivery":{"mode":"best_effort"}}`, eventBytes-deliveryBytes),
}

// neighbour is the AEP surface of the same relay.
var neighbour = surface{
	name:    "AEP",
	request: fmt.Appendf(nil, handshake, "/socket", ""),
	hello:   `{"type":"hello","versions":["0.1"],"role":"consumer"}`,
	emitter: `{"type":"hello","versions":["0.1"],"role":"emitter"}`, opened: `"hello"`,
	subscribe: func(own bool, key int) string {
		if own {
			return fmt.Sprintf(`{"type":"subscribe","id":"a","filter":{"session":"s%05d"}}`, key)
		}
		return `{"type":"subscribe","id":"a"}`
	},
	subscribed: `"subscribed"`,
	event: newShape(`{"aep":"0.1","id":"bench-0000000000","type":"message.delta","time":"2026-01-01T00:00:00Z",`+
		`"source":"urn:bench","agent":"b","severity":"notice","session":"s00000","seq":`+strconv.Itoa(firstSeq)+
		`,"data":{"text":"%s"}}`, eventBytes),
}

// requested is the binding's request for a subscription, by the members of its
// filter.
func requested(filter string) string {
	return `{"type":"subscription.requested","id":"sub","payload":{` + filter + `}}`
}

// class returns n subscribers that ask for the same.
func (f *surface) class(n int, own bool, key int) load.Class {
	return load.Class{
		Name: f.name, Count: n, Kind: load.WebSocket, Request: f.request,
		After: append(message(f.hello), message(f.subscribe(own, key))...), Ready: f.subscribed,
	}
}

// publisher returns how events are published, each with the key that keyOf gives
// it.
func (f *surface) publisher(keyOf func(event int) int) load.Publisher {
	return load.Publisher{
		Request: f.request, After: message(f.emitter), Ready: f.opened,
		Encode: func(dst []byte, event int) []byte { return f.event.append(dst, event, keyOf(event)) },
	}
}
