package aepws

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// watcher looks at the steps of one session from outside and holds them to the
// invariants and to the clock of B37 and B40, which it keeps by itself.
type watcher struct {
	t        testing.TB
	seed     any
	settings *sessionSettings
	s        session
	now      time.Duration // as the session must see it

	timer          time.Duration // 0: none is set
	openedAt       time.Duration
	lastPong       time.Duration // or READY
	nextBeat       time.Duration // T after the last or, after a pause, after now
	registers      int
	unregisters    int
	refused, taken bool // by the directory, by another connection
	ends, closes   int
	wasReady       bool
	do             []action
}

func (w *watcher) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %v: "+format, append([]any{w.seed}, args...)...)
}

// step plays one input and looks at what it did.
func (w *watcher) step(in *input, now time.Duration) {
	before := w.s
	w.now = max(w.now, now)
	w.s, w.do = before.step(in, now, w.do[:0])
	if before.state.terminal() {
		w.absorbed(&before, in)
		return
	}
	w.timers(&before, in)
	w.actions(&before, in)
	w.moves(&before, in)
}

// absorbed: M1.
func (w *watcher) absorbed(before *session, in *input) {
	want := 0
	if in.kind.message() {
		want = 1
	}
	if w.s.state != before.state || len(w.do) != want || want == 1 && w.do[0].kind != actDiscard {
		w.failf("%v takes %s: %s", before.state, inputNames[in.kind], actionTexts(w.do))
	}
}

// timers: M5, B37, B39, B40.
func (w *watcher) timers(before *session, in *input) {
	was := w.timer
	for _, a := range w.do {
		switch a.kind {
		case actSetTimer:
			if a.at <= w.now {
				w.failf("%s at %v sets %s", inputNames[in.kind], w.now, a.text())
			}
			if before.state == stateReady && a.at < was {
				w.failf("timer goes back from %v to %v", was, a.at)
			}
			w.timer = a.at
		case actStopTimer:
			w.timer = 0
		case actSendPing:
			if before.state != stateReady || w.now < w.nextBeat || in.kind != inTick {
				w.failf("ping at %v, the next is due at %v", w.now, w.nextBeat)
			}
			if w.nextBeat += before.heartbeat; w.nextBeat <= w.now {
				w.nextBeat = w.now + before.heartbeat
			}
		}
	}
	if in.kind == inTick {
		late := before.state == stateOpened && w.now >= w.openedAt+w.settings.openTimeout ||
			before.state == stateReady && before.heartbeat > 0 && w.now >= w.lastPong+3*before.heartbeat
		if late != (w.s.state == stateError) {
			w.failf("tick in %v at %v: %v; last pong %v", before.state, w.now, w.s.state, w.lastPong)
		}
	}
}

// actions: M2, M3, M4, and what is only done in READY.
func (w *watcher) actions(before *session, in *input) {
	for i, a := range w.do {
		switch a.kind {
		case actClose:
			w.closes++
			if i != len(w.do)-1 || w.closes > 1 || !w.s.state.terminal() {
				w.failf("close in %s", actionTexts(w.do))
			}
			w.precedes(a.closeCode, i, in)
		case actEndSubscriptions:
			w.ends++
			if i != 0 || before.state != stateReady || !w.s.state.terminal() {
				w.failf("%v: %s", before.state, actionTexts(w.do))
			}
		case actPublish, actSubscribe, actCancel, actAcknowledge, actReject:
			if before.state != stateReady || a.kind == actPublish && a.tenant != before.tenant {
				w.failf("%v: %s", before.state, actionTexts(w.do))
			}
		case actRegister:
			w.registers++
			w.refused = false
		case actUnregister:
			w.unregisters++
			if a.session != w.s.id || a.tenant != w.s.tenant {
				w.failf("%s of %q", a.text(), w.s.id)
			}
		case actNone:
			w.failf("no action in %s", actionTexts(w.do))
		}
	}
}

// precedes: what B43 has sent before a close code, or who else is its cause.
func (w *watcher) precedes(code uint16, i int, in *input) {
	said := ""
	if i > 0 {
		said = w.do[i-1].text()
	}
	ok := in.kind == inPeerClose && (in.closeCode == code || in.closeCode == 0 && code == closeNormal)
	switch code {
	case closeNormal:
		ok = ok || in.kind == inClosed || said == "closed:replaced"
	case closeGoingAway:
		ok = ok || said == "closed:peer_disconnected" || said == "error:session_timeout"
	case closeProtocol:
		ok = ok || in.kind == inMessageFault && in.fault >= faultFrame || in.kind == inPeerClose && !mayBeSent(in.closeCode)
		ok = ok || said == "error:protocol_error" || said == "error:unsupported_version"
	case closeInvalidText:
		ok = ok || in.kind == inMessageFault && in.fault == faultUTF8
	case closeTooBig:
		ok = ok || in.kind == inMessageFault && in.fault == faultTooBig
	case closeUnauthorized:
		ok = ok || said == "error:unauthorized"
	case closeInternal:
		ok = ok || said == "error:internal_error"
	}
	if !ok {
		w.failf("%s leads to %s", inputNames[in.kind], actionTexts(w.do))
	}
}

