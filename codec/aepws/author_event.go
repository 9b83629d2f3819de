package aepws

import "time"

// AppendAcknowledged appends event.acknowledged for the publisher of the event
// with an id and a number (B55).
func (a *Author) AppendAcknowledged(dst []byte, h Head, eventID string, sequence int64) []byte {
	dst = a.begin(dst, &h, KindEventAcknowledged)
	dst = appendQuoted(append(dst, `{"acknowledged_event_id":`...), eventID)
	dst = appendQuotedCursor(append(dst, `,"cursor":`...), eventID, sequence)
	return append(dst, '}', '}')
}

// AppendRejected appends event.rejected for an event (B29): id is the one it
// had, nil for none; see Envelope.Answer for the same in the head. errors are
// the texts of all faults, the message of x alone where there are none.
func (a *Author) AppendRejected(dst []byte, h Head, id []byte, x Error, faults []Fault) []byte {
	dst = a.begin(dst, &h, KindEventRejected)
	dst = appendNullable(dst, `{"acknowledged_event_id":`, borrow(id))
	dst = x.append(append(dst, `,"error":`...), Version)
	dst = append(dst, `,"errors":[`...)
	if len(faults) == 0 {
		dst = appendQuoted(dst, x.Message)
	}
	for i := range faults {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, faults[i].Text)
	}
	return append(dst, `]}}`...)
}

// AppendFaults appends event.rejected for an event that has faults: the first
// is the error, all are listed (B25). Without any nothing is appended.
func (a *Author) AppendFaults(dst []byte, sessionID string, now time.Time, e *Envelope) []byte {
	if len(e.Faults) == 0 {
		return dst
	}
	return a.AppendRejected(dst, e.Answer(sessionID, now), e.answerableID(), e.Faults[0].Answer(), e.Faults)
}

// AppendRedelivered appends event.redelivered, which goes before an event that
// is sent again; attempts count from 1, the first send (B58).
func (a *Author) AppendRedelivered(dst []byte, h Head, eventID string, attempt int, subscriptionID string) []byte {
	dst = a.begin(dst, &h, KindEventRedelivered)
	dst = appendQuoted(append(dst, `{"original_event_id":`...), eventID)
	dst = appendNumber(dst, `,"attempt":`, int64(attempt))
	dst = appendQuoted(append(dst, `,"subscription_id":`...), subscriptionID)
	return append(dst, '}', '}')
}

// AppendReplayed appends event.replayed, which ends a replay (B52). from is the
// cursor that the client gave, to that of the last event sent; with none sent
// to is empty, which is written as null.
func (a *Author) AppendReplayed(dst []byte, h Head, subscriptionID, from, to string, events int64) []byte {
	dst = a.begin(dst, &h, KindEventReplayed)
	dst = appendQuoted(append(dst, `{"subscription_id":`...), subscriptionID)
	dst = appendNullable(dst, `,"from_cursor":`, from)
	dst = appendNullable(dst, `,"to_cursor":`, to)
	dst = appendNumber(dst, `,"events_replayed":`, events)
	return append(dst, '}', '}')
}

// DeadLetter is an event that was given up (B58).
type DeadLetter struct {
	EventID        string
	SubscriptionID string
	Target         string // of the event; empty is null
	Attempts       int
	LastAttemptAt  time.Time // zero is null
	LastError      Error
	// ClientError is the raw error of the subscriber that rejected the event,
	// as sent (B26); it goes in the place of LastError when not nil.
	ClientError []byte
	Original    []byte // one JSON text; see AppendOriginal
}

// AppendDeadLettered appends event.dead_lettered. The head names the tenant of
// the event.
func (a *Author) AppendDeadLettered(dst []byte, h Head, d *DeadLetter) []byte {
	dst = a.begin(dst, &h, KindEventDeadLettered)
	dst = appendQuoted(append(dst, `{"original_event_id":`...), d.EventID)
	dst = appendQuoted(append(dst, `,"subscription_id":`...), d.SubscriptionID)
	dst = appendNullable(dst, `,"target":`, d.Target)
	dst = appendNumber(dst, `,"attempts":`, int64(d.Attempts))
	dst = appendNullableTime(dst, `,"last_attempt_at":`, d.LastAttemptAt)
	dst = append(dst, `,"last_error":`...)
	if d.ClientError != nil {
		dst = append(dst, d.ClientError...)
	} else {
		dst = d.LastError.append(dst, Version)
	}
	dst = append(append(dst, `,"original_event":`...), d.Original...)
	return append(dst, '}', '}')
}

// DeadLetterAttributes returns what filters see of a dead letter (B58).
func (a *Author) DeadLetterAttributes(tenant string) Attributes {
	return Attributes{Type: deadLettered, Source: a.source, TenantID: tenant}
}
