package aep

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	id := []byte(`"s\u0031"`)
	const caps = `{"filters":["attr-match"],"replay":{"buffer":10000,"all":true},"capture":["none","metadata","redacted","full"],"control":{"accepts":[]},"roster":{},"experimental":{"boot":"b\"1"}}`
	for _, c := range []struct{ rule, got, want string }{
		{"R55", string(AppendCapabilities(nil, 10000, `b"1`)), caps},
		{"R55", string(AppendDiscovery(nil, 10000, `b"1`)), `{"aep":["0.1"],"role":"collector","endpoints":{"events":"/events","stream":"/stream","socket":"/socket"},"capabilities":` + caps + `}`},
		{"R310", string(AppendHelloReply(nil, []byte(caps))), `{"type":"hello","versions":["0.1"],"role":"both","identity":{"agent":"aep-relay"},"capabilities":` + caps + `}`},
		{"R322", string(AppendSubscribed(nil, id)), `{"type":"subscribed","id":"s\u0031"}`},
		{"R323", string(AppendSubscribed(nil, []byte(`1.0`))), `{"type":"subscribed","id":1.0}`},
		{"R323", string(AppendSubscribed(nil, nil)), `{"type":"subscribed"}`},
		{"R326", string(AppendUnsubscribed(nil, id)), `{"type":"unsubscribed","id":"s\u0031"}`},
		{"R322", string(AppendReplayExhausted(nil, id, "a\n", 0, 9223372036854775807)), `{"type":"replay-exhausted","sub":"s\u0031","session":"a\n","earliest":{"epoch":0,"seq":9223372036854775807}}`},
		{"R323", string(AppendReplayExhausted(nil, nil, "a", 2, 0)), `{"type":"replay-exhausted","session":"a","earliest":{"epoch":2,"seq":0}}`},
		{"R330", string(AppendPing(nil, 1755000000123)), `{"type":"ping","t":1755000000123}`},
		{"R330", string(AppendPong(nil, []byte(`{"a": 1}`))), `{"type":"pong","t":{"a": 1}}`},
		{"R330", string(AppendPong(nil, nil)), `{"type":"pong"}`},
		{"R424a", string(AppendShed(nil, 12)), `{"type":"shed","count":12}`},
		{"R320", string(AppendError(nil, &ErrorFrame{Code: CodeInvalidFilter, IDRaw: id, Detail: `a "b" <c>`})), `{"type":"error","id":"s\u0031","code":"invalid-filter","detail":"a \"b\" <c>"}`},
		{"R306", string(AppendError(nil, &ErrorFrame{Code: CodeVersionUnsupported, Versions: true})), `{"type":"error","code":"version-unsupported","versions":["0.1"]}`},
		{"R340", string(AppendError(nil, &ErrorFrame{Code: CodeInvalidEvent, Cause: "", HasCause: true, Detail: "d"})), `{"type":"error","code":"invalid-event","cause":"","detail":"d"}`},
		{"R396", string(AppendError(nil, &ErrorFrame{Code: CodeNoRoute, Cause: "é\u2028\x00", HasCause: true})), `{"type":"error","code":"no-route","cause":"é` + "\u2028" + `\u0000"}`},
		{"R430", string(AppendClosing(nil, ReasonBackpressure, nil)), `{"type":"closing","reason":"backpressure","delivered":[]}`},
		{"R430", string(AppendClosing(nil, ReasonShuttingDown, []Delivered{{id, "a", 1, 2}, {nil, "b", 0, 0}})), `{"type":"closing","reason":"shutting-down","delivered":[{"sub":"s\u0031","session":"a","epoch":1,"seq":2},{"session":"b","epoch":0,"seq":0}]}`},
		{"R381", string(AppendRoster(nil, []byte(`1`), nil)), `{"type":"roster","id":1,"entries":[]}`},
		{"R381", string(AppendRoster(nil, nil, []RosterEntry{{Session: "a"}, {"b", "c", "d", []byte(`{"accepts":[]}`), []byte(`["x"]`)}})), `{"type":"roster","entries":[{"session":"a"},{"session":"b","agent":"c","instance":"d","control":{"accepts":[]},"emits":["x"]}]}`},
		{"R70", string(AppendInvalidEvent(nil, 3, "d")), `{"error":"invalid-event","line":3,"detail":"d"}`},
		{"R73", string(AppendInvalidJSON(nil, -1, "d")), `{"error":"invalid-json","detail":"d"}`},
		{"R73", string(AppendInvalidJSON(nil, 0, "d")), `{"error":"invalid-json","line":0,"detail":"d"}`},
		{"R70", string(AppendControlRefused(nil, 1, "d")), `{"error":"control-requires-duplex","line":1,"detail":"d"}`},
		{"R70", string(AppendTooLarge(nil, 16777216)), `{"error":"payload-too-large","max_bytes":16777216}`},
		{"R70", string(AppendTooMany(nil, 10000, 10001)), `{"error":"too-many-events","max":10000,"count":10001}`},
		{"R70", string(AppendVersions(nil)), `{"versions":["0.1"]}`},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.rule, c.got, c.want)
		}
		if !json.Valid([]byte(c.got)) {
			t.Errorf("%s: not JSON: %s", c.rule, c.got)
		}
	}
}

// TestClosingBounded: the most recent 1,024 positions are told (R430).
func TestClosingBounded(t *testing.T) {
	var delivered []Delivered
	for i := range 1500 {
		delivered = append(delivered, Delivered{Session: fmt.Sprint("s", i)})
	}
	text := string(AppendClosing(nil, ReasonShuttingDown, delivered))
	if n := strings.Count(text, "session"); n != 1024 {
		t.Errorf("%d positions", n)
	}
	if !strings.Contains(text, `"s1499"`) || !strings.Contains(text, `"s476"`) || strings.Contains(text, `"s475"`) {
		t.Error("not the most recent positions")
	}
}

func TestFramesDoNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 1<<10)
	id := []byte(`"id"`)
	delivered := []Delivered{{id, "a", 1, 2}}
	entries := []RosterEntry{{Session: "s", Agent: "a"}}
	frame := ErrorFrame{Code: CodeNoRoute, Cause: "c", HasCause: true}
	n := testing.AllocsPerRun(100, func() {
		dst = AppendSubscribed(dst[:0], id)
		dst = AppendReplayExhausted(dst[:0], id, "session", 1, 2)
		dst = AppendPing(dst[:0], 5)
		dst = AppendClosing(dst[:0], ReasonBackpressure, delivered)
		dst = AppendRoster(dst[:0], id, entries)
		dst = AppendError(dst[:0], &frame)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzAppendQuoted(f *testing.F) {
	for _, seed := range []string{"", "a", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é\u2028<&>", "\xff\xc3(", "\xed\xa0\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := appendQuoted(nil, s)
		var scanner Scanner
		if err := scanner.Scan(text); err != nil {
			t.Fatalf("%q: %s: %v", s, text, err)
		}
		want := string([]rune(s))
		if got := decodeString(text); got != want {
			t.Errorf("%q became %q", s, got)
		}
	})
}
