package aepws

import (
	"strings"
	"testing"
	"time"
)

const (
	opening = `
		upgraded -> timer:10000
		open session=s1 tenant=x -> register:s1:x
		registered session=s1 -> ready record:opened timer:1000
	`
	// What every end of a READY session begins with.
	ends = "end unregister:s1:x stop "
)

// scripts are the rules of section 6 and what of sections 3 to 5 ends or refuses
// something, with the hard cases.
var scripts = []struct {
	name     string
	token    bool
	script   string
	state    sessionState
	wantName string
}{
	{name: "B31 opened by the event", script: opening, state: stateReady, wantName: "s1"},
	{
		name: "B31 hard case 8: another version", state: stateError,
		script: `
			upgraded -> timer:10000
			open version=9.9 -> stop record:unsupported_version error:unsupported_version close:1002
			open session=s1 -> discard`,
	},
	{
		name: "B31 another version in READY", state: stateError, wantName: "s1",
		script: opening + `open version=9.9 -> ` + ends + `record:unsupported_version error:unsupported_version close:1002`,
	},
	{
		name: "B31 hard case 6: no credential", token: true, state: stateError,
		script: `
			upgraded -> timer:10000
			open session=s1 -> stop record:unauthorized error:unauthorized close:1008`,
	},
	{
		name: "B31 wrong credential", token: true, state: stateError,
		script: `
			upgraded -> timer:10000
			open session=s1 proof=wrong credential=3 -> stop record:unauthorized error:unauthorized close:1008`,
	},
	{
		name: "B7 wrong credential after a right one", token: true, state: stateError,
		script: `
			upgraded proof=right credential=7 -> timer:10000
			open session=s1 proof=wrong -> stop record:unauthorized error:unauthorized close:1008`,
	},
	{
		name: "B7 credential on the event", token: true, state: stateReady, wantName: "s1",
		script: `
			upgraded -> timer:10000
			open session=s1 proof=right credential=7 -> register:s1:7
			registered session=s1 -> ready record:opened timer:1000`,
	},
	{
		name: "B7 credential at the handshake", token: true, state: stateReady, wantName: "s1",
		script: `
			upgraded proof=right credential=7 -> timer:10000
			open session=s1 -> register:s1:7
			registered session=s1 -> ready record:opened timer:1000`,
	},
	{
		name: "B7 wrong credential at the handshake", token: true, state: stateError,
		script: `upgraded proof=wrong -> timer:10000 stop record:unauthorized error:unauthorized close:1008`,
	},
	{
		name: "B7 open relay takes any credential", state: stateReady, wantName: "s1",
		script: `
			upgraded proof=wrong credential=3 -> timer:10000
			open session=s1 proof=wrong credential=4 -> register:s1
			registered session=s1 -> ready record:opened timer:1000`,
	},
	{
		name: "B6 query opens at once, the event repeats", state: stateReady, wantName: "q",
		script: `
			upgraded session=q -> timer:10000 register:q
			registered session=q -> ready record:opened timer:1000
			open session=q heartbeat=5000 tenant=y -> ready
			open -> ready
			domain tenant=y -> rejected:unauthorized
			domain -> publish`,
	},
	{
		name: "B6 query waits for the credential", token: true, state: stateReady, wantName: "q",
		script: `
			upgraded session=q -> timer:10000
			open proof=right credential=7 -> register:q:7
			registered session=q -> ready record:opened timer:1000`,
	},
	{
		name: "B32 the event's name before the query's", token: true, state: stateReady, wantName: "s1",
		script: `
			upgraded session=q -> timer:10000
			open session=s1 proof=right credential=7 -> register:s1:7
			registered -> ready record:opened timer:1000`,
	},
	{
		name: "B32 the relay makes a name", state: stateReady, wantName: "sess_1",
		script: `
			upgraded -> timer:10000
			open -> register
			registered session=sess_1 -> ready record:opened timer:1000`,
	},
	{
		name: "B32 the relay fails to make a name", state: stateError,
		script: `
			upgraded -> timer:10000
			open -> register
			registered -> unregister stop record:internal_fault error:internal_error close:1011`,
	},
	{
		name: "B33 hard case 7: before session.opened", state: stateReady, wantName: "s1",
		script: `
			upgraded -> timer:10000
			domain -> rejected:protocol_error:OPENED
			subscribe -> rejected:protocol_error:OPENED
			cancel -> rejected:protocol_error:OPENED
			ack -> rejected:protocol_error:OPENED
			reject -> rejected:protocol_error:OPENED
			wrong -> rejected:protocol_error:OPENED
			ready -> rejected:protocol_error:OPENED
			heartbeat ->
			error -> record:client_error
			capabilities -> capabilities
			bad code=invalid_envelope -> rejected:invalid_envelope
			open session=s1 -> register:s1
			registered session=s1 -> ready record:opened timer:1000`,
	},
	{
		name: "B33 session.closed in OPENED", state: stateClosed,
		script: `
			upgraded -> timer:10000
			closed -> stop record:client_closed close:1000
			open session=s1 -> discard`,
	},
	{
		name: "B34 second session.opened", state: stateReady, wantName: "s1",
		script: opening + `
			open session=s1 heartbeat=0 -> ready
			open session=s2 -> rejected:protocol_error
			@1000 tick -> ping heartbeat timer:2000`,
	},
	{
		name: "B36 the client's interval", state: stateReady, wantName: "s1",
		script: `
			upgraded -> timer:10000
			open session=s1 heartbeat=5000 -> register:s1
			registered session=s1 -> ready record:opened timer:5000`,
	},
	{
		name: "B37 hard case 20: no Pong for 3 T, whatever else comes", state: stateError, wantName: "s1",
		script: opening + `
			@1000 tick -> ping heartbeat timer:2000
			@1500 pong ->
			@2000 tick -> ping heartbeat timer:3000
			@2500 domain -> publish:x
			@3000 tick -> ping heartbeat timer:4000
			@3500 heartbeat ->
			@4000 tick -> ping heartbeat timer:4500
			@4499 tick -> timer:4500
			@4500 tick -> ` + ends + `record:pong_timeout error:session_timeout close:1001
			@4600 domain -> discard`,
	},
	{
		name: "B36 0 turns heartbeats off", state: stateReady, wantName: "s1",
		script: `
			upgraded -> timer:10000
			open session=s1 heartbeat=0 -> register:s1
			registered session=s1 -> ready record:opened stop
			@99000 tick ->
			pong ->
			domain -> publish`,
	},
	{
		name: "B37 Pongs keep the session", state: stateReady, wantName: "s1",
		script: opening + `
			@1000 tick -> ping heartbeat timer:2000
			@1001 pong ->
			@4000 tick -> ping heartbeat timer:4001
			@4000 pong ->
			@4001 tick -> timer:5000
			@5000 tick -> ping heartbeat timer:6000`,
	},
	{
		name: "B39 a late tick sends one of each", state: stateReady, wantName: "s1",
		script: opening + `
			@2900 tick -> ping heartbeat timer:3000
			@2999 pong ->
			@5700 tick -> ping heartbeat timer:5999`,
	},
	{
		name: "B40 open timeout", state: stateError,
		script: `
			upgraded -> timer:10000
			@9999 tick -> timer:10000
			heartbeat ->
			pong ->
			@10000 tick -> stop record:open_timeout error:session_timeout close:1001`,
	},
	{
		name: "B41 session.closed, then events", state: stateClosed, wantName: "s1",
		script: opening + `
			closed -> ` + ends + `record:client_closed close:1000
			domain -> discard
			ack -> discard
			bad code=invalid_envelope -> discard
			tick ->
			pong ->
			peerclose code=1000 ->
			lost ->`,
	},
	{
		name: "B42 hard case 40: close 1000", state: stateClosed, wantName: "s1",
		script: opening + `peerclose code=1000 -> ` + ends + `record:normal close:1000`,
	},
	{name: "B42 no code", state: stateClosed, wantName: "s1", script: opening + `peerclose -> ` + ends + `record:normal close:1000`},
	{name: "B42 1001", state: stateClosed, wantName: "s1", script: opening + `peerclose code=1001 -> ` + ends + `record:peer_disconnected close:1001`},
	{name: "B42 1002", state: stateError, wantName: "s1", script: opening + `peerclose code=1002 -> ` + ends + `record:peer_protocol_error close:1002`},
	{name: "B42 1008", state: stateError, wantName: "s1", script: opening + `peerclose code=1008 -> ` + ends + `record:peer_unauthorized close:1008`},
	{name: "B42 1011", state: stateError, wantName: "s1", script: opening + `peerclose code=1011 -> ` + ends + `record:peer_internal_error close:1011`},
	{name: "B42 1013", state: stateClosed, wantName: "s1", script: opening + `peerclose code=1013 -> ` + ends + `record:peer_code:1013 close:1013`},
	{name: "B42 4000", state: stateClosed, wantName: "s1", script: opening + `peerclose code=4000 -> ` + ends + `record:peer_code:4000 close:4000`},
	{name: "B42 1005 on the wire", state: stateError, wantName: "s1", script: opening + `peerclose code=1005 -> ` + ends + `record:bad_close_code close:1002`},
	{name: "B42 lost", state: stateError, wantName: "s1", script: opening + `lost -> ` + ends + `record:lost`},
	{name: "B42 lost in OPENED", state: stateError, script: `
		upgraded -> timer:10000
		lost -> stop record:lost`},
	{name: "section 6: refused handshake", state: stateClosed, script: `
		lost ->
		upgraded ->`},
	{
		name: "B43 hard case 41: shutdown", state: stateClosed, wantName: "s1",
		script: opening + `shutdown -> ` + ends + `record:shutdown closed:peer_disconnected close:1001`,
	},
	{name: "B43 shutdown in OPENED", state: stateClosed, script: `
		upgraded -> timer:10000
		shutdown -> stop record:shutdown closed:peer_disconnected close:1001`},
	{
		name: "B43 internal fault", state: stateError, wantName: "s1",
		script: opening + `internal -> ` + ends + `record:internal_fault error:internal_error close:1011`,
	},
	{
		name: "B11 hard case 9", state: stateError, wantName: "s1",
		script: opening + `fault fault=binary -> ` + ends + `record:message_fault error:protocol_error close:1002`,
	},
	{
		name: "B12 hard case 10", state: stateError, wantName: "s1",
		script: opening + `fault fault=fragment -> ` + ends + `record:message_fault error:protocol_error close:1002`,
	},
	{name: "B13", state: stateError, wantName: "s1", script: opening + `fault fault=utf8 -> ` + ends + `record:message_fault close:1007`},
	{name: "B14 hard case 13", state: stateError, wantName: "s1", script: opening + `fault fault=toobig -> ` + ends + `record:message_fault close:1009`},
	{
		name: "B15 hard cases 11 and 12, in OPENED", state: stateError,
		script: `
			upgraded -> timer:10000
			fault fault=notobject -> stop record:message_fault error:protocol_error close:1002`,
	},
	{name: "B16", state: stateError, wantName: "s1", script: opening + `fault fault=frame -> ` + ends + `record:message_fault close:1002`},
	{
		name: "B25 a fault never closes", state: stateReady, wantName: "s1",
		script: opening + `
			bad code=invalid_event_type reason=unknown_event_type -> rejected:invalid_event_type:unknown_event_type
			domain -> publish:x`,
	},
	{name: "B30", state: stateReady, wantName: "s1", script: opening + `
		wrong -> rejected:protocol_error
		ready ->`},
	{
		name: "B44 hard case 33: replaced", state: stateClosed, wantName: "s1",
		script: opening + `replaced -> end stop record:replaced closed:replaced close:1000`,
	},
	{name: "B44 a session is taken over", state: stateReady, wantName: "s1", script: `
		upgraded -> timer:10000
		open session=s1 -> register:s1
		registered session=s1 verdict=replaced -> ready record:opened timer:1000`},
	{name: "B44 another credential", state: stateError, script: `
		upgraded -> timer:10000
		open session=s1 -> register:s1
		registered session=s1 verdict=taken -> stop record:unauthorized error:unauthorized close:1008`},
	{name: "B9 the directory is full", state: stateError, script: `
		upgraded session=s1 -> timer:10000 register:s1
		registered session=s1 verdict=full -> stop record:internal_fault error:internal_error close:1011`},
	{name: "B44 the end comes while a name is asked for", state: stateError, script: `
		upgraded session=s1 -> timer:10000 register:s1
		open session=s1 -> rejected:protocol_error:OPENED
		replaced ->
		lost -> unregister:s1 stop record:lost
		registered session=s1 ->`},
	{
		name: "B46 tenants", state: stateReady, wantName: "s1",
		script: opening + `
			domain -> publish:x
			domain tenant=x -> publish:x
			domain tenant=y -> rejected:unauthorized`,
	},
	{name: "B46 no tenant", state: stateReady, wantName: "s1", script: `
		upgraded -> timer:10000
		open session=s1 -> register:s1
		registered session=s1 -> ready record:opened timer:1000
		domain -> publish
		domain tenant=x -> rejected:unauthorized`},
	{
		name: "B64 the relay's source", state: stateReady, wantName: "s1",
		script: opening + `
			domain source=relay:test -> rejected:unauthorized
			domain source=relay:other -> publish:x`,
	},
	{name: "B58, B53 what is passed on", state: stateReady, wantName: "s1", script: opening + `
		subscribe -> subscribe
		cancel -> cancel
		ack -> ack
		reject -> reject
		registered session=s9 ->
		upgraded session=s9 ->`},
}

