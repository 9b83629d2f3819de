package config

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/limit"
	"github.com/sluice-relay/sluice/internal/proto/aepws"
	"github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/proto/sync"
)

// env makes a lookup function of NAME=value texts.
func env(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		m[name] = value
	}
	return func(name string) (string, bool) {
		value, ok := m[name]
		return value, ok
	}
}

// mustRead reads a configuration that has to be valid.
func mustRead(t *testing.T, pairs ...string) Config {
	t.Helper()
	c, err := FromEnv(env(pairs...))
	if err != nil {
		t.Fatalf("%q: %v", pairs, err)
	}
	return c
}

// R10: the defaults of the contract.
func TestDefaults(t *testing.T) {
	want := Config{
		Surfaces:       []string{"aep", "aepws", "sync", "firehose"},
		Data:           "sluice-data",
		Sync:           sync.DefaultConfig(),
		Firehose:       firehose.DefaultSettings(),
		AEPWS:          aepws.DefaultSettings(),
		Port:           8787,
		BufferEvents:   10_000,
		BufferBytes:    1 << 30,
		MaxSessions:    500,
		MaxBodyBytes:   16_777_216,
		MaxBatchEvents: 10_000,
		MaxFrom:        500,
		Admin:          "127.0.0.1:8788",
		LogFormat:      "text",
		LogLevel:       slog.LevelInfo,

		SendBufferBytes:  262_144,
		GCPercent:        100,
		MemoryLimitBytes: NoMemoryLimit,
	}
	if got := mustRead(t); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var empty []string // R11: set but empty is unset
	for _, v := range Variables() {
		empty = append(empty, v.Env+"=")
	}
	if got := mustRead(t, empty...); !reflect.DeepEqual(got, want) {
		t.Errorf("all empty: got %v, want %v", got, want)
	}
}

