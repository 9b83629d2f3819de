package aepws

import "time"

// envelope checks the members that the scan noted (B17 to B24) and fills e.
func (s *Scanner) envelope(e *Envelope) {
	e.Faults = append(e.Faults, s.twice...)
	typ := s.typeMember(e)
	s.versions(e)
	s.checkType(e, typ)
	s.checkID(e)
	domain := e.Kind == KindDomain
	e.Source = s.identity(e, fieldSource, domain)
	e.CreatedAt = s.time(e, fieldCreated, domain)
	s.payload(e, domain)
	e.Target = s.identity(e, fieldTarget, false)
	e.Topic = s.identity(e, fieldTopic, false)
	e.SessionID = s.identity(e, fieldSession, false)
	e.ConversationID = s.identity(e, fieldConversation, false)
	e.TaskID = s.identity(e, fieldTask, false)
	e.CorrelationID = s.identity(e, fieldCorrelation, false)
	e.CausationID = s.identity(e, fieldCausation, false)
	e.TenantID = s.identity(e, fieldTenant, false)
	if raw := s.raw(fieldExpires); raw != nil && raw[0] != 'n' {
		e.ExpiresAt = s.time(e, fieldExpires, false)
		// The zero time, which some programs send for none, has passed too.
		if e.ExpiresAt.Before(time.Unix(0, 0)) {
			e.ExpiresAt = time.Unix(0, 0).UTC()
		}
	}
	s.delivery(e)
	if raw := s.raw(fieldSchema); raw != nil && raw[0] != '"' {
		e.fault(InvalidEnvelope, "payload_schema is not a string")
	}
	s.authorization(e)
}

// add adds a fault to the list, which is bounded.
func (e *Envelope) add(f Fault) {
	if len(e.Faults) < MaxFaults {
		e.Faults = append(e.Faults, f)
	}
}

func (e *Envelope) fault(code Code, text string) { e.add(Fault{Code: code, Text: text}) }

// raw returns the raw value of a member, nil when it is absent.
func (s *Scanner) raw(f field) []byte {
	at := s.fields[f]
	if at.end == 0 {
		return nil
	}
	return s.text[at.start:at.end]
}

// typeMember reads the type and tells a control event from a domain event,
// on which the other checks depend.
func (s *Scanner) typeMember(e *Envelope) []byte {
	raw := s.raw(fieldType)
	if raw == nil {
		return nil
	}
	typ, _ := s.content(raw)
	if ValidType(typ) {
		e.Kind = kindOf(typ)
	}
	return typ
}

// versions is B19.
func (s *Scanner) versions(e *Envelope) {
	for f := fieldAEPVersion; f <= fieldSpecVersion; f++ {
		raw := s.raw(f)
		if raw == nil {
			continue
		}
		e.Versions |= 1 << f
		switch version, ok := s.content(raw); {
		case !ok || len(version) == 0:
			e.fault(InvalidEnvelope, textReasons[f])
		case string(version) != Version:
			e.fault(UnsupportedVersion, versionReasons[f])
		}
	}
	if e.Versions == 0 && e.Kind == KindDomain {
		e.fault(InvalidEnvelope, missingReasons[fieldAEPVersion])
	}
}

// checkType is B24.
func (s *Scanner) checkType(e *Envelope, typ []byte) {
	switch {
	case s.raw(fieldType) == nil:
		e.fault(InvalidEnvelope, missingReasons[fieldType])
	case len(typ) == 0:
		e.fault(InvalidEnvelope, textReasons[fieldType])
	case !ValidType(typ):
		e.fault(InvalidEventType, "type is not 2 to 8 segments of [a-z][a-z0-9_]* in at most 128 bytes")
	case e.Kind == KindUnknownControl:
		e.fault(ProtocolError, "type is of a control family and not known")
	case e.Kind == KindDomain && s.Types != nil && !s.Types.Has(typ):
		e.add(Fault{InvalidEventType, "type is not in the registry", ReasonUnknownType})
	default:
		e.Type = typ
	}
}

