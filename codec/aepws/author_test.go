package aepws

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata/written.txt")

// written is an event that the relay writes.
type written struct {
	name string
	kind Kind
	text []byte
}

// writeAll writes at least one event of each kind that the relay authors.
func writeAll() []written {
	a := NewAuthor(`re"lay`, NewIDs())
	bare := Head{Now: testNow}
	h := Head{Now: testNow.In(time.FixedZone("", 7200)), SessionID: "s:1", CausationID: []byte("c1"), CorrelationID: []byte("co\n")}
	c := &Capabilities{MaxPayloadBytes: 1 << 20, HeartbeatMillis: 30000, ReplayWindow: 24 * time.Hour, MaxRetentionEvents: 1_000_000, AuthRequired: true}
	filter := []byte(`{"types":["a.b"],"x":1.10}`)
	later := testNow.Add(time.Hour)
	faults := []Fault{{InvalidEventType, "type is odd", ReasonUnknownType}, {InvalidEnvelope, `more "wrong"`, ""}}
	dead := h
	dead.TenantID = "te"
	return []written{
		{"ready", KindSessionReady, a.AppendReady(nil, h, c)},
		{"declared", KindCapabilitiesDeclared, a.AppendCapabilities(nil, bare, &Capabilities{})},
		{"heartbeat", KindSessionHeartbeat, a.AppendHeartbeat(nil, Head{Now: testNow, SessionID: "s:1"})},
		{"closed", KindSessionClosed, a.AppendClosed(nil, h, "replaced")},
		{"error", KindSessionError, a.AppendError(nil, bare, Error{Code: UnsupportedVersion, Message: "version"})},
		{"error named", KindSessionError, a.AppendError(nil, h, Error{Code: SessionTimeout, Message: "\x01"})},
		{"created", KindSubscriptionCreated, a.AppendCreated(nil, h, "sub_1", filter, time.Time{}, nil)},
		{"created complete", KindSubscriptionCreated, a.AppendCreated(nil, h, "sub_1", filter, later, &Replay{})},
		{"created gap", KindSubscriptionCreated, a.AppendCreated(nil, h, "sub_1", filter, later, &Replay{Gap: true, OldestCursor: "e:7"})},
		{"created unknown", KindSubscriptionCreated, a.AppendCreated(nil, h, "sub_1", filter, later, &Replay{Gap: true, Reason: ReasonCursorUnknown, OldestCursor: "e:7"})},
		{"subscription rejected", KindSubscriptionRejected, a.AppendSubscriptionRejected(nil, h, filter, Error{Code: SubscriptionRejected, Message: "m", Reason: ReasonCursorMalformed})},
		{"cancelled", KindSubscriptionCancelled, a.AppendCancelled(nil, h, "sub_1")},
		{"expired", KindSubscriptionExpired, a.AppendExpired(nil, h, "sub_1", nil)},
		{"expired early", KindSubscriptionExpired, a.AppendExpired(nil, h, "sub_1", &Error{Code: SubscriptionError, Message: "m", Reason: ReasonTooSlow, LastCursor: "e:7"})},
		{"acknowledged", KindEventAcknowledged, a.AppendAcknowledged(nil, h, `e"1`, 42)},
		{"rejected", KindEventRejected, a.AppendRejected(nil, h, []byte("e1"), faults[0].Answer(), faults)},
		{"rejected plain", KindEventRejected, a.AppendRejected(nil, h, nil, Error{Code: ProtocolError, Message: "m", State: "OPENED"}, nil)},
		{"redelivered", KindEventRedelivered, a.AppendRedelivered(nil, h, "e1", 2, "sub_1")},
		{"replayed", KindEventReplayed, a.AppendReplayed(nil, h, "sub_1", "e:1", "e:9", 8)},
		{"replayed none", KindEventReplayed, a.AppendReplayed(nil, h, "sub_1", "e:1", "", 0)},
		{"dead", KindEventDeadLettered, a.AppendDeadLettered(nil, dead, &DeadLetter{
			EventID: "e1", SubscriptionID: "sub_1", Target: "t", Attempts: 3, LastAttemptAt: later,
			LastError: Error{Code: SubscriptionError, Message: "m", Reason: ReasonMaxAttempts}, Original: []byte(event("")),
		})},
		{"dead rejected", KindEventDeadLettered, a.AppendDeadLettered(nil, h, &DeadLetter{
			EventID: "e1", SubscriptionID: "sub_1", Attempts: 1, ClientError: []byte(`["as",1.0]`), Original: []byte(event("")),
		})},
	}
}