// moves follows the state, and closes the books at the end.
func (w *watcher) moves(before *session, in *input) {
	switch {
	case before.state == stateCreated && w.s.state == stateOpened:
		w.openedAt = w.now
	case before.state == stateOpened && w.s.state == stateReady:
		w.lastPong, w.nextBeat, w.wasReady = w.now, w.now+w.s.heartbeat, true
		if w.s.id == "" || w.s.naming || w.do[0].kind != actSendReady {
			w.failf("READY as %q with %s", w.s.id, actionTexts(w.do))
		}
	case before.state == w.s.state && w.s.state == stateReady && in.kind == inPong:
		w.lastPong = w.now
	case before.state != w.s.state && !w.s.state.terminal():
		w.failf("%v to %v", before.state, w.s.state)
	}
	if in.kind == inRegistered && before.naming {
		w.refused = in.verdict == verdictTaken || in.verdict == verdictFull
	}
	w.taken = w.taken || in.kind == inReplaced && before.state == stateReady
	switch {
	case w.s.state.terminal():
		w.over(before, in)
	case w.s.state == stateOpened && (w.timer == 0 || w.timer > w.openedAt+w.settings.openTimeout):
		w.failf("OPENED since %v with timer %v", w.openedAt, w.timer)
	case w.s.state == stateReady && w.s.heartbeat > 0 && (w.timer == 0 || w.timer > w.nextBeat):
		w.failf("READY with timer %v at %v, interval %v", w.timer, w.now, w.s.heartbeat)
	case w.s.state == stateReady && w.s.heartbeat == 0 && w.timer != 0:
		w.failf("READY without interval with timer %v", w.timer)
	}
}

func (w *watcher) over(before *session, in *input) {
	wantEnds := 0
	if w.wasReady {
		wantEnds = 1
	}
	owed := w.registers
	if w.refused {
		owed--
	}
	if w.taken {
		owed--
	}
	silent := in.kind == inLost || before.state == stateCreated && in.kind != inUpgraded
	if w.ends != wantEnds || w.unregisters != owed || w.timer != 0 || (w.closes == 0) != silent {
		w.failf("%s in %v: %s; %d registered, timer %v", inputNames[in.kind], before.state, actionTexts(w.do), owed, w.timer)
	}
}

// walk plays random inputs. pick chooses 0..n-1.
func walk(t testing.TB, seed any, steps int, pick func(n int) int) *watcher {
	settings := testSettings(pick(2) == 0)
	settings.heartbeat = []time.Duration{time.Second, 0, 30 * time.Second}[pick(3)]
	w := &watcher{t: t, seed: seed, settings: settings, s: session{settings: settings}}
	if pick(8) > 0 {
		w.step(&input{kind: inUpgraded, session: []string{"", "q"}[pick(2)], proof: proof(pick(8) % 2), tenant: []string{"", "x"}[pick(2)]}, 0)
	}
	now := time.Duration(0)
	for range steps {
		now += []time.Duration{0, time.Millisecond, 300 * time.Millisecond, -time.Second}[pick(4)]
		in := randomInput(w, pick)
		if in.kind == inTick && w.timer != 0 && pick(4) > 0 {
			now = w.timer + time.Duration(pick(3))*100*time.Millisecond
		}
		w.step(in, now)
	}
	return w
}

// randomInput returns an input as a caller may give it: one that asked for a
// session answers first, mostly.
func randomInput(w *watcher, pick func(n int) int) *input {
	in := &input{kind: inputKind(pick(int(inputCount) + 1))} // one kind too many
	switch pick(16) {
	case 0, 1, 2:
		in.kind = inTick
	case 3, 4:
		in.kind = inPong
	case 5, 6, 7, 8:
		in.kind = inDomain + inputKind(pick(3)) - 1
	case 9, 10:
		in.kind = inOpen
	}
	if w.s.naming && pick(16) > 0 {
		in.kind = inRegistered
	}
	in.session = []string{"", "s1", "s1", "s2"}[pick(4)]
	in.tenant = []string{"", "x", "y"}[pick(3)]
	in.eventTenant, in.eventSource = []byte(in.tenant), []byte([]string{"", relaySource, "a"}[pick(3)])
	in.proof = []proof{proofNone, proofRight, proofRight, proofWrong}[pick(4)]
	in.credential = credential(pick(3))
	in.verdict = []verdict{verdictOpened, verdictOpened, verdictReplaced, verdictTaken, verdictFull}[pick(5)]
	in.wrongVersion = pick(16) == 0
	in.wishes = pick(2) == 0
	in.heartbeat = []time.Duration{0, -1, time.Millisecond, 2 * time.Second, 1 << 62}[pick(5)]
	in.fault = messageFault(pick(int(faultCount) + 1))
	in.closeCode = []uint16{0, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1008, 1011, 1014, 1015, 2000, 3000, 5000}[pick(15)]
	return in
}

// TestSessionProperty: M1 to M5 after every step of random sessions.
func TestSessionProperty(t *testing.T) {
	var ready, closed, failed int
	seeds(4000, func(seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := walk(t, seed, 60, rnd.IntN)
		if w.wasReady {
			ready++
		}
		switch w.s.state {
		case stateClosed:
			closed++
		case stateError:
			failed++
		}
	})
	if *seedFlag == 0 && (ready < 1000 || closed < 200 || failed < 200) {
		t.Errorf("of 4000 sessions %d were READY, %d ended CLOSED, %d ended ERROR", ready, closed, failed)
	}
}

// FuzzSession plays the picks of the input: no step panics or breaks an
// invariant.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 1, 0, 4, 0, 0, 9, 9, 9, 9})
	for seed := range uint64(8) {
		data := make([]byte, 600)
		rnd := rand.New(rand.NewPCG(seed, 2))
		for i := 0; i < len(data); i += 8 {
			binary.LittleEndian.PutUint64(data[i:], rnd.Uint64())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		steps := len(data) / 16
		walk(t, "fuzz", steps, func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := int(data[0])
			data = data[1:]
			return b % n
		})
	})
}