func TestEveryVariableIsRead(t *testing.T) {
	got := mustRead(t,
		"AEP_PORT=0", "AEP_HOST=relay.lan", "AEP_ORIGINS=https://dash.example, http://host:8080",
		"AEP_TOKEN=t0p", "AEP_BUFFER=1", "AEP_MAX_SESSIONS=2", "AEP_MAX_BODY=3", "AEP_MAX_BATCH=4",
		"AEP_MAX_FROM=5", "AEP_BUFFER_BYTES=6", "SLUICE_MAX_CONNS=7", "SLUICE_LOOPS=8",
		"SLUICE_LOG_FORMAT=JSON", "SLUICE_LOG_LEVEL=Warn", "AEP_TOKEN_FILE=/run/tokens", "SLUICE_ADMIN=[::1]:9",
		"SLUICE_MAX_CONNS_PER_IP=6", "SLUICE_INGEST_RATE=10", "SLUICE_INGEST_BURST=11", "SLUICE_DRAIN=12s",
		"SLUICE_TRUSTED_PROXIES=10.1.2.3/8,::1", "SLUICE_ACCESS_LOG=On", "SLUICE_SEND_BUFFER=16384", "GOGC=13",
		"GOMEMLIMIT=14KiB", "SLUICE_PROFILE=edge", "SLUICE_SURFACES= Sync ,aep,AEPWS,sync,Firehose", "SLUICE_DATA=/srv/data",
		"MAX_OWNER_BYTES=1", "MAX_EVENTS_PER_PUSH=2", "MAX_EVENT_BYTES=3", "MAX_BLOB_BYTES=4", "MAX_EVENTS_PER_PULL=6",
		"DEFAULT_EVENTS_PER_PULL=5", "MAX_PULL_BYTES=7", "MAX_STREAMS_PER_COMPACT=8", "MAX_TOTAL_BYTES=9", "MAX_OWNERS=10",
		"WRITES_DISABLED=1", "COMPACTION_INTERVAL_MS=11", "SYNC_BASE_PATHS=/v2, /b", "SEQ_FLOOR=Clock",
		"SQLITE_SYNCHRONOUS=normal", "SYNC_ADMIN_TOKEN=adm1n",
		"FIREHOSE_REPLAY_FRAMES=1", "FIREHOSE_REPLAY_BYTES=2", "FIREHOSE_SYNC_INTERVAL_MS=3", "FIREHOSE_SEQ_FLOOR=4",
		"FIREHOSE_SEQ_RESERVE=5", "FIREHOSE_MAX_CONSUMERS=6", "FIREHOSE_WRITE_TIMEOUT_MS=7", "FIREHOSE_PING_MS=8",
		"FIREHOSE_MAX_FRAME_BYTES=1024", "FIREHOSE_SERVER_HEADER=x", "FIREHOSE_PUBLISH_TOKEN=p",
		"FIREHOSE_UPSTREAMS=a.example, ws://localhost:2583", "FIREHOSE_CURSOR_PERSIST_MS=9", "FIREHOSE_VERIFY=OFF",
		"FIREHOSE_ADMIN_TOKEN=a",
		"AEPWS_PATH=/a/b", "AEPWS_TOKEN=w", "AEPWS_ALLOW_OPEN=1", "AEPWS_MAX_MESSAGE_BYTES=1024", "AEPWS_HEARTBEAT_MS=0",
		"AEPWS_OPEN_TIMEOUT_MS=1", "AEPWS_MAX_CONNECTIONS=2", "AEPWS_RETENTION_EVENTS=3", "AEPWS_RETENTION_MS=4",
		"AEPWS_RETENTION_BYTES=5", "AEPWS_ACK_TIMEOUT_MS=6", "AEPWS_MAX_ATTEMPTS=7", "AEPWS_BACKOFF_MS=8",
		"AEPWS_BACKOFF_MULTIPLIER=1.5", "AEPWS_BACKOFF_MAX_MS=9", "AEPWS_STRICT_TYPES=1", "AEPWS_EXTRA_TYPES=a.b, c.d",
		"AEPWS_FRAGMENTS=Accept",
	)
	if got.AEPWSToken.Reveal() != "w" {
		t.Error("AEPWS_TOKEN lost")
	}
	got.AEPWSToken = Secret{}
	if got.FirehosePublishToken.Reveal() != "p" || got.FirehoseAdminToken.Reveal() != "a" {
		t.Error("a token of the firehose is lost")
	}
	got.FirehosePublishToken, got.FirehoseAdminToken = Secret{}, Secret{}
	if got.SyncAdminToken.Reveal() != "adm1n" {
		t.Error("SYNC_ADMIN_TOKEN lost")
	}
	got.SyncAdminToken = Secret{}
	if got.Token.Reveal() != "t0p" {
		t.Error("token lost")
	}
	got.Token = Secret{}
	want := Config{
		Port: 0, Host: "relay.lan", Origins: []string{"https://dash.example", "http://host:8080"},
		BufferEvents: 1, MaxSessions: 2, MaxBodyBytes: 3, MaxBatchEvents: 4, MaxFrom: 5, BufferBytes: 6,
		MaxConns: 7, Loops: 8, LogFormat: "json", LogLevel: slog.LevelWarn, TokenFile: "/run/tokens", Admin: "[::1]:9",
		MaxConnsPerIP: 6, IngestRate: 10, IngestBurst: 11, Drain: 12 * time.Second,
		TrustedProxies: []string{"10.0.0.0/8", "::1"}, AccessLog: true, SendBufferBytes: 16384, GCPercent: 13,
		MemoryLimitBytes: 14 << 10, Profile: "edge",
		Surfaces: []string{"aep", "aepws", "sync", "firehose"}, Named: true, Data: "/srv/data",
		Sync: sync.Config{
			MaxOwnerBytes: 1, MaxEventsPerPush: 2, MaxEventBytes: 3, MaxBlobBytes: 4, MaxEventsPerPull: 6,
			DefaultEventsPerPull: 5, MaxPullBytes: 7, MaxStreamsPerCompact: 8, MaxTotalBytes: 9, MaxOwners: 10,
			WritesDisabled: true, CompactionInterval: 11 * time.Millisecond, BasePaths: []string{"/v2", "/b"},
			SeqFloor: "clock", Synchronous: "NORMAL",
		},
		Firehose: firehose.Settings{
			ReplayFrames: 1, ReplayBytes: 2, SyncInterval: 3 * time.Millisecond, FloorMode: firehose.FloorNumber, Floor: 4,
			Reserve: 5, MaxConsumers: 6, WriteTimeout: 7 * time.Millisecond, PingInterval: 8 * time.Millisecond,
			MaxFrameBytes: 1024, Server: "x", Upstreams: []string{"a.example", "ws://localhost:2583"},
			PersistInterval: 9 * time.Millisecond, Verify: "off",
		},
		AEPWS: aepws.Settings{
			Path: "/a/b", AllowOpen: true, MaxMessageBytes: 1024, OpenTimeout: time.Millisecond, MaxConnections: 2,
			MaxSubscriptions: 64, RetentionEvents: 3, RetentionAge: 4 * time.Millisecond, RetentionBytes: 5,
			SendQueueEvents: 1024, WriteTimeout: 10 * time.Second, AckTimeout: 6 * time.Millisecond, MaxAttempts: 7,
			Backoff: 8 * time.Millisecond, BackoffMultiplier: 1.5, MaxBackoff: 9 * time.Millisecond, MaxUnacked: 1000,
			StrictTypes: true, ExtraTypes: []string{"a.b", "c.d"}, AcceptFragments: true,
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !mustRead(t, "AEP_ORIGINS=*").AnyOrigin {
		t.Error("AEP_ORIGINS=* is not any origin")
	}
}

// R10: AEP_MAX_FROM follows the effective AEP_MAX_SESSIONS.
func TestMaxFromFollowsSessions(t *testing.T) {
	f := func(want int, pairs ...string) {
		t.Helper()
		if got := mustRead(t, pairs...).MaxFrom; got != want {
			t.Errorf("%q: MaxFrom %d, want %d", pairs, got, want)
		}
	}
	f(500)
	f(7, "AEP_MAX_SESSIONS=7")
	f(7, "AEP_MAX_SESSIONS=7", "AEP_MAX_FROM=")
	f(0, "AEP_MAX_SESSIONS=7", "AEP_MAX_FROM=0")
	f(900, "AEP_MAX_SESSIONS=7", "AEP_MAX_FROM=900")
}

// R11: what is no plain decimal integer, too small or over 63 bits is an
// error of one line that names the variable.
func TestNumberErrors(t *testing.T) {
	f := func(name, value string, want error) {
		t.Helper()
		_, err := FromEnv(env(name + "=" + value))
		checkError(t, name, value, err, want)
	}
	numbers := []struct {
		name  string
		least int
		most  uint64
	}{
		{EnvPort, 0, math.MaxUint16},
		{EnvBuffer, 0, math.MaxInt64},
		{EnvMaxSessions, 1, math.MaxInt64},
		{EnvMaxBody, 1, math.MaxInt64},
		{EnvMaxBatch, 1, math.MaxInt64},
		{EnvMaxFrom, 0, math.MaxInt64},
		{EnvBufferBytes, 0, math.MaxInt64},
		{EnvMaxConns, 0, math.MaxInt64},
		{EnvLoops, 0, maxLoops},
		{EnvConnsPerIP, 0, math.MaxInt64},
		{EnvIngestRate, 0, limit.MaxRate},
		{EnvSendBuffer, minSendBuffer, maxSendBuffer},
		{EnvGCPercent, 1, math.MaxInt32},
	}
	for _, n := range numbers {
		for _, bad := range []string{
			"x", " 5", "5 ", "+5", "-1", "-0", "5.0", "5e3", "0x10", "1_000", "1,000", "5\n", "\u0665", "10k", " ",
			strings.Repeat("x", 5000), "a\r\nb",
		} {
			f(n.name, bad, ErrNotNumber)
		}
		f(n.name, strconv.FormatUint(n.most+1, 10), ErrRange)
		f(n.name, "9223372036854775808", ErrRange) // 2^63
		f(n.name, strings.Repeat("9", 400), ErrRange)
		if n.least > 0 {
			f(n.name, strconv.Itoa(n.least-1), ErrRange)
		}
		mustRead(t, n.name+"="+strconv.Itoa(n.least))
		mustRead(t, n.name+"="+strconv.FormatUint(n.most, 10))
		mustRead(t, n.name+"=0"+strconv.Itoa(max(n.least, 1)))
	}
}

// checkError wants one short line that names the variable.
func checkError(t *testing.T, name, value string, err, want error) {
	t.Helper()
	var ve *VariableError
	if !errors.As(err, &ve) || ve.Env != name || !errors.Is(err, want) {
		t.Errorf("%s=%q: %v, want %v", name, value, err, want)
		return
	}
	text := err.Error()
	if !strings.HasPrefix(text, name+": ") || strings.ContainsAny(text, "\r\n") || len(text) > 300 {
		t.Errorf("%s=%q: not one short line with the name: %q", name, value, text)
	}
}

func TestHost(t *testing.T) {
	ok := func(value, want string) {
		t.Helper()
		if got := mustRead(t, "AEP_HOST="+value).Host; got != want {
			t.Errorf("AEP_HOST=%s: %q, want %q", value, got, want)
		}
	}
	ok("127.0.0.1", "127.0.0.1")
	ok("0.0.0.0", "0.0.0.0")
	ok("::", "::")
	ok("::1", "::1")
	ok("[::1]", "::1")
	ok("[2001:DB8::1]", "2001:db8::1")
	ok("fe80::1%eth0", "fe80::1%eth0")
	ok("localhost", "localhost")
	ok("relay-1.internal", "relay-1.internal")
	ok("my_relay", "my_relay")
	ok("relay.", "relay.")

	for _, bad := range []string{
		"*", " ", "a b", "127.0.0.1:8787", "relay:8787", "[::1]:8787", "[::1", "::1]", "[127.0.0.1]", "[relay]",
		"300.1.1.1", "1.2.3", "8787", "http://relay", "-a", "a-", "a..b", ".a", ".", "rel\nay", "fe80::1%a b",
		"fe80::1%a\n", "caf\u00e9",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "aa", "[]", "Unix:/run/x",
	} {
		_, err := FromEnv(env("AEP_HOST=" + bad))
		checkError(t, EnvHost, bad, err, ErrHost)
	}
	_, err := FromEnv(env("AEP_HOST=relay:8787"))
	if !strings.Contains(err.Error(), EnvPort) {
		t.Errorf("no hint to %s: %v", EnvPort, err)
	}
}

func TestOtherErrors(t *testing.T) {
	f := func(name, value string, want error) {
		t.Helper()
		_, err := FromEnv(env(name + "=" + value))
		checkError(t, name, value, err, want)
	}
	f(EnvLogFormat, "xml", ErrChoice)
	f(EnvLogLevel, "trace", ErrChoice)
	f(EnvLogLevel, "info+1", ErrChoice)
	f(EnvAccessLog, "1", ErrChoice)
	f(EnvProxies, "proxy.example", limit.ErrProxyEntry)
	f(EnvProxies, "10.0.0.1,fe80::1%eth0", limit.ErrProxyZone)
	f(EnvTokenFile, "/a\nb", ErrPath)
	f(EnvTokenFile, "/a\x00b", ErrPath)
	f(EnvTokenFile, "/"+strings.Repeat("a", maxPathBytes), ErrPath)
	_, err := FromEnv(env("AEP_ORIGINS=https://ok.example,dash.example/app"))
	if err == nil || !strings.HasPrefix(err.Error(), `AEP_ORIGINS: "dash.example/app" `) {
		t.Errorf("AEP_ORIGINS: %v", err)
	}
	// The first variable that is wrong is the one named.
	_, err = FromEnv(env("AEP_PORT=x", "AEP_BUFFER=x", "AEP_ORIGINS=x"))
	checkError(t, EnvPort, "x", err, ErrNotNumber)
}

// A Unix socket is named by its absolute path, within what sun_path holds.
func TestHostUnix(t *testing.T) {
	for _, path := range []string{
		"/s", "/run/sluice/socket", "/a b", "/run/caf\u00e9", "/" + strings.Repeat("a", maxUnixPathBytes-1),
	} {
		c := mustRead(t, "AEP_HOST=unix:"+path, "AEP_PORT=1")
		if got := c.ListenAddrs(); !c.Unix() || !slices.Equal(got, []string{"unix:" + path}) {
			t.Errorf("%q: listens on %q", path, got)
		}
	}
	for _, bad := range []string{
		"", "s", "./s", "@abstract", "/", "/run/", "/a\nb", "/a\x00", "/a\x7f", "/a\u0085", "/\xff",
		"/" + strings.Repeat("a", maxUnixPathBytes), "//host/path/",
	} {
		_, err := FromEnv(env("AEP_HOST=unix:" + bad))
		checkError(t, EnvHost, bad, err, ErrPath)
	}
}

// R13: what is bound, and what deserves a warning.
func TestListenAddrs(t *testing.T) {
	f := func(want string, loopback, exposed bool, pairs ...string) {
		t.Helper()
		c := mustRead(t, pairs...)
		if got := strings.Join(c.ListenAddrs(), " "); got != want {
			t.Errorf("%q: listens on %q, want %q", pairs, got, want)
		}
		if c.Loopback() != loopback || c.Exposed() != exposed {
			t.Errorf("%q: loopback %v, exposed %v", pairs, c.Loopback(), c.Exposed())
		}
		// R38: no name leads a browser to a Unix socket.
		if hostCheck := loopback && !strings.HasPrefix(want, "unix:"); c.HostCheck() != hostCheck {
			t.Errorf("%q: Host check %v", pairs, c.HostCheck())
		}
	}
	f("localhost:8787", true, false)
	f("localhost:0", true, false, "AEP_PORT=0")
	f("localhost:8787", true, false, "AEP_TOKEN=", "AEP_TOKEN_FILE=", "AEP_HOST=")
	f(":8787", false, false, "AEP_TOKEN=t")
	f(":8787", false, false, "AEP_TOKEN_FILE=/run/tokens")
	f("0.0.0.0:8787", false, false, "AEP_HOST=0.0.0.0", "AEP_TOKEN_FILE=/run/tokens")
	f("unix:/run/s", true, false, "AEP_HOST=unix:/run/s", "AEP_PORT=7")
	f("unix:/run/s", true, false, "AEP_HOST=unix:/run/s", "AEP_TOKEN=t")
	f("0.0.0.0:8787", false, true, "AEP_HOST=0.0.0.0")
	f("0.0.0.0:8787", false, false, "AEP_HOST=0.0.0.0", "AEP_TOKEN=t")
	f("[::]:8787", false, true, "AEP_HOST=::")
	f("[::1]:8787", true, false, "AEP_HOST=[::1]")
	f("127.0.0.1:1", true, false, "AEP_HOST=127.0.0.1", "AEP_TOKEN=t", "AEP_PORT=1")
	f("localhost:8787", true, false, "AEP_HOST=localhost")
	f("relay.lan:8787", false, true, "AEP_HOST=relay.lan")
}

// The tables of the README, and of a surface's own page, are those people read.
func TestDocumentsNameEveryVariable(t *testing.T) {
	lines := map[string][]string{}
	for _, page := range []string{"README.md", "docs/sync.md", "docs/firehose.md", "docs/aepws.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		lines[page] = strings.Split(string(text), "\n")
	}
	for _, v := range Variables() {
		page := "README.md"
		switch {
		case strings.HasPrefix(v.Usage, "sync: "):
			page = "docs/sync.md"
		case strings.HasPrefix(v.Usage, "firehose: "):
			page = "docs/firehose.md"
		case strings.HasPrefix(v.Usage, "aepws: "):
			page = "docs/aepws.md"
		}
		row := "| `" + v.Env + "` | "
		if v.Default[0] >= '0' && v.Default[0] <= '9' {
			row += "`" + v.Default + "` | "
		}
		if !slices.ContainsFunc(lines[page], func(l string) bool { return strings.HasPrefix(l, row) }) {
			t.Errorf("%s has no table row that begins %q", page, row)
		}
	}
}

// What is printed as a default is what an unset variable gives.
func TestVariablesMatchValues(t *testing.T) {
	values := mustRead(t).values()
	variables := Variables()
	if len(values) != len(variables) {
		t.Fatalf("%d values for %d variables", len(values), len(variables))
	}
	for i, v := range variables {
		if c := v.Default[0]; c >= '0' && c <= '9' && values[i] != v.Default {
			t.Errorf("%s: default is said to be %s and is %s", v.Env, v.Default, values[i])
		}
		flagless := slices.Contains([]string{
			EnvToken, EnvSyncAdmin, EnvPublishToken, EnvFirehoseAdmin, EnvAEPWSToken, EnvGCPercent, EnvMemoryLimit,
		}, v.Env)
		if (v.Flag == "") != flagless {
			t.Errorf("%s: flag %q; secrets and Go's own have none, all others have one", v.Env, v.Flag)
		}
	}
}

func FuzzFromEnv(f *testing.F) {
	f.Add("8787", "[::1]", "https://a.example", "text", "127.0.0.1:1", "16384", "448MiB")
	f.Add("-1", "a:1", "*,x", "", "off", "off", "off")
	f.Add("600", "unix:/run/s", "", "on", ":0", "1", "9223372036854775807B")
	f.Fuzz(func(t *testing.T, number, host, list, word, admin, percent, memory string) {
		c, err := FromEnv(env("AEP_PORT="+number, "AEP_MAX_BODY="+number, "AEP_HOST="+host, "AEP_ORIGINS="+list,
			"SLUICE_LOG_LEVEL="+word, "SLUICE_ADMIN="+admin, "SLUICE_DRAIN="+number, "SLUICE_TRUSTED_PROXIES="+list,
			"SLUICE_INGEST_RATE="+number, "AEP_TOKEN_FILE="+host, "GOGC="+percent, "SLUICE_SEND_BUFFER="+percent,
			"GOMEMLIMIT="+memory))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		again, err := FromEnv(env(strings.Split(strings.TrimSuffix(c.String(), "\n"), "\n")...))
		again.Token = Secret{}
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("read back: %v, %v, want %v", again, err, c)
		}
	})
}
