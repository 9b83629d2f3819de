package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
)

const secret = "tok-SECRET123"

// outcome is what one run of the program left behind.
type outcome struct {
	code           int
	stdout, stderr string
	served         *config.Config // what the relay was run with; nil if it was not
}

// run runs the program with an environment of NAME=value texts and a
// relay that returns at once.
func run(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	return runWith(t, func(context.Context, *slog.Logger, io.Writer, relay.Control) error { return nil }, env, args...)
}

// runWith is run with a relay of the test's own.
func runWith(t *testing.T, serve func(context.Context, *slog.Logger, io.Writer, relay.Control) error, env []string,
	args ...string,
) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	var o outcome
	a := app{
		lookup: func(name string) (string, bool) {
			for _, pair := range env {
				if n, value, _ := strings.Cut(pair, "="); n == name {
					return value, true
				}
			}
			return "", false
		},
		stdout: &stdout,
		stderr: &stderr,
		serve: func(ctx context.Context, cfg config.Config, log *slog.Logger, w io.Writer, ctl relay.Control) error {
			o.served = &cfg
			return serve(ctx, log, w, ctl)
		},
	}
	o.code = a.main(t.Context(), append([]string{"sluice"}, args...))
	o.stdout, o.stderr = stdout.String(), stderr.String()
	if strings.Contains(o.stdout+o.stderr, secret) {
		t.Errorf("R15: token shown: %q %q", o.stdout, o.stderr)
	}
	return o
}

// tokenFile writes a token file.
func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Later wins: preset of the profile, then environment, then flag.
func TestPrecedence(t *testing.T) {
	f := func(name string, env, args []string, want func(config.Config) bool) {
		t.Helper()
		o := run(t, env, append([]string{"serve"}, args...)...)
		if o.code != exitOK || o.served == nil {
			t.Errorf("%s: exit %d, stderr %q", name, o.code, o.stderr)
			return
		}
		if !want(*o.served) {
			t.Errorf("%s: got\n%v", name, *o.served)
		}
	}
	port := func(n int) func(config.Config) bool { return func(c config.Config) bool { return c.Port == n } }
	f("default", nil, nil, port(8787))
	f("environment", []string{"AEP_PORT=1"}, nil, port(1))
	f("flag", nil, []string{"--port", "2"}, port(2))
	f("flag over environment", []string{"AEP_PORT=1"}, []string{"--port=2"}, port(2))
	f("flag over a wrong environment", []string{"AEP_PORT=x"}, []string{"--port=2"}, port(2))
	f("empty flag clears the variable", []string{"AEP_PORT=1"}, []string{"--port="}, port(8787))
	buffer := func(n int64) func(config.Config) bool {
		return func(c config.Config) bool { return c.BufferBytes == n }
	}
	const edge = "SLUICE_PROFILE=edge"
	f("preset of the variable", []string{edge}, nil, buffer(128<<20))
	f("preset of the flag", nil, []string{"--profile", "edge"}, buffer(128<<20))
	f("profile flag over its variable", []string{edge}, []string{"--profile=large-node"}, buffer(8<<30))
	f("profile flag over a wrong variable", []string{"SLUICE_PROFILE=x"}, []string{"--profile=edge"}, buffer(128<<20))
	f("empty profile flag clears the variable", []string{edge}, []string{"--profile="}, buffer(1<<30))
	f("environment over the preset", []string{edge, "AEP_BUFFER_BYTES=1"}, nil, buffer(1))
	f("environment over the preset of the flag", []string{"AEP_BUFFER_BYTES=1"}, []string{"--profile=edge"}, buffer(1))
	f("flag over environment and preset", []string{edge, "AEP_BUFFER_BYTES=1"}, []string{"--buffer-bytes=2"}, buffer(2))
	f("empty flag leaves the preset", []string{edge, "AEP_BUFFER_BYTES=1"}, []string{"--buffer-bytes="}, buffer(128<<20))
	f("GOGC over the preset", []string{edge, "GOGC=33"}, nil,
		func(c config.Config) bool {
			return c.GCPercent == 33 && !c.FromPreset("GOGC") && c.FromPreset("GOMEMLIMIT")
		})
	f("max-from follows the flag of sessions", nil, []string{"--max-sessions=3"},
		func(c config.Config) bool { return c.MaxFrom == 3 })
	f("token from the environment", []string{"AEP_TOKEN=" + secret}, nil, tokens(secret))
	f("token file beside the environment", []string{"AEP_TOKEN=x"},
		[]string{"--token-file", tokenFile(t, secret+"\n")}, tokens("x", secret))
	f("token file with CRLF", nil, []string{"--token-file", tokenFile(t, secret+"\r\n")}, tokens(secret))
	f("token file of several", nil, []string{"--token-file", tokenFile(t, "# two\na\n\n b \n")}, tokens("a", "b"))
	f("token file of the variable", []string{"AEP_TOKEN_FILE=" + tokenFile(t, secret)}, nil, tokens(secret))
	f("token file flag over its variable", []string{"AEP_TOKEN_FILE=/none"},
		[]string{"--token-file", tokenFile(t, secret)}, tokens(secret))
}

