package aepws

import "time"

// inputKind is what happened to a session.
type inputKind uint8

const (
	inNone inputKind = iota

	// Of the transport.
	inUpgraded     // 101 is sent: session, tenant, credential, proof
	inPeerClose    // a close frame: closeCode, 0 without one (B42)
	inLost         // the connection is gone without a close frame (B42)
	inMessageFault // fault (B11 to B16)
	inPong         // (B37)
	inTick         // the timer fired

	// Of the relay.
	inRegistered    // the answer to actRegister: verdict, session
	inReplaced      // another connection has taken the session over (B44)
	inShutdown      // the relay goes down (B43)
	inInternalFault // the relay failed this connection (B43)

	// Messages.
	inOpen         // session.opened: session, tenant, credential, proof, wrongVersion, heartbeat
	inReady        // session.ready
	inHeartbeat    // session.heartbeat
	inClosed       // session.closed
	inClientError  // session.error
	inCapabilities // capabilities.requested
	inSubscribe    // subscription.requested
	inCancel       // subscription.cancelled
	inAcknowledge  // event.acknowledged
	inReject       // event.rejected
	inDomain       // an event to publish: eventTenant, eventSource
	inWrongControl // a control event that no client sends (B30)
	inBadEnvelope  // a message with faults: code, reason (B25)

	inputCount
)

// message tells if the input is an event of the client.
func (k inputKind) message() bool { return k >= inOpen && k < inputCount }

// proof is what was said with a credential (B7).
type proof uint8

const (
	proofNone  proof = iota // no credential was shown
	proofRight              // a valid one
	proofWrong              // one that is not valid
)

// credential tells valid tokens apart, within one run of the relay: 0 where none
// is asked for. It is made of the token by whoever checks tokens and cannot be
// turned back.
type credential uint64

// verdict is the directory's answer (B44).
type verdict uint8

const (
	verdictOpened   verdict = iota // the connection holds the session
	verdictReplaced                // so it does, and another one held it before
	verdictTaken                   // a connection with another credential holds it
	verdictFull                    // the directory is full
)

// messageFault is why a message, or what should be one, ends the connection.
type messageFault uint8

const (
	faultBinary    messageFault = iota // B11
	faultFragment                      // B12
	faultNotObject                     // B15
	faultUTF8                          // B13
	faultTooBig                        // B14
	faultFrame                         // B16
	faultCount
)

// input is one input of a session. Which fields count is said at its kind; the
// others are ignored. The strings come checked: session ids are those of B32,
// tenants those of B20. They are kept, so they must not be borrowed.
type input struct {
	kind         inputKind
	proof        proof
	verdict      verdict
	fault        messageFault
	wrongVersion bool   // version is there and not "0.1" (B31)
	wishes       bool   // heartbeat is set
	closeCode    uint16 // as received

	session    string // empty: the client names none
	tenant     string // empty: none
	credential credential
	heartbeat  time.Duration // the client's wish, any value (B36)

	code   errorCode // of the first fault
	reason string    // details.reason of it, or empty

	// Borrowed until return; empty: none.
	eventTenant, eventSource []byte
}
