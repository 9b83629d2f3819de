package aepws

import (
	"fmt"
	"testing"
	"time"
)

// matrix is what each input does in OPENED and in READY, as "state: actions";
// messages carry nothing but their kind, and the moment is that of the opening.
var matrix = [inputCount]struct{ opened, ready string }{
	inNone:         {"OPENED: ", "READY: "},
	inUpgraded:     {"OPENED: ", "READY: "},
	inPeerClose:    {"CLOSED: stop record:normal close:1000", "CLOSED: end unregister:s1:x stop record:normal close:1000"},
	inLost:         {"ERROR: stop record:lost", "ERROR: end unregister:s1:x stop record:lost"},
	inMessageFault: {"ERROR: stop record:message_fault error:protocol_error close:1002", "ERROR: end unregister:s1:x stop record:message_fault error:protocol_error close:1002"},
	inPong:         {"OPENED: ", "READY: "},
	inTick:         {"OPENED: timer:10000", "READY: timer:1000"},

	inRegistered:    {"OPENED: ", "READY: "},
	inReplaced:      {"OPENED: ", "CLOSED: end stop record:replaced closed:replaced close:1000"},
	inShutdown:      {"CLOSED: stop record:shutdown closed:peer_disconnected close:1001", "CLOSED: end unregister:s1:x stop record:shutdown closed:peer_disconnected close:1001"},
	inInternalFault: {"ERROR: stop record:internal_fault error:internal_error close:1011", "ERROR: end unregister:s1:x stop record:internal_fault error:internal_error close:1011"},

	inOpen:         {"OPENED: register", "READY: ready"},
	inReady:        {"OPENED: rejected:protocol_error:OPENED", "READY: "},
	inHeartbeat:    {"OPENED: ", "READY: "},
	inClosed:       {"CLOSED: stop record:client_closed close:1000", "CLOSED: end unregister:s1:x stop record:client_closed close:1000"},
	inClientError:  {"OPENED: record:client_error", "READY: record:client_error"},
	inCapabilities: {"OPENED: capabilities", "READY: capabilities"},
	inSubscribe:    {"OPENED: rejected:protocol_error:OPENED", "READY: subscribe"},
	inCancel:       {"OPENED: rejected:protocol_error:OPENED", "READY: cancel"},
	inAcknowledge:  {"OPENED: rejected:protocol_error:OPENED", "READY: ack"},
	inReject:       {"OPENED: rejected:protocol_error:OPENED", "READY: reject"},
	inDomain:       {"OPENED: rejected:protocol_error:OPENED", "READY: publish:x"},
	inWrongControl: {"OPENED: rejected:protocol_error:OPENED", "READY: rejected:protocol_error"},
	inBadEnvelope:  {"OPENED: rejected", "READY: rejected"},
}

// TestMatrix: every input in every state of section 6.
func TestMatrix(t *testing.T) {
	opened := play(t, session{settings: testSettings(false)}, `upgraded -> timer:10000`)
	naming := play(t, opened, `open session=s1 tenant=x -> register:s1:x`)
	ready := play(t, naming, `registered -> ready record:opened timer:1000`)
	f := func(s session, kind inputKind, want string) {
		t.Helper()
		after, do := s.step(&input{kind: kind}, 0, nil)
		if got := fmt.Sprintf("%v: %s", after.state, actionTexts(do)); got != want {
			t.Errorf("%v, %s:\n got %s\nwant %s", s.state, inputNames[kind], got, want)
		}
	}
	for kind := range inputCount {
		if matrix[kind].opened == "" || matrix[kind].ready == "" {
			t.Fatalf("%s is not in the matrix", inputNames[kind])
		}
		f(opened, kind, matrix[kind].opened)
		f(ready, kind, matrix[kind].ready)

		// An end gives up the name that was asked for; all else waits for it.
		after, do := naming.step(&input{kind: kind}, 0, nil)
		gives := len(do) > 0 && do[0].kind == actUnregister
		if kind != inRegistered && gives != after.state.terminal() {
			t.Errorf("naming, %s: %v after %s", inputNames[kind], after.state, actionTexts(do))
		}

		created := "CREATED: "
		switch kind {
		case inUpgraded:
			created = "OPENED: timer:10000"
		case inLost, inPeerClose, inMessageFault, inShutdown, inInternalFault:
			created = "CLOSED: "
		}
		f(session{settings: testSettings(false)}, kind, created)
		for _, end := range []sessionState{stateClosed, stateError} {
			want := end.String() + ": "
			if kind.message() {
				want += "discard"
			}
			f(session{settings: testSettings(false), state: end}, kind, want)
		}
	}
}

// TestSettingsWithoutHeartbeat: B36, the relay's own interval may be none.
func TestSettingsWithoutHeartbeat(t *testing.T) {
	settings := testSettings(false)
	settings.heartbeat = 0
	s := play(t, session{settings: settings}, `
		upgraded -> timer:10000
		open session=s1 -> register:s1
		registered -> ready record:opened stop
		@50000 tick ->
		closed -> end unregister:s1 record:client_closed close:1000`)
	if s.heartbeat != 0 {
		t.Errorf("interval %v", s.heartbeat)
	}
	s = play(t, session{settings: settings}, `
		upgraded -> timer:10000
		open session=s1 heartbeat=2000 -> register:s1
		registered -> ready record:opened timer:2000`)
	if s.heartbeat != 2*time.Second {
		t.Errorf("interval %v", s.heartbeat)
	}
}