// tokens wants these to be the valid tokens.
func tokens(want ...string) func(config.Config) bool {
	return func(c config.Config) bool {
		got, err := c.Tokens()
		return err == nil && slices.Equal(got, want)
	}
}

// Each flag reaches the setting that it mirrors.
func TestEveryFlagMirrorsItsVariable(t *testing.T) {
	values := map[string]string{
		"host": "relay.lan", "origins": "https://dash.example", "log-format": "json", "log-level": "error",
		"token-file": tokenFile(t, secret), "admin": "127.0.0.1:7", "drain": "7s", "trusted-proxies": "10.0.0.0/8",
		"access-log": "on", "profile": "edge", "send-buffer": "65537",
		"surfaces": "sync", "writes-disabled": "1", "sync-base-paths": "/v2,/b", "sqlite-synchronous": "EXTRA",
		"firehose-max-frame-bytes": "7777", "firehose-upstreams": "a.example,wss://b.example", "firehose-verify": "off",
		"aepws-path": "/a", "aepws-allow-open": "1", "aepws-max-message-bytes": "7777", "aepws-heartbeat-ms": "7777",
		"aepws-strict-types": "1", "aepws-extra-types": "a.b,c.d", "aepws-fragments": "accept",
	}
	env := map[string][]string{"ingest-burst": {"SLUICE_INGEST_RATE=1"}} // what a flag has no effect without
	for _, v := range config.Variables() {
		if v.Flag == "" {
			continue
		}
		value := values[v.Flag]
		if value == "" {
			value = "7"
		}
		o := run(t, env[v.Flag], "serve", "--"+v.Flag, value, "--print-config")
		if o.code != exitOK || !strings.Contains(o.stdout, v.Env+"="+value+"\n") {
			t.Errorf("--%s %s: exit %d\n%s%s", v.Flag, value, o.code, o.stdout, o.stderr)
		}
	}
}

func TestPrintConfig(t *testing.T) {
	o := run(t, []string{"AEP_TOKEN=" + secret, "AEP_PORT=1"}, "serve", "--print-config", "--loops", "2")
	if o.code != exitOK || o.stderr != "" || o.served != nil {
		t.Errorf("exit %d, stderr %q, served %v", o.code, o.stderr, o.served)
	}
	for _, line := range []string{"AEP_PORT=1\n", "AEP_TOKEN=(set)\n", "SLUICE_LOOPS=2\n", "AEP_MAX_FROM=500\n"} {
		if !strings.Contains(o.stdout, line) {
			t.Errorf("no line %q in\n%s", line, o.stdout)
		}
	}
	o = run(t, []string{"GOGC=off"}, "serve", "--print-config", "--profile", "edge", "--send-buffer", "131072")
	for _, line := range []string{
		"SLUICE_PROFILE=edge\n", "AEP_BUFFER_BYTES=134217728\n", "SLUICE_SEND_BUFFER=131072\n", "GOGC=off\n", "GOMEMLIMIT=",
	} {
		if o.code != exitOK || !strings.Contains(o.stdout, line) || strings.Contains(o.stdout, "GOMEMLIMIT=off") {
			t.Errorf("profile: exit %d, %q, no line %q in\n%s", o.code, o.stderr, line, o.stdout)
		}
	}
	if o := run(t, nil, "serve", "--print-config"); !strings.Contains(o.stdout, "AEP_TOKEN=(unset)\n") {
		t.Errorf("got\n%s", o.stdout)
	}
}

