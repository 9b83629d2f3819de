package config

import (
	"errors"
	"strings"
	"testing"
)

// Bad values of the binding stop the start, and name their variable.
func TestAEPWSErrors(t *testing.T) {
	f := func(pairs ...string) {
		t.Helper()
		_, err := FromEnv(env(pairs...))
		var bad *VariableError
		if !errors.As(err, &bad) || !strings.HasPrefix(pairs[0], bad.Env+"=") {
			t.Errorf("%q: %v", pairs, err)
		}
	}
	for _, path := range []string{
		"aep", "/", "/a?b", "/a#b", "/a b", "/\u00e4", "/v1", "/v1/x", "/events", "/xrpc/y", "/admin", "/health",
		"/" + strings.Repeat("x", 200),
	} {
		f("AEPWS_PATH=" + path)
	}
	f("AEPWS_ALLOW_OPEN=yes")
	f("AEPWS_MAX_MESSAGE_BYTES=1023")
	f("AEPWS_MAX_MESSAGE_BYTES=4194305")
	f("AEPWS_HEARTBEAT_MS=999")
	f("AEPWS_HEARTBEAT_MS=300001")
	f("AEPWS_OPEN_TIMEOUT_MS=0")
	f("AEPWS_MAX_CONNECTIONS=0")
	f("AEPWS_RETENTION_EVENTS=0")
	f("AEPWS_RETENTION_MS=0")
	f("AEPWS_RETENTION_BYTES=-1")
	f("AEPWS_ACK_TIMEOUT_MS=0")
	f("AEPWS_MAX_ATTEMPTS=0")
	f("AEPWS_MAX_ATTEMPTS=11")
	f("AEPWS_BACKOFF_MS=1e3")
	for _, number := range []string{"0.9", "1e2", "1001", "-2", "x", ".", "0x2", "NaN", "+2", "1_0"} {
		f("AEPWS_BACKOFF_MULTIPLIER=" + number)
	}
	f("AEPWS_EXTRA_TYPES=task")
	f("AEPWS_EXTRA_TYPES=a.b,,c.d")
	f("AEPWS_EXTRA_TYPES=session.x")
	f("AEPWS_EXTRA_TYPES=" + strings.Repeat("a.b,", 1000) + "a.b")
	f("AEPWS_FRAGMENTS=1")
	f("SYNC_BASE_PATHS=/bind", "AEPWS_PATH=/bind")
}

// Paths that only look like another surface's are free.
func TestAEPWSPath(t *testing.T) {
	for _, path := range []string{"/v11", "/eventstream", "/a", "/aep/v1"} {
		if c := mustRead(t, "AEPWS_PATH="+path); c.AEPWS.Path != path {
			t.Errorf("%q is read as %q", path, c.AEPWS.Path)
		}
	}
}

// Section 1: with no token the binding stays on loopback, unless that is allowed.
func TestAEPWSExposed(t *testing.T) {
	f := func(exposed bool, pairs ...string) {
		t.Helper()
		err := mustRead(t, pairs...).CheckAEPWS()
		if errors.Is(err, ErrExposed) != exposed || err != nil && !strings.HasPrefix(err.Error(), "AEPWS_TOKEN: ") {
			t.Errorf("%q: %v", pairs, err)
		}
	}
	f(false)
	f(false, "AEP_HOST=unix:/run/s")
	f(false, "AEP_HOST=127.0.0.1", "AEP_TOKEN=t")
	f(true, "AEP_TOKEN=t")
	f(true, "AEP_HOST=0.0.0.0")
	f(true, "AEP_HOST=relay.lan", "AEP_TOKEN_FILE=/run/tokens")
	f(false, "AEP_HOST=0.0.0.0", "AEPWS_TOKEN=w")
	f(false, "AEP_HOST=0.0.0.0", "AEPWS_ALLOW_OPEN=1")
}
