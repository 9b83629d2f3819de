package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	proto "github.com/sluice-relay/sluice/internal/proto/firehose"
)

// Section 1 of the firehose's contract: the defaults.
func TestFirehoseDefaults(t *testing.T) {
	c := mustRead(t)
	want := proto.Settings{
		ReplayFrames: 65536, ReplayBytes: 134217728, SyncInterval: 100 * time.Millisecond,
		FloorMode: proto.FloorAuto, Reserve: 65536, MaxConsumers: 1000,
		WriteTimeout: 30 * time.Second, PingInterval: 30 * time.Second,
		MaxFrameBytes: 5_000_000, PersistInterval: 4 * time.Second, Verify: "structure",
	}
	if got := dump(c.Firehose); got != dump(want) {
		t.Errorf("defaults are %s, want %s", got, dump(want))
	}
	if c.FirehosePublishToken.IsSet() || c.FirehoseAdminToken.IsSet() || c.Firehose.ServerField() != "sluice" {
		t.Errorf("tokens %v and %v, Server %q", c.FirehosePublishToken, c.FirehoseAdminToken, c.Firehose.ServerField())
	}
}

// dump is a configuration of these settings as text.
func dump(s proto.Settings) string {
	return strings.Join(Config{Firehose: s}.firehoseValues(), "|")
}

// firehoseSet sets each variable to something else than its default.
var firehoseSet = []string{
	"FIREHOSE_REPLAY_FRAMES=10", "FIREHOSE_REPLAY_BYTES=1000", "FIREHOSE_SYNC_INTERVAL_MS=7",
	"FIREHOSE_SEQ_FLOOR=12", "FIREHOSE_SEQ_RESERVE=13", "FIREHOSE_MAX_CONSUMERS=14",
	"FIREHOSE_WRITE_TIMEOUT_MS=1500", "FIREHOSE_PING_MS=1600", "FIREHOSE_MAX_FRAME_BYTES=1700",
	"FIREHOSE_SERVER_HEADER=mine/1 (x)", "FIREHOSE_UPSTREAMS=pds.example.com,ws://localhost:2583",
	"FIREHOSE_CURSOR_PERSIST_MS=1800", "FIREHOSE_VERIFY=off",
}

// What String shows of each variable is what was set, and reads as the same.
func TestFirehoseRoundTrip(t *testing.T) {
	f := func(pairs ...string) {
		t.Helper()
		c := mustRead(t, pairs...)
		lines := "\n" + c.String() + "\n"
		for _, pair := range pairs {
			if !strings.Contains(lines, "\n"+pair+"\n") {
				t.Errorf("String lacks %q", pair)
			}
		}
		var again []string
		for line := range strings.SplitSeq(lines, "\n") {
			if strings.HasPrefix(line, "FIREHOSE_") && !strings.Contains(line, "_TOKEN=") {
				again = append(again, line)
			}
		}
		if len(again) != len(firehoseSet) {
			t.Errorf("String has %d of %d variables: %q", len(again), len(firehoseSet), again)
		}
		if got := dump(mustRead(t, again...).Firehose); got != dump(c.Firehose) {
			t.Errorf("%s is read again as %s", dump(c.Firehose), got)
		}
	}
	f()
	f(firehoseSet...)
	f("FIREHOSE_SEQ_FLOOR=clock")
	f("FIREHOSE_SEQ_FLOOR=9007199254740991", "FIREHOSE_SEQ_RESERVE=1099511627776")
	f("FIREHOSE_SEQ_FLOOR=auto", "FIREHOSE_VERIFY=structure")

	c := mustRead(t, firehoseSet...).Firehose
	if c.FloorMode != proto.FloorNumber || c.Floor != 12 || c.PingInterval != 1600*time.Millisecond || len(c.Upstreams) != 2 {
		t.Errorf("settings %+v", c)
	}
}

// What differs only in how it is written.
func TestFirehoseSpellings(t *testing.T) {
	c := mustRead(t, "FIREHOSE_SEQ_FLOOR=CLOCK", "FIREHOSE_VERIFY=Off", "FIREHOSE_UPSTREAMS= wss://A.example.com , a.example.com,b.example.com").Firehose
	if c.FloorMode != proto.FloorClock || c.Verify != proto.VerifyOff || len(c.Upstreams) != 2 {
		t.Errorf("settings %+v", c)
	}
	if c.ServerField() != "sluice (atproto-relay)" {
		t.Errorf("F8: Server %q with upstreams", c.ServerField())
	}
}

