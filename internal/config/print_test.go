package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// R15: no formatting of a configuration, of a pointer to it, of what it is
// part of, or of the secret itself shows the token.
func TestTokenIsNeverShown(t *testing.T) {
	const token = "tok-SECRET123"
	c := mustRead(t, "AEP_TOKEN="+token, "SYNC_ADMIN_TOKEN="+token, "AEPWS_TOKEN="+token)
	hidden := struct{ c Config }{c} // unexported: fmt cannot call its methods
	values := []any{c, &c, c.Token, &c.Token, []Config{c}, struct{ C Config }{c}, hidden, &hidden}
	var shown []string
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t", "%p", "%T"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		shown = append(shown, fmt.Sprint(v), fmt.Sprintln(v))
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, string(encoded), logged(v, false), logged(v, true))
	}
	for _, text := range shown {
		if leaks(text, token) {
			t.Errorf("token shown: %.300s", text)
		}
	}
}

// logged returns what a log line holds for the value.
func logged(v any, asJSON bool) string {
	var b bytes.Buffer
	var h slog.Handler = slog.NewTextHandler(&b, nil)
	if asJSON {
		h = slog.NewJSONHandler(&b, nil)
	}
	slog.New(h).Info("start", "value", v)
	return b.String()
}

// leaks looks for the token as it is and in hexadecimal, as %x writes it.
func leaks(text, token string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, strings.ToLower(token)) || strings.Contains(text, fmt.Sprintf("%x", token))
}

func TestSecret(t *testing.T) {
	if s := NewSecret(""); s.IsSet() || s.Reveal() != "" || s.String() != "(unset)" {
		t.Errorf("empty secret: %v", s)
	}
	if s := NewSecret("x"); !s.IsSet() || s.Reveal() != "x" || s.String() != "(set)" {
		t.Errorf("secret: %v", s)
	}
}

func TestString(t *testing.T) {
	got := mustRead(t, "AEP_TOKEN=x", "AEP_TOKEN_FILE=/run/tokens", "SLUICE_INGEST_RATE=50", "SLUICE_DRAIN=90",
		"SLUICE_TRUSTED_PROXIES=10.1.2.3/8, ::1", "SLUICE_ADMIN=OFF", "SLUICE_ACCESS_LOG=on",
		"AEP_ORIGINS=https://a.example,https://b.example", "AEP_HOST=[::1]",
		"AEP_MAX_SESSIONS=3", "SLUICE_LOG_LEVEL=debug", "SYNC_ADMIN_TOKEN=y", "MAX_OWNERS=0", "SYNC_BASE_PATHS=/v2, /v3",
		"SEQ_FLOOR=7", "WRITES_DISABLED=1", "FIREHOSE_SEQ_FLOOR=Clock", "FIREHOSE_PUBLISH_TOKEN=z",
		"FIREHOSE_UPSTREAMS=wss://A.example, wss://a.example,ws://localhost:1",
		"AEPWS_BACKOFF_MULTIPLIER=2.50", "AEPWS_EXTRA_TYPES=a.b ,c.d").String()
	want := `AEP_PORT=8787
AEP_HOST=::1
AEP_ORIGINS=https://a.example,https://b.example
AEP_TOKEN=(set)
AEP_TOKEN_FILE=/run/tokens
AEP_BUFFER=10000
AEP_MAX_SESSIONS=3
AEP_MAX_BODY=16777216
AEP_MAX_BATCH=10000
AEP_MAX_FROM=3
AEP_BUFFER_BYTES=1073741824
SLUICE_SURFACES=aep,aepws,sync,firehose
SLUICE_DATA=sluice-data
SLUICE_PROFILE=
SLUICE_ADMIN=off
SLUICE_MAX_CONNS=0
SLUICE_MAX_CONNS_PER_IP=0
SLUICE_INGEST_RATE=50
SLUICE_INGEST_BURST=100
SLUICE_TRUSTED_PROXIES=10.0.0.0/8,::1
SLUICE_DRAIN=1m30s
SLUICE_LOOPS=0
SLUICE_SEND_BUFFER=262144
SLUICE_LOG_FORMAT=text
SLUICE_LOG_LEVEL=debug
SLUICE_ACCESS_LOG=on
GOGC=100
GOMEMLIMIT=off
MAX_OWNER_BYTES=1073741824
MAX_EVENTS_PER_PUSH=1000
MAX_EVENT_BYTES=262144
MAX_BLOB_BYTES=1049600
MAX_EVENTS_PER_PULL=1000
DEFAULT_EVENTS_PER_PULL=500
MAX_PULL_BYTES=8388608
MAX_STREAMS_PER_COMPACT=1000
MAX_TOTAL_BYTES=10737418240
MAX_OWNERS=0
WRITES_DISABLED=1
COMPACTION_INTERVAL_MS=21600000
SYNC_BASE_PATHS=/v2,/v3
SEQ_FLOOR=7
SQLITE_SYNCHRONOUS=FULL
SYNC_ADMIN_TOKEN=(set)
FIREHOSE_REPLAY_FRAMES=65536
FIREHOSE_REPLAY_BYTES=134217728
FIREHOSE_SYNC_INTERVAL_MS=100
FIREHOSE_SEQ_FLOOR=clock
FIREHOSE_SEQ_RESERVE=65536
FIREHOSE_MAX_CONSUMERS=1000
FIREHOSE_WRITE_TIMEOUT_MS=30000
FIREHOSE_PING_MS=30000
FIREHOSE_MAX_FRAME_BYTES=5000000
FIREHOSE_SERVER_HEADER=
FIREHOSE_PUBLISH_TOKEN=(set)
FIREHOSE_UPSTREAMS=wss://A.example,ws://localhost:1
FIREHOSE_CURSOR_PERSIST_MS=4000
FIREHOSE_VERIFY=structure
FIREHOSE_ADMIN_TOKEN=(unset)
AEPWS_PATH=/aep
AEPWS_TOKEN=(unset)
AEPWS_ALLOW_OPEN=0
AEPWS_MAX_MESSAGE_BYTES=1048576
AEPWS_HEARTBEAT_MS=30000
AEPWS_OPEN_TIMEOUT_MS=10000
AEPWS_MAX_CONNECTIONS=10000
AEPWS_RETENTION_EVENTS=1000000
AEPWS_RETENTION_MS=86400000
AEPWS_RETENTION_BYTES=1073741824
AEPWS_ACK_TIMEOUT_MS=30000
AEPWS_MAX_ATTEMPTS=3
AEPWS_BACKOFF_MS=1000
AEPWS_BACKOFF_MULTIPLIER=2.5
AEPWS_BACKOFF_MAX_MS=30000
AEPWS_STRICT_TYPES=0
AEPWS_EXTRA_TYPES=a.b,c.d
AEPWS_FRAGMENTS=refuse
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := mustRead(t, "AEP_ORIGINS=*").String(); !strings.Contains(got, "AEP_ORIGINS=*\nAEP_TOKEN=(unset)\n") {
		t.Errorf("got\n%s", got)
	}
}
