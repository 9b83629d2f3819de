package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/client/agent"
)

// agentOf runs a command of agent.
func agentOf(t *testing.T, stdin string, env []string, args ...string) outcome {
	t.Helper()
	return runClient(t, strings.NewReader(stdin), env, func(a *app) *cli.Command { return a.agentCommand() }, append([]string{"agent"}, args...)...)
}

// Command lines that cannot be are refused before anything is asked.
func TestAgentUsage(t *testing.T) {
	f := func(stderr string, env []string, args ...string) {
		t.Helper()
		o := agentOf(t, "", env, args...)
		if o.code != exitUsage || o.stdout != "" || !regexp.MustCompile(stderr).MatchString(o.stderr) {
			t.Errorf("%q: exit %d, stdout %q, stderr %q, want %s", args, o.code, o.stdout, o.stderr, stderr)
		}
	}
	f("say which command: tail or emit: see sluice agent --help", nil)
	f(`unknown command "x"`, nil, "x")
	f("takes no argument", nil, "tail", "x")
	f("takes one file, or - for standard input", nil, "emit")
	f("takes one file, or - for standard input", nil, "emit", "a", "b")
	f("--type is empty", nil, "tail", "--type", "")
	f("--task is empty", nil, "tail", "--task", "a", "--task", "")
	f("--cursor is empty", nil, "tail", "--cursor", "")
	f("--cursor-file is empty", nil, "tail", "--cursor-file", "")
	f(`--cursor: cursor is not <event id>:<sequence>, got "42"`, nil, "tail", "--cursor", "42")
	f("--count is at least 1", nil, "tail", "--count", "0")
	f("--mode is empty", nil, "tail", "--mode", "")
	f(`--mode: "maybe" is none of best_effort, at_least_once, replayable`, nil, "tail", "--mode", "maybe")
	f(`--mode: "maybe" is none of`, nil, "emit", "--mode", "maybe", "-")
	f("--source is empty", nil, "emit", "--source", "", "-")
	f("--tenant is empty", nil, "tail", "--tenant", "")
	f(`--session-id is 1 to 128 visible ASCII characters, got "a b"`, nil, "emit", "--session-id", "a b", "-")
	f("--token-file ", nil, "tail", "--token-file", "")
	f("token file .*none", nil, "tail", "--token-file", filepath.Join(t.TempDir(), "none"))
	f("AEPWS_TOKEN: the token is not visible ASCII", []string{"AEPWS_TOKEN=" + secret + "\n"}, "tail")
	f("bad relay URL", nil, "tail", "--url", "ftp://x")
	f("bad relay URL", []string{"SLUICE_URL=ws://h/?access_token=" + secret}, "emit", "-")
}

// B7: what a relay answers before the upgrade, and what to do about it. The
// token goes in a header.
func TestAgentRefused(t *testing.T) {
	var authorization, path string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization, path = r.Header.Get("Authorization"), r.URL.String()
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write(aepws.AppendRefusal(nil, aepws.Unauthorized, "bad\x1b[2J"))
	}))
	defer s.Close()
	env := []string{"SLUICE_URL=" + s.URL, "AEPWS_TOKEN=" + secret}
	const refused = `: the relay refuses with 401 Unauthorized: unauthorized: bad\x1b[2J: the relay wants its token; see --token-file in sluice agent `
	f := func(want string, args ...string) {
		t.Helper()
		o := agentOf(t, `{"type":"a.b","payload":1}`, env, args...)
		if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, want) {
			t.Errorf("%q: exit %d, %q", args, o.code, o.stderr)
		}
		if authorization != "Bearer "+secret || path != "/aep" {
			t.Errorf("%q: asks for %s with %q", args, path, authorization)
		}
	}
	f("agent tail"+refused+"tail --help\n", "tail")
	f("0 events acknowledged", "emit", "-")
	f("agent emit stdin"+refused+"emit --help\n", "emit", "-")
	if o := agentOf(t, "", env, "emit", filepath.Join(t.TempDir(), "none")); o.code != exitFailed || !strings.HasPrefix(o.stderr, "agent emit: open ") {
		t.Errorf("no file: exit %d, %q", o.code, o.stderr)
	}
}

// With --json an event is printed as it was delivered, on one line; on a
// terminal without what that would act on.
func TestAgentJSON(t *testing.T) {
	text := []byte("{\n\"payload\": 1.10,\"x\":\"\u202e\u009b\"}")
	e := &agent.Event{Text: text}
	if got := agentJSON(false)([]byte("_"), e); string(got) != "_{\"payload\":1.10,\"x\":\"\u202e\u009b\"}" {
		t.Errorf("%q", got)
	}
	if got := agentJSON(true)([]byte("_"), e); string(got) != `_{"payload":1.10,"x":"\u202e\u009b"}` {
		t.Errorf("terminal: %q", got)
	}
	one := bytes.ReplaceAll(text, []byte("\n"), nil)
	if got := agentJSON(false)(nil, &agent.Event{Text: one}); !bytes.Equal(got, one) {
		t.Errorf("changed: %q", got)
	}
}