// A bad value stops the start with one short line that names the variable.
func TestFirehoseErrors(t *testing.T) {
	many := strings.Repeat("a.example.com,", 1000)
	for _, bad := range []string{
		"FIREHOSE_REPLAY_FRAMES=0", "FIREHOSE_REPLAY_FRAMES=-1", "FIREHOSE_REPLAY_FRAMES=1e3", "FIREHOSE_REPLAY_FRAMES=4294967296",
		"FIREHOSE_REPLAY_BYTES=0", "FIREHOSE_REPLAY_BYTES=1M", "FIREHOSE_REPLAY_BYTES=9223372036854775808",
		"FIREHOSE_SYNC_INTERVAL_MS=0", "FIREHOSE_SYNC_INTERVAL_MS=1s", "FIREHOSE_SYNC_INTERVAL_MS=86400001",
		"FIREHOSE_SEQ_FLOOR=soon", "FIREHOSE_SEQ_FLOOR=0", "FIREHOSE_SEQ_FLOOR=-1", "FIREHOSE_SEQ_FLOOR=9007199254740992", "FIREHOSE_SEQ_FLOOR=+5",
		"FIREHOSE_SEQ_RESERVE=0", "FIREHOSE_SEQ_RESERVE=1099511627777",
		"FIREHOSE_MAX_CONSUMERS=0", "FIREHOSE_MAX_CONSUMERS=many",
		"FIREHOSE_WRITE_TIMEOUT_MS=0", "FIREHOSE_PING_MS=0", "FIREHOSE_PING_MS=30s",
		"FIREHOSE_MAX_FRAME_BYTES=1023", "FIREHOSE_MAX_FRAME_BYTES=5000001",
		"FIREHOSE_SERVER_HEADER=a\nb", "FIREHOSE_SERVER_HEADER=é", "FIREHOSE_SERVER_HEADER=" + strings.Repeat("x", 201),
		"FIREHOSE_UPSTREAMS=,", "FIREHOSE_UPSTREAMS=a.example.com,", "FIREHOSE_UPSTREAMS=https://a.example.com",
		"FIREHOSE_UPSTREAMS=ws://a.example.com", "FIREHOSE_UPSTREAMS=a.example.com:443", "FIREHOSE_UPSTREAMS=10.0.0.1",
		"FIREHOSE_UPSTREAMS=a.example.com/xrpc", "FIREHOSE_UPSTREAMS=ws://localhost", "FIREHOSE_UPSTREAMS=" + many,
		"FIREHOSE_CURSOR_PERSIST_MS=0", "FIREHOSE_VERIFY=full", "FIREHOSE_VERIFY=yes",
		"FIREHOSE_PUBLISH_TOKEN=a b", "FIREHOSE_ADMIN_TOKEN=a\tb", "FIREHOSE_PUBLISH_TOKEN=é",
		"FIREHOSE_ADMIN_TOKEN=" + strings.Repeat("x", 513),
	} {
		_, err := FromEnv(env(bad))
		name, value, _ := strings.Cut(bad, "=")
		wantVariable(t, name, value, err)
	}
	hosts := make([]string, 1001)
	for i := range hosts {
		hosts[i] = "h" + strings.Repeat("x", i%50) + string(rune('a'+i/50)) + ".example.com"
	}
	_, err := FromEnv(env("FIREHOSE_UPSTREAMS=" + strings.Join(hosts, ",")))
	checkError(t, EnvUpstreams, "1,001 hosts", err, errUpstreams)
	mustRead(t, "FIREHOSE_UPSTREAMS="+strings.Join(hosts[:1000], ","))
}

// No formatting shows a token of the firehose.
func TestFirehoseTokensAreNeverShown(t *testing.T) {
	const token = "tok-SECRET456"
	c := mustRead(t, "FIREHOSE_PUBLISH_TOKEN="+token, "FIREHOSE_ADMIN_TOKEN="+token)
	if c.FirehosePublishToken.Reveal() != token || c.FirehoseAdminToken.Reveal() != token {
		t.Error("the tokens were not read")
	}
	if text := c.String() + logged(c, false) + logged(&c, true) + logged(c.Firehose, true); leaks(text, token) {
		t.Errorf("token shown: %.2000s", text)
	}
}

// wantVariable wants one short line that begins with the variable's name.
func wantVariable(t *testing.T, name, value string, err error) {
	t.Helper()
	wrong, ok := errors.AsType[*VariableError](err)
	if !ok || wrong.Env != name {
		t.Errorf("%s=%.100q: %v", name, value, err)
		return
	}
	if text := err.Error(); !strings.HasPrefix(text, name+": ") || strings.ContainsAny(text, "\r\n") || len(text) > 400 {
		t.Errorf("%s=%.100q: not one short line with the name: %q", name, value, text)
	}
}
