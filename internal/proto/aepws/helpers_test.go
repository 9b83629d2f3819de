package aepws

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "play only this seed in property tests")

// seeds are what a property test plays: count of them, or the one asked for.
func seeds(count uint64, play func(seed uint64)) {
	if *seedFlag != 0 {
		play(*seedFlag)
		return
	}
	for seed := uint64(1); seed <= count; seed++ {
		play(seed)
	}
}

const relaySource = "relay:test"

// testSettings: T is 1000 ms, 10 s to open.
func testSettings(tokenRequired bool) *sessionSettings {
	return &sessionSettings{
		source: relaySource, tokenRequired: tokenRequired,
		heartbeat: time.Second, openTimeout: 10 * time.Second,
	}
}

var inputNames = [inputCount]string{
	inNone: "none", inUpgraded: "upgraded", inPeerClose: "peerclose", inLost: "lost",
	inMessageFault: "fault", inPong: "pong", inTick: "tick", inRegistered: "registered",
	inReplaced: "replaced", inShutdown: "shutdown", inInternalFault: "internal",
	inOpen: "open", inReady: "ready", inHeartbeat: "heartbeat", inClosed: "closed",
	inClientError: "error", inCapabilities: "capabilities", inSubscribe: "subscribe",
	inCancel: "cancel", inAcknowledge: "ack", inReject: "reject", inDomain: "domain",
	inWrongControl: "wrong", inBadEnvelope: "bad",
}

var faultNames = map[string]messageFault{
	"binary": faultBinary, "fragment": faultFragment, "notobject": faultNotObject,
	"utf8": faultUTF8, "toobig": faultTooBig, "frame": faultFrame,
}

// parseInput reads "open session=s1 proof=right".
func parseInput(t testing.TB, text string) *input {
	t.Helper()
	words := strings.Fields(text)
	in := &input{}
	for k, name := range inputNames {
		if name == words[0] {
			in.kind = inputKind(k)
		}
	}
	if in.kind == inNone {
		t.Fatalf("input %q", text)
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		number, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "session":
			in.session = value
		case "tenant":
			in.tenant, in.eventTenant = value, []byte(value)
		case "source":
			in.eventSource = []byte(value)
		case "credential":
			in.credential = credential(number)
		case "proof":
			in.proof = map[string]proof{"right": proofRight, "wrong": proofWrong}[value]
		case "version":
			in.wrongVersion = value != "0.1"
		case "heartbeat":
			in.wishes, in.heartbeat = true, time.Duration(number)*time.Millisecond
		case "verdict":
			in.verdict = map[string]verdict{"replaced": verdictReplaced, "taken": verdictTaken, "full": verdictFull}[value]
		case "fault":
			in.fault = faultNames[value]
		case "code":
			if in.kind == inPeerClose {
				in.closeCode = uint16(number)
			} else {
				in.code = errorCode(value)
			}
		case "reason":
			in.reason = value
		default:
			t.Fatalf("input %q: %q", text, word)
		}
	}
	return in
}

var actionNames = [actionCount]string{
	actSendReady: "ready", actSendClosed: "closed", actSendError: "error", actSendRejected: "rejected",
	actSendHeartbeat: "heartbeat", actSendPing: "ping", actSendCapabilities: "capabilities",
	actClose: "close", actEndSubscriptions: "end", actSubscribe: "subscribe", actCancel: "cancel",
	actAcknowledge: "ack", actReject: "reject", actPublish: "publish", actRegister: "register",
	actUnregister: "unregister", actSetTimer: "timer", actStopTimer: "stop", actRecord: "record",
	actDiscard: "discard",
}

// text writes an action as "close:1000", with what counts at its kind.
func (a action) text() string {
	parts := []string{actionNames[a.kind]}
	add := func(values ...any) {
		for _, v := range values {
			if s := fmt.Sprint(v); s != "" && s != "0" {
				parts = append(parts, s)
			}
		}
	}
	switch a.kind {
	case actSendClosed:
		add(a.reason)
	case actSendError:
		add(a.code)
	case actSendRejected:
		add(a.code, a.reason)
		if a.state != stateCreated {
			add(a.state)
		}
	case actClose:
		add(a.closeCode)
	case actPublish:
		add(a.tenant)
	case actRegister:
		add(a.session, a.tenant, uint64(a.credential))
	case actUnregister:
		add(a.session, a.tenant)
	case actSetTimer:
		add(a.at.Milliseconds())
	case actRecord:
		add(a.what, a.closeCode)
	}
	return strings.Join(parts, ":")
}

func actionTexts(do []action) string {
	texts := make([]string, len(do))
	for i, a := range do {
		texts[i] = a.text()
	}
	return strings.Join(texts, " ")
}

// play runs a script on a session: lines of "[@ms] input -> actions". It returns
// the session after it.
func play(t testing.TB, s session, script string) session {
	t.Helper()
	now := s.now
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		command, want, _ := strings.Cut(line, "->")
		if at, rest, ok := strings.Cut(command, " "); ok && strings.HasPrefix(at, "@") {
			ms, err := strconv.Atoi(at[1:])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			now, command = time.Duration(ms)*time.Millisecond, rest
		}
		var do []action
		s, do = s.step(parseInput(t, command), now, nil)
		if got := actionTexts(do); got != strings.TrimSpace(want) {
			t.Errorf("%s\n got %s", line, got)
		}
	}
	return s
}
