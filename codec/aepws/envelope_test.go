package aepws

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEnvelopes is B17 to B24 and hard cases 15 to 19, from testdata.
func TestEnvelopes(t *testing.T) {
	strict, bad := NewRegistry("extra.type")
	if bad != nil {
		t.Fatal(bad)
	}
	for _, row := range rows(t, "envelopes.txt", 3) {
		rule, text, want := row[0], row[1], row[2]
		var s Scanner
		if strings.HasPrefix(rule, "strict/") {
			s.Types = strict
		}
		var e Envelope
		if err := s.Scan([]byte(text), &e); err != nil {
			t.Errorf("%s: %.200s: %v", rule, text, err)
			continue
		}
		var codes []string
		for _, f := range e.Faults {
			codes = append(codes, f.Code.String())
			if f.Text == "" {
				t.Errorf("%s: %.200s: a fault without a text", rule, text)
			}
		}
		if got := strings.Join(codes, " "); got != strings.Trim(want, "-") {
			t.Errorf("%s: %.200s:\n%v, want %s", rule, text, e.Faults, want)
		}
		if s.Types != nil && len(e.Faults) > 0 && e.Faults[0].Reason != ReasonUnknownType {
			t.Errorf("%s: reason %q", rule, e.Faults[0].Reason)
		}
	}
}

// TestEnvelopeMembers: every member is read, with escapes decoded.
func TestEnvelopeMembers(t *testing.T) {
	text := `{"delivery":{"retry":{"max":3},"mode":"at_least_once"},"id":"a\u002fb","type":"task.progr\u0065ss",` +
		`"source":"s\u00e9\ud83d\ude00\ud800","target":"t","topic":"to","session_id":"se","conversation_id":"co",` +
		`"task_id":"ta","correlation_id":"cr","causation_id":"ca","tenant_id":"te\"","created_at":"2026-03-01T13:30:00.5+01:30",` +
		`"expires_at":"2026-03-01T12:00:00Z","authorization":{"scheme":"Bearer","token":"to\u006ben"},"spec_version":"0.1",` +
		`"p\u0061yload":[1.10]}`
	_, e := admitted(t, text)
	got := []string{
		string(e.ID), string(e.Type), string(e.Source), string(e.Target), string(e.Topic), string(e.SessionID),
		string(e.ConversationID), string(e.TaskID), string(e.CorrelationID), string(e.CausationID), string(e.TenantID),
		string(e.Scheme), string(e.Token), string(e.Payload), string(e.Retry), e.Mode.String(),
	}
	want := []string{
		"a/b", "task.progress", "sé😀\uFFFD", "t", "to", "se", "co", "ta", "cr", "ca", `te"`,
		"Bearer", "token", "[1.10]", `{"max":3}`, "at_least_once",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if e.Versions != HasSpecVersion || e.Kind != KindDomain {
		t.Errorf("versions %b, kind %d", e.Versions, e.Kind)
	}
	if want := time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC); !e.CreatedAt.Equal(want) {
		t.Errorf("created at %v, want %v", e.CreatedAt, want)
	}
	if want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC); !e.ExpiresAt.Equal(want) {
		t.Errorf("expires at %v, want %v", e.ExpiresAt, want)
	}
	if a := e.Attributes("x"); a != (Attributes{"task.progress", "sé😀\uFFFD", "t", "to", "se", "co", "ta", "x"}) {
		t.Errorf("%+v", a)
	}
}

// TestTimes compares with time.Parse where both take a text (B21).
func TestTimes(t *testing.T) {
	for _, text := range []string{
		"2026-03-01T12:00:00Z", "2026-03-01T12:00:00.1Z", "1999-12-31T23:59:59.999999999-08:00",
		"2024-02-29T00:00:00.123456789+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2000-02-29T00:00:00+00:01",
	} {
		want, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parseTime([]byte(text)); !ok || !got.Equal(want) {
			t.Errorf("%s: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:00+00:60", "2026-01-01T00:00:00+1:00", "2026-01-01T00:00:00.", "٢٠٢٦-01-01T00:00:00Z"} {
		if got, ok := parseTime([]byte(text)); ok {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestEffectiveModes is the order of B57.
func TestEffectiveModes(t *testing.T) {
	f := func(a, b, want Mode) {
		t.Helper()
		if got := Effective(a, b); got != want || Effective(b, a) != want {
			t.Errorf("B57: %v and %v: %v, want %v", a, b, got, want)
		}
	}
	f(ModeAbsent, ModeAbsent, BestEffort)
	f(ModeAbsent, Replayable, Replayable)
	f(BestEffort, AtLeastOnce, BestEffort)
	f(AtLeastOnce, Replayable, AtLeastOnce)
	f(Replayable, Replayable, Replayable)
}

// TestDigest: a repetition has the same bytes of type and payload, nothing else
// counts (B56).
func TestDigest(t *testing.T) {
	_, first := admitted(t, event(""))
	f := func(extra string, change func(string) string, same bool) {
		t.Helper()
		_, e := admitted(t, change(event(extra)))
		if (e.Digest() == first.Digest()) != same {
			t.Errorf("B56: %s", change(event(extra)))
		}
	}
	keep := func(s string) string { return s }
	f(`,"x":1,"delivery":{"mode":"replayable"}`, keep, true)
	f("", func(s string) string { return strings.Replace(s, "12:00", "13:00", 1) }, true)
	f("", func(s string) string { return strings.Replace(s, `{"n":1}`, `{"n":1.0}`, 1) }, false)
	f("", func(s string) string { return strings.Replace(s, `{"n":1}`, `{"n": 1}`, 1) }, false)
	f("", func(s string) string { return strings.Replace(s, "progress", "output", 1) }, false)
}

// B61: a time that is the zero time.Time, or rounds to it, is an expiry that has
// passed, not none.
func TestExpiredLongAgo(t *testing.T) {
	for _, at := range []string{"0001-01-01T00:00:00Z", "0001-01-01T00:00:00.0004Z", "0001-01-01T14:00:00+14:00", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z"} {
		var s Scanner
		var e Envelope
		text := `{"aep_version":"0.1","id":"e","type":"a.b","source":"s","created_at":"2026-01-01T00:00:00Z","payload":1,"expires_at":"` + at + `"}`
		if err := s.Scan([]byte(text), &e); err != nil || len(e.Faults) > 0 {
			t.Fatalf("%s: %v, %v", at, err, e.Faults)
		}
		if kept := time.UnixMilli(e.ExpiresAt.UnixMilli()); e.ExpiresAt.IsZero() || kept.IsZero() || kept.After(time.Unix(0, 0)) {
			t.Errorf("%s: expires at %v", at, e.ExpiresAt)
		}
	}
}
