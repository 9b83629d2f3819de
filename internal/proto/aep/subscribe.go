package aep

import (
	"errors"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/engine/fanout"
)

func (k *socket) onSubscribe(msg []byte) {
	req, err := aep.DecodeSubscribe(msg)
	if err != nil {
		return // not an object: cannot be
	}
	sub, plan, size, refusal := k.parseSubscribe(&req)
	if refusal != nil {
		refusal.IDRaw = req.IDRaw
		k.refuse(refusal)
		return
	}
	if old := k.subs[sub.ID]; old != nil {
		k.filterBytes -= old.filterBytes
	} else {
		k.countSubscriptions(1)
	}
	if k.subs == nil {
		k.subs = make(map[string]*subscription)
	}
	k.subs[sub.ID] = &subscription{idRaw: req.IDRaw, filterBytes: size}
	k.filterBytes += size
	sub.Data = req.IDRaw
	k.peer.Subscribe(sub, plan, text(aep.AppendSubscribed(nil, req.IDRaw)))
}

func (k *socket) countSubscriptions(n int64) {
	k.subscriptions.Add(n)
	k.s.subscriptions.Add(n)
}

// parseSubscribe checks a subscribe frame in the order of R321.
func (k *socket) parseSubscribe(req *aep.Subscribe) (*fanout.Sub, fanout.Plan, int, *aep.ErrorFrame) {
	refuse := func(code, detail string) (*fanout.Sub, fanout.Plan, int, *aep.ErrorFrame) {
		return nil, fanout.Plan{}, 0, &aep.ErrorFrame{Code: code, Detail: detail}
	}
	id, err := aep.ParseSubscriptionID(req.IDRaw)
	if err != nil {
		return refuse(aep.CodeInvalidFilter, err.Error())
	}
	old := k.subs[id]
	others := k.filterBytes
	if old != nil {
		others -= old.filterBytes
	}
	if len(req.Filter) > maxFilterBytes || others+len(req.Filter) > maxAllFilterBytes {
		return refuse(aep.CodeLimitExceeded, "a filter may have 65536 bytes, all filters of a connection 1048576")
	}
	filter, err := aep.ParseFilter(req.Filter)
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
	case old == nil && len(k.subs) >= maxSubscriptions:
		return refuse(aep.CodeLimitExceeded, "a connection may have 256 subscriptions")
	}
	return &fanout.Sub{
		ID:       id,
		Selector: selector{filter},
		Form:     formOf(ceiling, wireSocket),
		Track:    true,
	}, planOf(positions, all), len(req.Filter), nil
}

// onUnsubscribe answers always, also for an id that is not known (R326).
func (k *socket) onUnsubscribe() {
	raw, _ := k.w.scanner.RawMember("id")
	idRaw := append([]byte(nil), raw...)
	ack := text(aep.AppendUnsubscribed(nil, idRaw))
	id, err := aep.ParseSubscriptionID(idRaw)
	sub := k.subs[id]
	if err != nil || sub == nil {
		k.peer.Reply(ack)
		return
	}
	delete(k.subs, id)
	k.filterBytes -= sub.filterBytes
	k.countSubscriptions(-1)
	k.peer.Unsubscribe(id, ack)
}