// R11: an error is one line on stderr that names the variable, without any
// usage text, and the relay does not run.
func TestErrorLines(t *testing.T) {
	f := func(name, want string, env []string, args ...string) {
		t.Helper()
		o := run(t, env, args...)
		if o.code != exitUsage || o.stdout != "" || o.served != nil {
			t.Errorf("%s: exit %d, stdout %q, served %v", name, o.code, o.stdout, o.served)
		}
		if !strings.HasPrefix(o.stderr, "sluice: ") || strings.Count(o.stderr, "\n") != 1 ||
			!strings.HasSuffix(o.stderr, "\n") || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: stderr %q is not one line with %q", name, o.stderr, want)
		}
	}
	f("R11 variable", "AEP_BUFFER: ", []string{"AEP_BUFFER=x"}, "serve")
	f("R11 variable with line ends", "AEP_BUFFER: ", []string{"AEP_BUFFER=1\nx"}, "serve")
	f("R11 flag", "AEP_PORT (--port): ", nil, "serve", "--port", "65536")
	f("R11 print-config too", "AEP_MAX_BODY: ", []string{"AEP_MAX_BODY=0"}, "serve", "--print-config")
	f("unknown profile", "SLUICE_PROFILE: \"x\" is not one of the known profiles: edge, large-node", []string{"SLUICE_PROFILE=x"}, "serve")
	f("unknown profile of the flag", "SLUICE_PROFILE (--profile): \"x\" ", nil, "serve", "--profile", "x")
	f("unknown profile with print-config", "SLUICE_PROFILE", nil, "serve", "--profile", "x", "--print-config")
	f("GOGC that the runtime would ignore", "GOGC: ", []string{"GOGC=100%"}, "serve")
	f("GOMEMLIMIT", "GOMEMLIMIT: ", []string{"GOMEMLIMIT=1GB"}, "serve")
	f("R38 origins", "AEP_ORIGINS: ", []string{"AEP_ORIGINS=nonsense"}, "serve")
	f("unknown flag", "prot", nil, "serve", "--prot", "1")
	f("secret as a flag", "token", nil, "serve", "--token", "x")
	f("flag without value", "port", nil, "serve", "--port")
	f("flag of the root", "port", nil, "--port", "1")
	f("argument", `"now"`, nil, "serve", "now")
	f("argument named help", `"help"`, nil, "serve", "help")
	f("argument of version", `"now"`, nil, "version", "now")
	f("unknown command", `"server"`, nil, "server")
	f("token file not there", "--token-file", nil, "serve", "--token-file", filepath.Join(t.TempDir(), "none"))
	f("token file of the variable not there", "AEP_TOKEN_FILE: ", []string{"AEP_TOKEN_FILE=/none"}, "serve")
	f("token file empty", "AEP_TOKEN_FILE (--token-file): ", nil, "serve", "--token-file", tokenFile(t, "\n"))
	f("token file flag empty", "--token-file", []string{"AEP_TOKEN=x"}, "serve", "--token-file=")
	f("token file flag empty over its variable", "--token-file", []string{"AEP_TOKEN_FILE=" + tokenFile(t, "x")},
		"serve", "--token-file=")
	f("token file with a bad line", "line 2", nil, "serve", "--token-file", tokenFile(t, "a\n"+secret+" "+secret))
	f("token too long", "line 1", nil, "serve", "--token-file", tokenFile(t, strings.Repeat(secret, 9999)))
	f("token file with print-config", "AEP_TOKEN_FILE", nil, "serve", "--print-config", "--token-file", tokenFile(t, ""))
	f("C54 cap without effect", "SLUICE_MAX_CONNS_PER_IP (--max-conns-per-ip): ", []string{"SLUICE_MAX_CONNS=5"},
		"serve", "--max-conns-per-ip", "6")
}

// R464: the relay's error is exit 1 and one line.
func TestRelayError(t *testing.T) {
	failing := func(context.Context, *slog.Logger, io.Writer, relay.Control) error {
		return errors.New("2 connections were cut")
	}
	o := runWith(t, failing, nil, "serve")
	if o.code != exitFailed || o.stderr != "sluice: 2 connections were cut\n" {
		t.Errorf("exit %d, stderr %q", o.code, o.stderr)
	}
}

// The relay's stdout is the program's (R12), its log goes to stderr.
func TestOutputs(t *testing.T) {
	speaking := func(_ context.Context, log *slog.Logger, stdout io.Writer, _ relay.Control) error {
		log.Info("hello", "n", 1)
		log.Debug("hidden")
		_, err := fmt.Fprintln(stdout, "aep-relay listening on 127.0.0.1:8787")
		return err
	}
	o := runWith(t, speaking, nil, "serve")
	if o.stdout != "aep-relay listening on 127.0.0.1:8787\n" || !strings.HasSuffix(o.stderr, "msg=hello n=1\n") ||
		strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("stdout %q, stderr %q", o.stdout, o.stderr)
	}
	o = runWith(t, speaking, []string{"SLUICE_LOG_LEVEL=debug"}, "serve", "--log-format", "json")
	first, second, _ := strings.Cut(o.stderr, "\n")
	var line struct {
		Msg string
		N   int
	}
	if err := json.Unmarshal([]byte(first), &line); err != nil || line.Msg != "hello" || line.N != 1 {
		t.Errorf("not a JSON log: %q: %v", first, err)
	}
	if !strings.Contains(second, "hidden") {
		t.Errorf("no debug line: %q", o.stderr)
	}
}

