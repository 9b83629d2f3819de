package aep

import (
	"bytes"
	"errors"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/engine/fanout"
)

func (k *socket) onSubscribe(msg []byte) {
	req, err := aep.DecodeSubscribe(msg)
	if err != nil {
		return // not an object: cannot be
	}
	sub, plan, refusal := k.parseSubscribe(&req)
	if refusal != nil {
		refusal.IDRaw = req.IDRaw
		k.refuse(refusal)
		return
	}
	if !k.remove(sub.ID) {
		k.countSubscriptions(1)
	}
	sub.next, k.subs = k.subs, sub
	k.filterBytes += sub.filterBytes
	k.peer.Subscribe(&sub.Sub, plan, text(aep.AppendSubscribed(nil, req.IDRaw)))
}

// lastFilter is the filter that a loop parsed last, and its text.
type lastFilter struct {
	text   []byte
	filter *aep.Filter
}

// parseFilter parses a filter. Subscriptions of a loop that ask alike one after
// the other, as after a restart, share what it means. text is borrowed.
func (w *worker) parseFilter(text []byte) (*aep.Filter, error) {
	if w.filter.filter != nil && bytes.Equal(text, w.filter.text) {
		return w.filter.filter, nil
	}
	f, err := aep.ParseFilter(text)
	if err != nil {
		return nil, err
	}
	w.filter = lastFilter{append(w.filter.text[:0], text...), f}
	return f, nil
}

func (k *socket) countSubscriptions(n int32) {
	k.subscriptions.Add(n)
	k.s.subscriptions.Add(int64(n))
}

// find returns the subscription of that ID, nil if there is none. There are at
// most maxSubscriptions.
func (k *socket) find(id string) *subscription {
	s := k.subs
	for s != nil && s.ID != id {
		s = s.next
	}
	return s
}

// remove forgets the subscription of that ID and tells whether there was one.
func (k *socket) remove(id string) bool {
	for at := &k.subs; *at != nil; at = &(*at).next {
		if s := *at; s.ID == id {
			*at, s.next = s.next, nil // the engine may keep it for a while
			k.filterBytes -= s.filterBytes
			return true
		}
	}
	return false
}

// idRawOf returns the id of a socket's subscription as its peer wrote it, nil if
// it wrote none.
func idRawOf(sub *fanout.Sub) []byte {
	if s, ok := sub.Data.(*subscription); ok && s.idRaw != "" {
		return []byte(s.idRaw)
	}
	return nil
}

// parseSubscribe checks a subscribe frame in the order of R321.
func (k *socket) parseSubscribe(req *aep.Subscribe) (*subscription, fanout.Plan, *aep.ErrorFrame) {
	refuse := func(code, detail string) (*subscription, fanout.Plan, *aep.ErrorFrame) {
		return nil, fanout.Plan{}, &aep.ErrorFrame{Code: code, Detail: detail}
	}
	id, err := aep.ParseSubscriptionID(req.IDRaw)
	if err != nil {
		return refuse(aep.CodeInvalidFilter, err.Error())
	}
	old := k.find(id)
	others := int(k.filterBytes)
	if old != nil {
		others -= int(old.filterBytes)
	}
	if len(req.Filter) > maxFilterBytes || others+len(req.Filter) > maxAllFilterBytes {
		return refuse(aep.CodeLimitExceeded, "a filter may have 65536 bytes, all filters of a connection 1048576")
	}
	filter, err := k.w.parseFilter(req.Filter)
	if err != nil {
		return refuse(aep.CodeInvalidFilter, err.Error())
	}
	ceiling, err := aep.ParseCeiling(req.Capture)
	if err != nil {
		return refuse(aep.CodeInvalidFilter, err.Error())
	}
	positions, all, _, err := aep.ParseFrom(req.From, k.s.cfg.MaxFrom)
	switch {
	case errors.Is(err, aep.ErrFromTooLarge):
		return refuse(aep.CodeLimitExceeded, err.Error())
	case err != nil:
		return refuse(aep.CodeInvalidFilter, err.Error())
	case old == nil && k.subscriptions.Load() >= maxSubscriptions:
		return refuse(aep.CodeLimitExceeded, "a connection may have 256 subscriptions")
	}
	ids := id + string(req.IDRaw) // one text
	sub := &subscription{idRaw: ids[len(id):], filterBytes: int32(len(req.Filter))}
	sub.Sub = fanout.Sub{
		ID: ids[:len(id)], Selector: selector{filter}, Form: formOf(ceiling, wireSocket), Track: true, Data: sub,
	}
	return sub, planOf(positions, all), nil
}

// onUnsubscribe answers always, also for an id that is not known (R326).
func (k *socket) onUnsubscribe() {
	raw, _ := k.w.scanner.RawMember("id")
	idRaw := append([]byte(nil), raw...)
	ack := text(aep.AppendUnsubscribed(nil, idRaw))
	id, err := aep.ParseSubscriptionID(idRaw)
	if err != nil || !k.remove(id) {
		k.peer.Reply(ack)
		return
	}
	k.countSubscriptions(-1)
	k.peer.Unsubscribe(id, ack)
}
