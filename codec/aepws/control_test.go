package aepws

import (
	"strings"
	"testing"
)

// TestReadOpen is B31, B32, B36 and B7.
func TestReadOpen(t *testing.T) {
	type want struct {
		session     string
		unsupported bool
		has         bool
		millis      int
		token       string
	}
	f := func(rule, extra, payload string, w want) {
		t.Helper()
		s, e := admitted(t, `{"type":"session.opened","payload":`+payload+extra+`}`)
		var r OpenRequest
		if fault := s.ReadOpen(e, &r); fault != nil {
			t.Errorf("%s: %s %s: %v", rule, payload, extra, fault)
		}
		if got := (want{string(r.SessionID), r.UnsupportedVersion, r.HasHeartbeat, r.HeartbeatMillis, string(r.Token)}); got != w {
			t.Errorf("%s: %s %s: %+v, want %+v", rule, payload, extra, got, w)
		}
	}
	f("B31", "", `{}`, want{})
	f("B31", "", `{"version":"0.1"}`, want{})
	for _, v := range []string{`"9.9"`, `0.1`, `null`, `""`, `"0.10"`} {
		f("case 8", "", `{"version":`+v+`}`, want{unsupported: true})
	}
	f("B32", "", `{"session_id":"a:b"}`, want{session: "a:b"})
	f("B32", `,"session_id":"env"`, `{"session_id":"pay"}`, want{session: "pay"})
	f("B32", `,"session_id":"env"`, `{"session_id":null}`, want{session: "env"})
	f("B32", `,"session_id":"env"`, `{}`, want{session: "env"})
	for v, millis := range map[string]int{
		"0": 0, "-0.0": 0, "0e5": 0, "1": 1000, "999.9": 1000, "-5": 1000, "1000": 1000, "1500.7": 1500, "3e4": 30000,
		"300000": 300_000, "300001": 300_000, "1e999": 300_000, "-1e999": 1000, "0.4": 1000,
	} {
		f("B36", "", `{"capabilities":{"heartbeat_interval_ms":`+v+`}}`, want{has: true, millis: millis})
	}
	for _, v := range []string{`{"heartbeat_interval_ms":"1"}`, `{"heartbeat_interval_ms":null}`, `{"heartbeat_interval_ms":true}`, `{}`, `[]`, `null`, `"x"`} {
		f("B36", "", `{"capabilities":`+v+`}`, want{})
	}
	f("B7", `,"authorization":{"scheme":"bearer","token":"t"}`, `{}`, want{token: "t"})
	f("B7", `,"authorization":{"token":"t","scheme":"Bearer"}`, `{}`, want{token: "t"})
	for _, v := range []string{`{"scheme":"basic","token":"t"}`, `{"token":"t"}`, `{"scheme":"bearer"}`, `{"scheme":"bearer","token":1}`} {
		f("B7", `,"authorization":`+v, `{}`, want{})
	}
	for _, v := range []string{`{"session_id":1}`, `{"session_id":""}`, `{"session_id":"a b"}`, `{"session_id":"é"}`, `{"session_id":"` + strings.Repeat("x", 129) + `"}`} {
		s, e := admitted(t, control(KindSessionOpened, v))
		var r OpenRequest
		if fault := s.ReadOpen(e, &r); fault == nil || fault.Code != InvalidEnvelope {
			t.Errorf("B32: %s: %v", v, fault)
		}
	}
	s, e := admitted(t, `{"type":"session.opened","tenant_id":"te","session_id":"a b"}`)
	var r OpenRequest
	if fault := s.ReadOpen(e, &r); fault == nil || string(r.TenantID) != "te" {
		t.Errorf("B32, B46: %+v, %v", r, fault)
	}
}