// TestSessionScripts plays the rules of section 6.
func TestSessionScripts(t *testing.T) {
	for _, c := range scripts {
		t.Run(c.name, func(t *testing.T) {
			s := play(t, session{settings: testSettings(c.token)}, c.script)
			if s.state != c.state || s.name() != c.wantName {
				t.Errorf("ended %v as %q, want %v as %q", s.state, s.name(), c.state, c.wantName)
			}
		})
	}
}

// TestFaultMessages: B12 names fragmentation and the setting.
func TestFaultMessages(t *testing.T) {
	s := play(t, session{settings: testSettings(false)}, opening)
	_, do := s.step(&input{kind: inMessageFault, fault: faultFragment}, 0, nil)
	message := do[len(do)-2].reason
	for _, word := range []string{"fragment", "AEPWS_FRAGMENTS"} {
		if !strings.Contains(message, word) {
			t.Errorf("%q does not name %s", message, word)
		}
	}
}

// TestClampHeartbeat: B36.
func TestClampHeartbeat(t *testing.T) {
	f := func(wish, want time.Duration) {
		t.Helper()
		if got := clampHeartbeat(wish); got != want {
			t.Errorf("%v: got %v, want %v", wish, got, want)
		}
	}
	f(0, 0)
	f(1, time.Second)
	f(-5*time.Second, time.Second)
	f(999*time.Millisecond, time.Second)
	f(time.Second, time.Second)
	f(45*time.Second, 45*time.Second)
	f(300*time.Second, 300*time.Second)
	f(301*time.Second, 300*time.Second)
	f(1<<62, 300*time.Second)
}

// TestMayBeSent: B42, for every code.
func TestMayBeSent(t *testing.T) {
	for code := range uint16(65535) {
		want := code >= 1000 && code <= 1014 && code != 1005 && code != 1006 || code >= 3000 && code <= 4999
		if mayBeSent(code) != want {
			t.Errorf("%d: got %v", code, !want)
		}
	}
}

// TestTimeStandsStill: M5, a clock that jumps back sets no timer to the past.
func TestTimeStandsStill(t *testing.T) {
	play(t, session{settings: testSettings(false)}, `
		@5000 upgraded -> timer:15000
		@1000 open session=s1 -> register:s1
		@0 registered -> ready record:opened timer:6000
		@100 pong ->
		@100 tick -> timer:6000
		@6000 tick -> ping heartbeat timer:7000
		@7000 tick -> ping heartbeat timer:8000
		@8000 tick -> end unregister:s1 stop record:pong_timeout error:session_timeout close:1001`)
}