// R13: a warning when a relay without a token is bound beyond loopback.
func TestExposedWarning(t *testing.T) {
	f := func(want bool, env ...string) {
		t.Helper()
		o := run(t, env, "serve")
		if got := strings.Contains(o.stderr, "level=WARN"); got != want || o.served == nil {
			t.Errorf("%q: warning %v, want %v; stderr %q", env, got, want, o.stderr)
		}
		if want && strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%q: not one line: %q", env, o.stderr)
		}
	}
	f(false)
	f(false, "AEP_HOST=127.0.0.1")
	f(false, "AEP_HOST=localhost")
	f(false, "AEP_HOST=0.0.0.0", "AEP_TOKEN=x")
	f(false, "AEP_TOKEN=x")
	f(true, "AEP_HOST=0.0.0.0")
	f(true, "AEP_HOST=::")
	f(true, "AEP_HOST=192.0.2.1")
	f(false, "AEP_HOST=unix:/run/s")
	f(false, "AEP_HOST=0.0.0.0", "AEP_TOKEN_FILE="+tokenFile(t, "x"))
}

// Buffers that fill the memory limit are worth a warning, not more.
func TestMemoryWarning(t *testing.T) {
	f := func(want bool, args ...string) {
		t.Helper()
		o := run(t, nil, append([]string{"serve"}, args...)...)
		if got := strings.Count(o.stderr, "level=WARN") == 1 && strings.Contains(o.stderr, "GOMEMLIMIT"); got != want ||
			o.served == nil || !want && o.stderr != "" {
			t.Errorf("%q: warning %v, want %v; stderr %q", args, got, want, o.stderr)
		}
	}
	f(false)
	f(false, "--profile=edge")
	f(false, "--profile=large-node")
	f(true, "--profile=edge", "--buffer-bytes=1073741824")
}

// A token file that others may read is worth a warning, not more.
func TestTokenFileWarning(t *testing.T) {
	path := tokenFile(t, secret)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	o := run(t, []string{"AEP_TOKEN_FILE=" + path}, "serve")
	if o.code != exitOK || o.served == nil || strings.Count(o.stderr, "level=WARN") != 1 ||
		!strings.Contains(o.stderr, "0644") {
		t.Errorf("exit %d, stderr %q", o.code, o.stderr)
	}
}

func TestHelp(t *testing.T) {
	f := func(want []string, args ...string) {
		t.Helper()
		o := run(t, []string{"AEP_PORT=x"}, args...) // help needs no valid environment
		if o.code != exitOK || o.stderr != "" || o.served != nil {
			t.Errorf("%q: exit %d, stderr %q", args, o.code, o.stderr)
		}
		for _, w := range want {
			if !strings.Contains(o.stdout, w) {
				t.Errorf("%q: no %q in\n%s", args, w, o.stdout)
			}
		}
	}
	f([]string{"serve", "version"})
	f([]string{"serve", "version"}, "--help")
	teaches := []string{
		"curl -N http://127.0.0.1:8787/stream", "AEP-Version: 0.1", exampleEvent, "--token-file", "--print-config", "SIGHUP",
	}
	for _, v := range config.Variables() {
		teaches = append(teaches, v.Env)
	}
	f(teaches, "serve", "--help")
	f(teaches, "serve", "-h")
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version", "-v"} {
		if o := run(t, nil, arg); o.code != exitOK || o.stdout != "sluice version "+version()+"\n" {
			t.Errorf("%s: exit %d, %q", arg, o.code, o.stdout)
		}
	}
	if version() == "" {
		t.Error("empty version")
	}
}

// R11: what is wrong with a setting is a usage error also where it is found out
// only when the relay starts.
func TestSettingFoundWrongAtStart(t *testing.T) {
	o := runWith(t, func(context.Context, *slog.Logger, io.Writer, relay.Control) error {
		return fmt.Errorf("relay: %w", &config.VariableError{Env: config.EnvAEPWSToken, Err: config.ErrExposed})
	}, nil, "serve")
	if o.code != exitUsage || !strings.Contains(o.stderr, config.EnvAEPWSToken) {
		t.Errorf("exit %d, %q", o.code, o.stderr)
	}
}
