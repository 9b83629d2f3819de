package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/limit"
)

// C54: a setting that has no effect stops the start, and says what takes it.
func TestC54SettingWithoutEffect(t *testing.T) {
	f := func(name, why string, pairs ...string) {
		t.Helper()
		_, err := FromEnv(env(pairs...))
		checkError(t, name, strings.Join(pairs, " "), err, ErrNoEffect)
		if err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: no %q in %q", pairs, why, err)
		}
	}
	f(EnvConnsPerIP, "100 connections of SLUICE_MAX_CONNS", "SLUICE_MAX_CONNS=100", "SLUICE_MAX_CONNS_PER_IP=101")
	f(EnvIngestBurst, EnvIngestRate, "SLUICE_INGEST_BURST=5")
	f(EnvIngestBurst, EnvIngestRate, "SLUICE_INGEST_BURST=5", "SLUICE_INGEST_RATE=0")
	const unix = "AEP_HOST=unix:/run/s"
	f(EnvConnsPerIP, "=unix", unix, "SLUICE_MAX_CONNS_PER_IP=5")
	f(EnvIngestRate, "=unix", unix, "SLUICE_INGEST_RATE=5")
	f(EnvProxies, "unix is not in the list", unix, "SLUICE_TRUSTED_PROXIES=10.0.0.0/8")
	f(EnvProxies, "no peer is on a Unix socket", "SLUICE_TRUSTED_PROXIES=unix")
	f(EnvProxies, "no peer is on a Unix socket", "AEP_HOST=0.0.0.0", "SLUICE_TRUSTED_PROXIES=127.0.0.1,unix")

	mustRead(t, "SLUICE_MAX_CONNS=100", "SLUICE_MAX_CONNS_PER_IP=100")
	mustRead(t, "SLUICE_MAX_CONNS=0", "SLUICE_MAX_CONNS_PER_IP=1000000")
	mustRead(t, "SLUICE_INGEST_BURST=0")
	mustRead(t, "SLUICE_TRUSTED_PROXIES=10.0.0.0/8") // log lines name the client
	mustRead(t, unix, "SLUICE_TRUSTED_PROXIES=unix")
	mustRead(t, unix, "SLUICE_TRUSTED_PROXIES=10.0.0.0/8,Unix", "SLUICE_INGEST_RATE=5", "SLUICE_MAX_CONNS_PER_IP=5")
}

func TestIngestBurst(t *testing.T) {
	f := func(rate, burst int, pairs ...string) {
		t.Helper()
		if c := mustRead(t, pairs...); c.IngestRate != rate || c.IngestBurst != burst {
			t.Errorf("%q: rate %d, burst %d, want %d, %d", pairs, c.IngestRate, c.IngestBurst, rate, burst)
		}
	}
	f(0, 0)
	f(10, 20, "SLUICE_INGEST_RATE=10")
	f(10, 20, "SLUICE_INGEST_RATE=10", "SLUICE_INGEST_BURST=")
	f(10, 1, "SLUICE_INGEST_RATE=10", "SLUICE_INGEST_BURST=1")
	f(limit.MaxRate, limit.MaxBurst, fmt.Sprint("SLUICE_INGEST_RATE=", limit.MaxRate))
	bad := func(value string, want error) {
		t.Helper()
		_, err := FromEnv(env("SLUICE_INGEST_RATE=1", "SLUICE_INGEST_BURST="+value))
		checkError(t, EnvIngestBurst, value, err, want)
	}
	bad("0", ErrRange)
	bad("-1", ErrNotNumber)
	bad(fmt.Sprint(limit.MaxBurst+1), ErrRange)
}

func TestDrain(t *testing.T) {
	f := func(value string, want time.Duration) {
		t.Helper()
		c := mustRead(t, "SLUICE_DRAIN="+value)
		if c.Drain != want {
			t.Errorf("%q: %v, want %v", value, c.Drain, want)
		}
		if again := mustRead(t, "SLUICE_DRAIN="+c.values()[slices.IndexFunc(Variables(), isDrain)]); again.Drain != want {
			t.Errorf("%q: read back %v", value, again.Drain)
		}
	}
	f("", 0)
	f("0", 0)
	f("0s", 0)
	f("10", 10*time.Second)
	f("010", 10*time.Second)
	f("10s", 10*time.Second)
	f("1m30s", 90*time.Second)
	f("1.5s", 1500*time.Millisecond)
	f("20us", 20*time.Microsecond)
	f("600", maxDrain)
	f("10m", maxDrain)
	bad := func(value string, want error) {
		t.Helper()
		_, err := FromEnv(env("SLUICE_DRAIN=" + value))
		checkError(t, EnvDrain, value, err, want)
	}
	for _, value := range []string{
		"x", " 5", "5 ", "+5", "-5", "+5s", "-5s", "-0", "1.5", "1e3s", "0x10", "5 s", "s", "1d",
	} {
		bad(value, ErrDuration)
	}
	bad("601", ErrRange)
	bad("10m1ns", ErrRange)
	bad(strings.Repeat("9", 400), ErrRange)
	bad(strings.Repeat("9", 400)+"h", ErrDuration) // over what a duration holds
}

func isDrain(v Variable) bool { return v.Env == EnvDrain }

func TestAdmin(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		if got := mustRead(t, "SLUICE_ADMIN="+value).Admin; got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	f("", "127.0.0.1:8788")
	f("off", "")
	f("OFF", "")
	f("0.0.0.0:1", "0.0.0.0:1")
	f("[::1]:0", "[::1]:0")
	f("[fe80::1%eth0]:9", "[fe80::1%eth0]:9")
	f("localhost:65535", "localhost:65535")
	f(":8788", ":8788")
	for _, bad := range []string{
		"8788", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1", "::1:8788",
		"::1", "[::1]", "a b:1", "300.1.1.1:1", "http://127.0.0.1:1", "on", "none", ":", "a\n:1", "localhost:http", "0", " ",
		"unix:/run/s", "[127.0.0.1:1", "\x00:1",
	} {
		_, err := FromEnv(env("SLUICE_ADMIN=" + bad))
		checkError(t, EnvAdmin, bad, err, ErrAdmin)
	}
}

// Both sources count, the file is read at each call, and an error names the
// variable and the line but no token (R15).
func TestTokens(t *testing.T) {
	const secret = "tok-SECRET123"
	path := filepath.Join(t.TempDir(), "tokens")
	f := func(name, text string, want []string, wantErr error, pairs ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := mustRead(t, pairs...)
		got, err := c.Tokens()
		if !slices.Equal(got, want) || !errors.Is(err, wantErr) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, want, wantErr)
		}
		if c.HasToken() != (len(pairs) > 0) {
			t.Errorf("%s: HasToken %v", name, c.HasToken())
		}
		if err != nil {
			checkError(t, EnvTokenFile, text, err, wantErr)
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: token shown: %v", name, err)
			}
		}
	}
	const token, file = "AEP_TOKEN=a b", "AEP_TOKEN_FILE="
	f("none", "", nil, nil)
	f("variable", "", []string{"a b"}, nil, token)
	f("file", "x\ny\n", []string{"x", "y"}, nil, file+path)
	f("file again", "y\nz\n", []string{"y", "z"}, nil, file+path)
	f("both", "x\n", []string{"a b", "x"}, nil, token, file+path)
	f("empty file", "# x\n", nil, auth.ErrTokenFileEmpty, token, file+path)
	f("bad line", "x\n"+secret+" y\n", nil, auth.ErrTokenText, file+path)
	f("no file", "", nil, fs.ErrNotExist, file+path+".none")
}
