package aep

import (
	"slices"

	"github.com/sluice-relay/sluice/codec/aep"
)

// onCommand routes a command to the one connection that claims its session
// (R390 to R394). msg is the message as received: borrowed.
func (k *socket) onCommand(ev *aep.Event, msg []byte) {
	if !k.s.cfg.Auth.Enabled() {
		k.refuseCommand(ev.ID(), aep.CodeUnauthorized, "a relay without a token routes no commands")
		return
	}
	target, count := k.s.claims.target(ev.Session())
	switch {
	case count == 0:
		k.refuseCommand(ev.ID(), aep.CodeNoRoute, "no connection claims this session")
		return
	case count > 1:
		k.refuseCommand(ev.ID(), aep.CodeAmbiguous, "more than one connection claims this session")
		return
	}
	if h := target.greeting.Load(); h.AcceptsDeclared && !slices.Contains(h.Accepts, ev.Type()) {
		k.refuseCommand(ev.ID(), aep.CodeUnsupported, "the target does not accept this command")
		k.take(ev) // the audit copy, once per command received (R398)
		return
	}
	// The copy first: a target on another loop may answer before this one goes
	// on, and whoever follows the session sees the command before its answer.
	id, frame := ev.ID(), text(msg)
	k.take(ev)
	k.forward(target, id, frame)
}

// refuseCommand tells the sender, and nobody else (R396).
func (k *socket) refuseCommand(cause, code, detail string) {
	k.refuse(&aep.ErrorFrame{Code: code, Cause: cause, HasCause: true, Detail: detail})
}

// forward hands the text of a command to its target, which may live on another
// loop (R397). A target that has gone or cannot take it means no route.
func (k *socket) forward(target *socket, id string, frame []byte) {
	if target.w == k.w {
		if !target.peer.Command(frame) {
			k.noRoute(id)
		}
		return
	}
	err := target.w.Loop().Post(func() {
		if !target.peer.Command(frame) {
			k.w.Loop().Later(func() { k.noRoute(id) })
		}
	})
	if err != nil {
		k.noRoute(id)
	}
}

func (k *socket) noRoute(id string) {
	if !k.peer.Gone() {
		k.refuseCommand(id, aep.CodeNoRoute, "the target is gone")
	}
}

// onRoster lists the claims of this relay's own connections (R380 to R383).
func (k *socket) onRoster() {
	raw, _ := k.w.scanner.RawMember("id")
	idRaw := append([]byte(nil), raw...)
	if k.greeting.Load().Role == aep.RoleEmitter {
		k.refuse(&aep.ErrorFrame{Code: aep.CodeUnauthorized, IDRaw: idRaw, Detail: "emitters get no roster"})
		return
	}
	var entries []aep.RosterEntry
	size := 0
	k.s.claims.each(func(session string, other *socket) bool {
		h := other.greeting.Load()
		if h.Role == aep.RoleConsumer {
			return true
		}
		entries = append(entries, aep.RosterEntry{
			Session: session, Agent: h.Agent, Instance: h.Instance, Control: h.Control, Emits: h.Emits,
		})
		size += len(session) + len(h.Agent) + len(h.Instance) + len(h.Control) + len(h.Emits)
		return size <= maxRosterBytes
	})
	var reply []byte
	if size <= maxRosterBytes {
		reply = aep.AppendRoster(nil, idRaw, entries)
	}
	if size > maxRosterBytes || len(reply) > maxRosterBytes {
		k.refuse(&aep.ErrorFrame{Code: aep.CodeLimitExceeded, IDRaw: idRaw, Detail: "the roster is over 1 MiB"})
		return
	}
	k.peer.Reply(text(reply))
}
