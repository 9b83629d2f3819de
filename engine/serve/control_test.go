package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// controller is a recorder that is a ControlHandler.
type controller struct {
	recorder
	last []byte // said before a Close for a fault
}

func (p *controller) OnPong()              { p.note("pong") }
func (p *controller) OnPeerClose(code int) { p.note(fmt.Sprint("peer close ", code)) }
func (p *controller) OnFault(err *wsframe.Error) []byte {
	p.note("fault " + err.Error())
	return p.last
}

// controlled opens a socket whose handler is a ControlHandler.
func controlled(t *testing.T, o UpgradeOptions) (*rig, *sock, *controller) {
	t.Helper()
	p := &controller{recorder: recorder{isSocket: true}}
	r := newRig(t, handlerFunc(func(x *Exchange) { p.peer = x.UpgradeWith(p, o) }))
	s := r.dial()
	s.send(upgradeHead)
	s.wantSwitching()
	return r, s, p
}

func (p *controller) want(t *testing.T, what, want string) {
	t.Helper()
	if got := strings.Join(p.log, "|"); got != want {
		t.Errorf("%s: the handler was told %q, want %q", what, got, want)
	}
}

// The handler is told of Pongs and of the peer's Close, which is answered as for
// any other.
func TestControlTold(t *testing.T) {
	for code, echo := range map[int]string{0: "close:0", 1000: "close:1000", 1008: "close:1008", 4321: "close:4321"} {
		_, s, p := controlled(t, UpgradeOptions{})
		s.send(frame(wsframe.OpPong, true, "") + textFrame("a") + frame(wsframe.OpPong, true, "x") + closeFrame(code))
		s.wantFrames(echo)
		s.wantState("closed")
		p.want(t, echo, fmt.Sprintf("pong|text a|pong|peer close %d|close", code))
	}
}

// A Close that answers the handler's own is not told, nor is a lost connection.
func TestControlOwnClose(t *testing.T) {
	_, s, p := controlled(t, UpgradeOptions{})
	p.peer.CloseSocket(1001, "", CloseTimeout)
	s.send(closeFrame(1001))
	p.want(t, "answered", "close")
	_, s, p = controlled(t, UpgradeOptions{})
	s.hangUp()
	p.want(t, "lost", "close")
}

// What the handler says to a fault goes out before the Close, behind the rest of
// a frame that is partly written; what else is owed is dropped.
func TestControlFault(t *testing.T) {
	for _, c := range []struct{ name, in, want, told string }{
		{"binary fragment", frame(wsframe.OpBinary, false, "x"), "text:why|close:1002", "fault message is fragmented|close"},
		{"continuation", frame(wsframe.OpContinuation, true, "x"), "text:why|close:1002", "fault message is fragmented|close"},
		{"text", frame(wsframe.OpText, true, "\xff"), "text:why|close:1007", "fault text is not UTF-8|close"},
		{"bits", badFrame, "text:why|close:1002", "fault reserved bits without an extension|close"},
	} {
		_, s, p := controlled(t, UpgradeOptions{Whole: true})
		p.last = serverText("why")
		s.send(c.in)
		s.wantFrames(c.want)
		p.want(t, c.name, c.told)

		_, s, p = controlled(t, UpgradeOptions{Whole: true})
		p.last = serverText("why")
		s.room = 4
		p.peer.Send(serverText("torn"))
		p.peer.Send(serverText("dropped"))
		s.send(c.in)
		s.takeAll()
		s.wantFrames("text:torn|" + c.want)

		_, s, _ = controlled(t, UpgradeOptions{Whole: true})
		s.send(c.in)
		s.wantFrames(strings.TrimPrefix(c.want, "text:why|"))
	}
}

// Fragments are taken unless the handler wants whole messages.
func TestControlFragmentsTaken(t *testing.T) {
	_, s, p := controlled(t, UpgradeOptions{})
	s.send(frame(wsframe.OpText, false, "a") + frame(wsframe.OpContinuation, true, "b"))
	p.want(t, "accept", "text ab")
}

// A panic in what is told ends this connection alone (C5).
func TestControlPanics(t *testing.T) {
	for _, in := range []string{frame(wsframe.OpPong, true, ""), closeFrame(1000), badFrame} {
		r, s, p := controlled(t, UpgradeOptions{})
		r.faults = 1
		p.hook = func(event string) {
			if event != "close" {
				panic(event)
			}
		}
		s.send(in)
		s.wantState("reset")
		if p.count("close") != 1 {
			t.Errorf("%q: OnClose was called %d times", in, p.count("close"))
		}
	}
}