// TestWritten holds what the relay writes to testdata, byte for byte but for
// the ids.
func TestWritten(t *testing.T) {
	file := filepath.Join("testdata", "written.txt")
	id := regexp.MustCompile(`evt_[0-9A-Z]{26}`)
	out := []byte("# name, tab, event of section 5; `-update` rewrites it\n")
	for _, w := range writeAll() {
		out = append(append(out, w.name...), '\t')
		out = append(append(out, id.ReplaceAll(w.text, []byte("ID"))...), '\n')
	}
	if *update {
		if err := os.WriteFile(file, out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out, want) {
		got, want := strings.Split(string(out), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("line %d:\n%s\nwant\n%s", i+1, got[i], want[i])
			}
		}
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
}

// TestWrittenEnvelopes is section 5: what each of the relay's events has, as
// encoding/json and the relay's own scanner read it.
func TestWrittenEnvelopes(t *testing.T) {
	seen := map[string]bool{}
	kinds := map[Kind]bool{}
	for _, w := range writeAll() {
		var m struct {
			AEP    string `json:"aep_version"`
			Spec   string `json:"spec_version"`
			ID     string
			Type   string
			Source string
			At     time.Time `json:"created_at"`
		}
		if err := json.Unmarshal(w.text, &m); err != nil {
			t.Fatalf("%s: %v", w.text, err)
		}
		if m.AEP != "0.1" || m.Spec != "0.1" || !eventID.MatchString(m.ID) || seen[m.ID] || m.Type != w.kind.String() ||
			m.Source != `relay:re"lay` || !m.At.Equal(testNow) || !bytes.Contains(w.text, []byte(`"created_at":"2026-03-01T12:00:00.123Z"`)) {
			t.Errorf("section 5: %s", w.text)
		}
		seen[m.ID], kinds[w.kind] = true, true
		if _, e := admitted(t, string(w.text)); e.Kind != w.kind || e.Versions != HasAEPVersion|HasSpecVersion {
			t.Errorf("%s: kind %d", w.text, e.Kind)
		}
	}
	for k := KindSessionReady; k < kindCount; k++ {
		if k.RelayOnly() && !kinds[k] {
			t.Errorf("B30: nothing writes %s", k)
		}
	}
}

// TestCapabilities is B35, member by member.
func TestCapabilities(t *testing.T) {
	c := &Capabilities{MaxPayloadBytes: 9, HeartbeatMillis: 8, ReplayWindow: 7 * time.Millisecond, MaxRetentionEvents: 6, AuthRequired: true}
	want := `{"protocol":"aep","aep_version":"0.1","spec_version":"0.1","transports":["websocket"],
	"delivery_modes":["best_effort","at_least_once","replayable"],
	"features":["envelope","subscription","error_model","ack","replay","dead_letter"],
	"max_payload_size":9,"compression":[],"heartbeat_interval_ms":8,
	"delivery":{"modes":["best_effort","at_least_once","replayable"],"replay_window_ms":7,"max_retention_events":6,"dead_letter_support":true},
	"auth":{"required":true}}`
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(want)); err != nil {
		t.Fatal(err)
	}
	if got := c.append(nil); string(got) != compact.String() {
		t.Errorf("B35: %s", got)
	}
}

