package device

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// openAlone is the number of envelopes below which one goroutine opens them
	// all: starting more costs what opening some ten envelopes does.
	openAlone = 64
	// openRun is how many envelopes a goroutine takes at a time.
	openRun = 16
)

// opened is one envelope of a page: an event, or why it is none.
type opened struct {
	event  devicestore.Event
	reason string // "" for an event
	id     string // of the event, as far as it is known
}

// openPage opens the envelopes of a page and classifies them (D11, D20, D32).
// The order is kept.
func (d *Device) openPage(id *synccrypt.Identity, p page, now time.Time) (events []devicestore.Event, refused []devicestore.Refusal) {
	all := make([]opened, len(p.events))
	open := func(from, to int) {
		for i := from; i < to; i++ {
			all[i] = d.open(id, p.events[i], now)
		}
	}
	if workers := min(runtime.GOMAXPROCS(0), len(all)/openRun); len(all) < openAlone || workers < 2 {
		open(0, len(all))
	} else {
		var next atomic.Int64
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for {
					from := int(next.Add(openRun)) - openRun
					if from >= len(all) {
						return
					}
					open(from, min(from+openRun, len(all)))
				}
			})
		}
		group.Wait()
	}
	events = make([]devicestore.Event, 0, len(all))
	for i := range all {
		if all[i].reason != "" {
			refused = append(refused, devicestore.Refusal{Reason: all[i].reason, Event: withoutToken(all[i].id, id)})
			continue
		}
		events = append(events, all[i].event)
	}
	return events, refused
}

// open opens one envelope.
func (d *Device) open(id *synccrypt.Identity, envelope []byte, now time.Time) opened {
	p, h, plain, err := id.OpenPayload(envelope)
	o := opened{id: h.EventID}
	unknown := errors.Is(err, synccrypt.ErrUnknown)
	switch {
	case unknown:
		if known, ok := d.upgraded(p, plain); ok {
			p, unknown = known, false
		}
	case errors.Is(err, synccrypt.ErrOtherOwner):
		o.reason = reasonOtherOwner
	case errors.Is(err, synccrypt.ErrTag):
		o.reason = reasonBadTag
	case errors.Is(err, synccrypt.ErrPayload):
		o.reason = reasonBadPayload
	case err != nil:
		o.reason = reasonBadEnvelope
	}
	if o.reason != "" {
		if o.id == "" {
			o.id = named(envelope)
		}
		return o
	}
	clock, err := synccrypt.ParseHLC(h.EventID)
	if err != nil || p.HLC != h.EventID && (!unknown || p.HLC != "") {
		o.reason = reasonBadPayload
		return o
	}
	o.event = event(p)
	o.event.ID = h.EventID
	switch {
	case unknown:
		o.event.Defer, o.event.Plain = devicestore.Unknown, plain
	case clock.Millis > now.Add(devicestore.MaxAhead).UnixMilli():
		o.event.Defer, o.event.Plain = devicestore.Future, plain
	}
	return o
}

// named returns the event id that an envelope which was refused gives itself,
// for people to look for. Nothing vouches for it.
func named(envelope []byte) string {
	var e struct {
		EventID string `json:"eventId"`
	}
	_ = json.Unmarshal(envelope, &e) // what cannot be read has no name
	return e.EventID
}

// event is a payload that can be applied.
func event(p synccrypt.Payload) devicestore.Event {
	return devicestore.Event{
		ID: p.HLC, Key: devicestore.Key{Table: p.Table, ID: p.ID},
		Deleted: p.Deleted, Data: p.Row, Schema: p.SchemaVersion,
	}
}

// upgraded reads a payload of a newer version than the codec's as one of this
// device's version, which has the same form (D14). ok is false when it is newer
// still, or of another form.
func (d *Device) upgraded(p synccrypt.Payload, plain []byte) (synccrypt.Payload, bool) {
	if p.SchemaVersion <= 1 || p.SchemaVersion > d.o.SchemaVersion {
		return p, false
	}
	var form struct {
		SchemaVersion      int
		Table, ID, Op, HLC string
		Row                json.RawMessage
	}
	in := json.NewDecoder(bytes.NewReader(plain))
	in.DisallowUnknownFields()
	if in.Decode(&form) != nil || p.Table == "" || p.ID == "" || p.HLC == "" {
		return p, false
	}
	switch {
	case form.Op == "upsert" && len(form.Row) > 0 && form.Row[0] == '{':
		p.Row = form.Row
	case form.Op == "delete" && form.Row == nil:
		p.Deleted = true
	default:
		return p, false
	}
	return p, true
}

// reopen decodes the plain text of a deferred event that is due. One that is
// authentic and still of an unknown form stays deferred, for the version after
// this one (D32).
func (d *Device) reopen(plain []byte) (devicestore.Event, error) {
	p, err := synccrypt.DecodePayload(plain)
	if errors.Is(err, synccrypt.ErrUnknown) {
		if known, ok := d.upgraded(p, plain); ok {
			return event(known), nil
		}
		return devicestore.Event{ID: p.HLC, Defer: devicestore.Unknown, Schema: p.SchemaVersion}, nil
	}
	if err != nil {
		return devicestore.Event{}, err
	}
	return event(p), nil
}

// applyDue applies what was deferred and can be applied now (D20).
func (d *Device) applyDue() (rows int, err error) {
	return d.store.ApplyDue(d.o.Now(), d.o.SchemaVersion, d.reopen)
}

// seal makes the envelope of a payload as this device sends it.
func (d *Device) seal(id *synccrypt.Identity, key devicestore.Key, hlc string, deleted bool, data []byte) ([]byte, error) {
	p := synccrypt.Payload{
		SchemaVersion: d.o.SchemaVersion, Table: key.Table, ID: key.ID, Deleted: deleted, HLC: hlc,
	}
	if !deleted {
		p.Row = data
	}
	return id.Seal(nil, &p, d.store.Device(), d.o.Now(), rand.Reader)
}
