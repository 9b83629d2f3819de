package firehoseclients

import (
	"testing"

	"github.com/sluice-relay/sluice/internal/nodetest"
)

// clients are the packages (section 11 of the contract).
var clients = nodetest.Packages{
	Variable: "SLUICE_CLIENTS",
	Names: []string{
		"@skyware/firehose@0.5.2",
		"ws@8.23.0",
		"@atproto/sync@0.1.40",
		"@atproto/xrpc-server@0.10.21",
		"@ipld/dag-cbor@10.0.2",
	},
	Before: "2026-11-20", // after the newest of them
}

// line is what a script saw: one kind of all that they print.
type line struct {
	Event string

	// A message, in the form of the client or of what it hands over.
	Message map[string]any

	// Of frames.mjs.
	Hex, Again, Fault, XrpcFault string
	Header, Body                 map[string]any
	Xrpc                         struct{ Header, Body map[string]any }
	Server, Protocol, Extensions string

	// Of an end, of whatever kind. The code is a number or a name.
	Text, Cause, Name, Reason string
	Code                      any
	Cursor                    string

	// Of @atproto/sync: the number that was handed over, or reached.
	Seq int64
}

// client is a script that runs. Owned by the test.
type client struct {
	*nodetest.Script
	t    *testing.T
	name string
}

// run starts a script, with what they all print by.
func run(t *testing.T, script string, argument any) *client {
	t.Helper()
	return &client{nodetest.Run(t, clients.Modules(t), argument, script, "print.mjs"), t, script}
}

// next returns the next line, whatever it is.
func (c *client) next() (l line) {
	c.t.Helper()
	c.Next(&l)
	return l
}

// expect returns the next line, which must be of this event.
func (c *client) expect(event string) line {
	c.t.Helper()
	l := c.next()
	if l.Event != event {
		c.t.Fatalf("%s: got %+v, want the event %s", c.name, l, event)
	}
	return l
}
