package firehoseclients

import (
	"testing"

	"github.com/sluice-relay/sluice/internal/nodetest"
)

// otherKey is the public key of somebody else (the did:key method's own
// example of secp256k1).
const otherKey = "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"

// noCursor starts @atproto/sync without a cursor: then it sends an empty one.
const noCursor = -1

// atproto is @atproto/sync that follows a stream. Owned by the test.
type atproto struct {
	*client
	handed map[int64][]map[string]any // to the application, by number
	cursor int64                      // of its last setCursor
}

// startAtproto starts it with the key that commits must be signed with.
func startAtproto(t *testing.T, v vectors, url string, cursor int64, key string) *atproto {
	t.Helper()
	argument := map[string]any{
		"service": url, "did": v.Signer.DID, "handle": handle, "didKey": key, "didDoc": v.Signer.DIDDoc,
	}
	if cursor != noCursor {
		argument["cursor"] = cursor
	}
	c := run(t, "atproto.mjs", argument)
	return &atproto{client: c, handed: map[int64][]map[string]any{}, cursor: cursor}
}

// event returns the next line that is not what is told of a message later: it
// notes those. Between accounts they have no order.
func (a *atproto) event() line {
	a.t.Helper()
	l := a.next()
	for a.note(l) {
		l = a.next()
	}
	return l
}

// note keeps what is told of a message after its decoding.
func (a *atproto) note(l line) bool {
	switch l.Event {
	case "handled":
		a.handed[l.Seq] = append(a.handed[l.Seq], l.Message)
	case "cursor":
		a.cursor = l.Seq
	default:
		return false
	}
	return true
}

// take returns the next event, which must be this one.
func (a *atproto) take(event string) line {
	a.t.Helper()
	l := a.event()
	if l.Event != event {
		a.t.Fatalf("got %+v, want the event %s", l, event)
	}
	return l
}

// want takes the messages of vectors, decoded and validated with all their
// fields, in order; and then what the application gets of them, when the
// signatures are verified.
func (a *atproto) want(all []sent) {
	a.t.Helper()
	a.wantAfter(all, all)
}

// wantAfter is want when the first of the messages were taken.
func (a *atproto) wantAfter(all, left []sent) {
	a.t.Helper()
	for _, want := range left {
		same(a.t, want.Name, a.take("message").Message, want.typed(want.seq))
	}
	for last := all[len(all)-1].seq; a.cursor != last; {
		if l := a.next(); !a.note(l) {
			a.t.Fatalf("got %+v, want the cursor %d", l, last)
		}
	}
	for _, want := range all {
		a.checkHanded(want)
		delete(a.handed, want.seq)
	}
	if len(a.handed) > 0 {
		a.t.Fatalf("handed over besides: %v", a.handed)
	}
}

// checkHanded compares what the application got of one vector.
func (a *atproto) checkHanded(want sent) {
	a.t.Helper()
	due, got := want.handed(a.t, want.seq), a.handed[want.seq]
	if len(got) != len(due) {
		a.t.Fatalf("%s: handed over %v, want %v", want.Name, got, due)
	}
	for i := range due {
		same(a.t, want.Name, got[i], due[i])
	}
}

// handed returns what @atproto/sync makes of a vector: one event for each record
// of a commit, the event itself otherwise.
func (f *vector) handed(t *testing.T, seq int64) (list []map[string]any) {
	t.Helper()
	b := f.numbered(seq)
	switch f.Header.T {
	case "#commit":
		records := recordsOf(t, unhex(t, f.Hex))
		for _, op := range b["ops"].([]any) {
			op := op.(map[string]any)
			m := map[string]any{
				"event": op["action"], "seq": b["seq"], "did": b["repo"], "time": b["time"], "rev": b["rev"],
				"commit": b["commit"], "uri": "at://" + b["repo"].(string) + "/" + op["path"].(string),
			}
			if op["cid"] != nil {
				m["cid"], m["record"] = op["cid"], records[linkOf(op["cid"])]
			}
			list = append(list, m)
		}
		return list
	case "#sync": // with the root of its blocks
		b["event"], b["cid"] = "sync", map[string]any{"$link": rootOf(t, unhex(t, f.Hex))}
		delete(b, "blocks")
	case "#identity": // with the handle that it has verified, not with the frame's
		b["event"], b["handle"] = "identity", handle
		delete(b, "zNew")
	case "#account":
		b["event"] = "account"
	}
	return append(list, b)
}

