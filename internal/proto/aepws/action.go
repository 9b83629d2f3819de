package aepws

import "time"

// actionKind is what the caller has to do.
type actionKind uint8

const (
	actNone actionKind = iota

	// To the peer.
	actSendReady        // session.ready with the session's id and heartbeat (B35)
	actSendClosed       // session.closed: reason
	actSendError        // session.error: code, reason is its message
	actSendRejected     // event.rejected: code, reason, state (OPENED: B33)
	actSendHeartbeat    // session.heartbeat (B39)
	actSendPing         // a Ping (B37)
	actSendCapabilities // capabilities.declared (B35)
	actClose            // a close frame with closeCode, ahead of queued events

	// To the session's parts; the message in hand says the rest.
	actEndSubscriptions // end all, without a word (B45)
	actSubscribe
	actCancel
	actAcknowledge
	actReject
	actPublish // tenant is the event's from here on (B46)

	// To the relay.
	actRegister   // session, tenant, credential: step inRegistered at once
	actUnregister // session, tenant
	actSetTimer   // at; replaces what was set
	actStopTimer
	actRecord  // what, closeCode: log and counters
	actDiscard // a message after the end (B41): count it

	actionCount
)

// errorCode is a code of B27, as on the wire.
type errorCode string

const (
	codeProtocolError      errorCode = "protocol_error"
	codeUnsupportedVersion errorCode = "unsupported_version"
	codeInternalError      errorCode = "internal_error"
	codeSessionTimeout     errorCode = "session_timeout"
	codeUnauthorized       errorCode = "unauthorized"
)

// Reasons of session.closed (B42, B44).
const (
	reasonReplaced         = "replaced"
	reasonPeerDisconnected = "peer_disconnected"
)

// Close codes that the relay gives by itself (B43).
const (
	closeNormal       = 1000
	closeGoingAway    = 1001
	closeProtocol     = 1002
	closeInvalidText  = 1007
	closeUnauthorized = 1008
	closeTooBig       = 1009
	closeInternal     = 1011
)

// record is what is written to the log and counted.
type record uint8

const (
	recordOpened             record = iota // READY
	recordClientError                      // session.error of the client; nothing ends
	recordClientClosed                     // session.closed of the client (B41)
	recordNormal                           // close 1000, or without a code (B42)
	recordPeerDisconnected                 // close 1001 (B42)
	recordPeerProtocolError                // close 1002 (B42)
	recordPeerUnauthorized                 // close 1008 (B42)
	recordPeerInternalError                // close 1011 (B42)
	recordPeerCode                         // another close code, in closeCode (B42)
	recordLost                             // no close frame (B42)
	recordBadCloseCode                     // a close code that may not be sent (B42)
	recordReplaced                         // B44
	recordShutdown                         // B43
	recordOpenTimeout                      // B40
	recordPongTimeout                      // B37
	recordUnsupportedVersion               // B31
	recordUnauthorized                     // B31, B44
	recordMessageFault                     // B11 to B16
	recordInternalFault                    // B43
	recordCount
)

var recordNames = [recordCount]string{
	"opened", "client_error", "client_closed", "normal", "peer_disconnected",
	"peer_protocol_error", "peer_unauthorized", "peer_internal_error", "peer_code",
	"lost", "bad_close_code", "replaced", "shutdown", "open_timeout", "pong_timeout",
	"unsupported_version", "unauthorized", "message_fault", "internal_fault",
}

// String returns the name under which the record stands in logs and counters.
func (r record) String() string {
	if r >= recordCount {
		return "unknown"
	}
	return recordNames[r]
}

// action is one thing to do. Which fields count is said at its kind.
type action struct {
	kind       actionKind
	what       record
	state      sessionState
	closeCode  uint16
	code       errorCode
	reason     string
	session    string
	tenant     string
	credential credential
	at         time.Duration
}