// TestReadAck is B58 and B59.
func TestReadAck(t *testing.T) {
	f := func(payload, event, subscription, cursor string) {
		t.Helper()
		s, e := admitted(t, control(KindEventAcknowledged, payload))
		var r AckRequest
		fault := s.ReadAck(e, &r)
		if event == "" {
			if fault == nil || fault.Code != InvalidEnvelope {
				t.Errorf("%s: %+v, %v", payload, r, fault)
			}
			return
		}
		got := ""
		if r.HasCursor {
			got = string(AppendCursor(nil, string(r.CursorID), r.CursorSequence))
		}
		if fault != nil || string(r.EventID) != event || string(r.SubscriptionID) != subscription || got != cursor {
			t.Errorf("%s: %+v, %v", payload, r, fault)
		}
	}
	f(`{"acknowledged_event_id":"e1"}`, "e1", "", "")
	f(`{"acknowledged_event_id":"e\u0031","subscription_id":"sub_1","cursor":"e1:5"}`, "e1", "sub_1", "e1:5")
	f(`{"acknowledged_event_id":"e1","subscription_id":null,"cursor":"nonsense"}`, "e1", "", "")
	f(`{"acknowledged_event_id":"e1","cursor":null}`, "e1", "", "")
	f(`{}`, "", "", "")
	f(`{"acknowledged_event_id":null}`, "", "", "")
	f(`{"acknowledged_event_id":""}`, "", "", "")
	f(`{"acknowledged_event_id":["e1"]}`, "", "", "")
	f(`{"acknowledged_event_id":"e1","subscription_id":7}`, "", "", "")
}

// TestReadOthers is B26, B41, B53 and B58.
func TestReadOthers(t *testing.T) {
	s, e := admitted(t, control(KindEventRejected, `{"acknowledged_event_id":"e1","subscription_id":"sub_1","error":{"code":"internal_error","x":1.0}}`))
	var r RejectRequest
	s.ReadReject(e, &r)
	if string(r.EventID) != "e1" || string(r.SubscriptionID) != "sub_1" || r.Code != InternalError || string(r.Error) != `{"code":"internal_error","x":1.0}` {
		t.Errorf("B58: %+v", r)
	}
	for _, payload := range []string{`{}`, `{"acknowledged_event_id":null,"error":null}`, `{"error":{"code":"new_code"}}`, `{"error":{}}`, `{"error":{"code":1}}`, `{"subscription_id":1}`} {
		s, e := admitted(t, control(KindEventRejected, payload))
		s.ReadReject(e, &r)
		if r.EventID != nil || r.SubscriptionID != nil || r.Code != ProtocolError {
			t.Errorf("B26: %s: %+v", payload, r)
		}
	}
	for payload, want := range map[string]string{`{"subscription_id":"sub_1"}`: "sub_1", `{"subscription_id":""}`: "", `{"subscription_id":1}`: "", `{}`: "", `{"subscription_id":"a","subscription_id":"b"}`: "b"} {
		s, e := admitted(t, control(KindSubscriptionCancelled, payload))
		id, fault := s.ReadCancel(e)
		if string(id) != want || (fault == nil) != (want != "") {
			t.Errorf("B53: %s: %q, %v", payload, id, fault)
		}
	}
	for payload, want := range map[string]string{`{"reason":"done"}`: "done", `{"reason":1}`: "", `{}`: ""} {
		s, e := admitted(t, control(KindSessionClosed, payload))
		if got := s.ReadClosed(e); string(got) != want {
			t.Errorf("B41: %s: %q", payload, got)
		}
	}
	for payload, want := range map[string]Code{`{"error":{"code":"session_timeout"}}`: SessionTimeout, `{"error":1}`: ProtocolError, `{}`: ProtocolError} {
		s, e := admitted(t, control(KindSessionError, payload))
		if raw, code := s.ReadError(e); code != want || (raw == nil) != (payload == `{}`) {
			t.Errorf("B26: %s: %s, %v", payload, raw, code)
		}
	}
}

// TestOddPayloads: white space and nesting anywhere do not confuse the readers.
func TestOddPayloads(t *testing.T) {
	s, e := admitted(t, control(KindEventAcknowledged, " { \"x\" : [ { } , [ ] , \"}\\\"\" ] ,\n\"acknowledged_event_id\"\t: \"e1\" , \"y\" : 1 } "))
	var r AckRequest
	if fault := s.ReadAck(e, &r); fault != nil || string(r.EventID) != "e1" {
		t.Errorf("%+v, %v", r, fault)
	}
	f := filterOf(t, `{ "types" : [ "a.b" , "c.*" ] , "source" : "s" , "empty" : [ ] , "none" : { } }`)
	if !f.Match(&Attributes{Type: "c.d", Source: "s"}) || f.Match(&Attributes{Type: "d.e", Source: "s"}) {
		t.Error(f.Canonical())
	}
	for _, empty := range []string{`{"types":[ ]}`, `{ }`} {
		if _, fault := readFilter(t, empty, ""); fault == nil {
			t.Errorf("%s: taken", empty)
		}
	}
}