// TestAtprotoDecodesAll is section 11 and case 1: all vectors, live after the
// empty cursor that this client sends, and replayed after one that it has.
func TestAtprotoDecodesAll(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1)
	list := v.messages(t)
	s.publishAll(list[:1]) // is not for who comes without a cursor (F19)
	p := nodetest.StartProxy(t, s.addr)
	live := startAtproto(t, v, p.URL(), noCursor, v.Signer.DIDKey)
	p.Await(t, 1)
	all := s.publishAll(list)
	live.want(all)
	if got := p.Targets()[0]; got != subscribePath+"?cursor=" {
		t.Errorf("case 1: it asked for %s", got)
	}
	startAtproto(t, v, s.url(), 1, v.Signer.DIDKey).want(all) // F21, F24: after the cursor
	startAtproto(t, v, s.url(), 8, v.Signer.DIDKey).want(all[7:])
}

// TestAtprotoRefusesOtherKey shows that signatures are looked at.
func TestAtprotoRefusesOtherKey(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1)
	commit := s.publishAll([]vector{v.named(t, "commit-first")})[0]
	a := startAtproto(t, v, s.url(), 0, otherKey)
	same(t, commit.Name, a.take("message").Message, commit.typed(commit.seq))
	if l := a.take("error"); l.Text != "error in parsing and authenticating firehose event" || len(a.handed) > 0 {
		t.Errorf("got %+v, and %v", l, a.handed)
	}
}

// TestAtprotoResumes: it connects again by itself, at its cursor, after an end
// without a close frame, a reset and a cut in mid-frame.
func TestAtprotoResumes(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1)
	p := nodetest.StartProxy(t, s.addr)
	a := startAtproto(t, v, p.URL(), noCursor, v.Signer.DIDKey)
	p.Await(t, 1)
	resumes(t, v, s, p, breaks{
		want:  a.want,
		ended: func() { a.lost() },
		again: func() { a.take("again") },
	})
	wantTargets(t, p, subscribePath+"?cursor=", subscribePath+"?cursor=")
}

// lost takes the end of a connection that it means to make again.
func (a *atproto) lost() {
	a.t.Helper()
	if l := a.take("lost"); l.Code != "EWSABNORMALCLOSE" && l.Code != "ECONNRESET" {
		a.t.Fatalf("F48: lost with %v", l.Code)
	}
}

// TestAtprotoRelayRestarts is F48 and case 42: a relay that stops drops its
// connections without a close frame, after which this client comes back. After
// a clean close it would end.
func TestAtprotoRelayRestarts(t *testing.T) {
	v, dir := readVectors(t), t.TempDir()
	s := startIn(t, dir, "0", 1)
	all := v.messages(t)
	first := s.publishAll(all)
	a := startAtproto(t, v, s.url(), 0, v.Signer.DIDKey)
	a.want(first)
	s = restart(t, s, dir)
	a.lost()
	for l := a.event(); l.Event != "again"; l = a.event() { // tries while nobody listened
		if l.Event != "lost" {
			t.Fatalf("got %+v", l)
		}
	}
	a.want(s.publishAll(all))
}

// TestAtprotoNotices is F22, F23 and case 5: an error frame reaches the
// application, and the client tries again until its cursor is no longer above
// all numbers; #info is passed over.
func TestAtprotoNotices(t *testing.T) {
	const floor = 1000
	v, s := readVectors(t), startSource(t, floor)
	all := v.messages(t)
	first := s.publishAll(all[:2])
	a := startAtproto(t, v, s.url(), 5, v.Signer.DIDKey)
	if info := a.take("message").Message; info["name"] != "OutdatedCursor" || info["$type"] != "com.atproto.sync.subscribeRepos#info" {
		t.Errorf("F22: %v", info)
	}
	a.want(first) // and nothing was handed over of #info

	a = startAtproto(t, v, s.url(), s.next, v.Signer.DIDKey)
	for range 2 {
		a.future(a.event())
	}
	s.publishAll(all[:1]) // has the number of its cursor
	second := s.publishAll(all[1:])
	l := a.event()
	for ; l.Event != "message"; l = a.event() { // of tries before that
		a.future(l)
	}
	same(t, second[0].Name, l.Message, second[0].typed(second[0].seq))
	a.wantAfter(second, second[1:])
}

// future takes a FutureCursor error.
func (a *atproto) future(l line) {
	a.t.Helper()
	if l.Event != "error" || l.Text != "error on firehose subscription" || l.Name != "FutureCursor" {
		a.t.Fatalf("F23: got %+v", l)
	}
}