// checkID is B20 for id.
func (s *Scanner) checkID(e *Envelope) {
	raw := s.raw(fieldID)
	if raw == nil {
		if e.Kind == KindDomain {
			e.fault(InvalidEnvelope, missingReasons[fieldID])
		}
		return
	}
	id, ok := s.content(raw)
	switch {
	case !ok || len(id) == 0:
		e.fault(InvalidEnvelope, textReasons[fieldID])
	case !isVisible(id, maxIDBytes):
		e.fault(InvalidEnvelope, "id is not 1 to 128 visible ASCII characters")
	}
	e.ID = id
}

// identity is B20 for the other identities.
func (s *Scanner) identity(e *Envelope, f field, required bool) []byte {
	raw := s.raw(f)
	if raw == nil {
		if required {
			e.fault(InvalidEnvelope, missingReasons[f])
		}
		return nil
	}
	switch text, ok := s.content(raw); {
	case !ok || len(text) == 0:
		e.fault(InvalidEnvelope, textReasons[f])
	case len(text) > maxIdentityBytes:
		e.fault(InvalidEnvelope, longReasons[f])
	default:
		return text
	}
	return nil
}

// time is B21.
func (s *Scanner) time(e *Envelope, f field, required bool) time.Time {
	raw := s.raw(f)
	if raw == nil {
		if required {
			e.fault(InvalidEnvelope, missingReasons[f])
		}
		return time.Time{}
	}
	text, ok := s.content(raw)
	if !ok || len(text) == 0 {
		e.fault(InvalidEnvelope, textReasons[f])
		return time.Time{}
	}
	t, ok := parseTime(text)
	if !ok {
		e.fault(InvalidEnvelope, timeReasons[f])
	}
	return t
}

var emptyObject = []byte("{}")

// payload is B22.
func (s *Scanner) payload(e *Envelope, domain bool) {
	raw := s.raw(fieldPayload)
	switch {
	case raw != nil && (domain || raw[0] == '{'):
		e.Payload = raw
	case raw != nil:
		e.fault(InvalidEnvelope, objectReasons[fieldPayload])
	case domain:
		e.fault(InvalidEnvelope, missingReasons[fieldPayload])
	default:
		e.Payload = emptyObject
	}
}

// delivery is B23, and notes how the member is cut out of the text (B57).
func (s *Scanner) delivery(e *Envelope) {
	raw := s.raw(fieldDelivery)
	if raw == nil {
		return
	}
	e.cutStart, e.cutEnd = s.beforeDelivery, int(s.fields[fieldDelivery].end)
	if s.beforeDelivery == 0 {
		e.cutStart = e.start + 1
		if s.afterDelivery > 0 {
			e.cutEnd = s.afterDelivery
		}
	}
	if raw[0] != '{' {
		e.fault(InvalidEnvelope, objectReasons[fieldDelivery])
		return
	}
	bad := false
	for m := membersOf(raw); m.next(); {
		switch string(s.unescaped(m.name)) {
		case "mode":
			name, _ := s.content(m.value)
			e.Mode = modeOf(name)
			bad = e.Mode == ModeAbsent
		case "retry":
			e.Retry = m.value
		}
	}
	if bad {
		e.fault(InvalidEnvelope, "delivery.mode is not best_effort, at_least_once or replayable")
	}
}

// authorization reads the credential of B7.
func (s *Scanner) authorization(e *Envelope) {
	raw := s.raw(fieldAuthorization)
	if raw == nil {
		return
	}
	if raw[0] != '{' {
		e.fault(InvalidEnvelope, objectReasons[fieldAuthorization])
		return
	}
	for m := membersOf(raw); m.next(); {
		switch string(s.unescaped(m.name)) {
		case "scheme":
			e.Scheme, _ = s.content(m.value)
		case "token":
			e.Token, _ = s.content(m.value)
		}
	}
}