// TestCodes is the table of B27.
func TestCodes(t *testing.T) {
	table := map[string]bool{
		"protocol_error": false, "invalid_envelope": false, "invalid_event_type": false, "unsupported_version": false,
		"internal_error": true, "session_error": false, "session_timeout": true, "session_closed": false,
		"unauthorized": false, "subscription_error": false, "subscription_rejected": false,
	}
	for c := range codeCount {
		if retryable, ok := table[c.String()]; !ok || retryable != c.Retryable() || CodeOf([]byte(c.String())) != c {
			t.Errorf("B27: %s", c)
		}
		delete(table, c.String())
	}
	if len(table) > 0 || CodeOf([]byte("x")) != ProtocolError || codeCount.String() != "protocol_error" {
		t.Errorf("B27: %v are missing", table)
	}
}

// TestFaultAnswers is B25 and B29.
func TestFaultAnswers(t *testing.T) {
	a := NewAuthor("r", NewIDs())
	f := func(text, id, code string, errorCount int, details string) {
		t.Helper()
		_, e := scanned(t, text)
		out := a.AppendFaults(nil, "se", testNow, e)
		var m struct {
			Causation *string `json:"causation_id"`
			Session   string  `json:"session_id"`
			Payload   struct {
				ID    *string `json:"acknowledged_event_id"`
				Error struct {
					Code      string
					Message   string
					Retryable *bool
					Details   json.RawMessage
				}
				Errors []string
			}
		}
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		p := m.Payload
		if (p.ID == nil) != (id == "") || p.ID != nil && (*p.ID != id || *m.Causation != id) || p.ID == nil && m.Causation != nil || m.Session != "se" {
			t.Errorf("B29: %s", out)
		}
		if p.Error.Code != code || p.Error.Retryable == nil || *p.Error.Retryable || len(p.Errors) != errorCount ||
			p.Errors[0] != p.Error.Message || string(p.Error.Details) != details {
			t.Errorf("B25: %s", out)
		}
	}
	f(strings.Replace(event(""), `"0.1"`, `"0.2"`, 1), "evt_1", "unsupported_version", 1, `{"supported":["0.1"]}`)
	f(strings.Replace(event(""), `"evt_1"`, `"a b\""`, 1), `a b"`, "invalid_envelope", 1, "")
	f(strings.Replace(event(""), `"evt_1"`, `7`, 1), "", "invalid_envelope", 1, "")
	f(strings.Replace(event(""), `"evt_1"`, `""`, 1), "", "invalid_envelope", 1, "")
	f(strings.Replace(event(""), `"evt_1"`, `"`+strings.Repeat("x", 600)+`"`, 1), "", "invalid_envelope", 1, "")
	f(strings.Replace(event(`,"target":1`), "task.progress", "Task", 1), "evt_1", "invalid_event_type", 2, "")
	f(`{}`, "", "invalid_envelope", 6, "")
	_, e := admitted(t, event(`,"correlation_id":"co"`))
	if out := a.AppendFaults([]byte("x"), "", testNow, e); string(out) != "x" {
		t.Errorf("an event without faults: %s", out)
	}
	if h := e.Answer("se", testNow); string(h.CorrelationID) != "co" || string(h.CausationID) != "evt_1" || h.SessionID != "se" {
		t.Errorf("section 5: %+v", h)
	}
	if a.Source() != "relay:r" {
		t.Errorf("B64: %s", a.Source())
	}
}

// TestRefusals is B3 and B4.
func TestRefusals(t *testing.T) {
	f := func(code Code, message, want string) {
		t.Helper()
		if got := string(AppendRefusal(nil, code, message)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	f(UnsupportedVersion, "m", `{"error":{"code":"unsupported_version","message":"m","retryable":false,"details":{"supported":["aep-0.1"]}}}`)
	f(ProtocolError, "m\"", `{"error":{"code":"protocol_error","message":"m\"","retryable":false}}`)
}

// TestQuoted: whatever bytes go in, encoding/json reads them back (E5).
func TestQuoted(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, s := range []string{"", "plain", "é😀\u2028", string(all), "\xed\xa0\x80", "x\xff"} {
		var got string
		if err := json.Unmarshal(appendQuoted(nil, s), &got); err != nil || !slices.Equal([]rune(got), []rune(s)) {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
}
