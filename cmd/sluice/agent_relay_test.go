package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What emit reads and tail prints: lines, JSON, cursors, filters, with the
// status of each.
func TestAgent(t *testing.T) {
	p := startProcess(t, "", "SLUICE_SURFACES=aepws", "AEPWS_TOKEN="+secret, "SLUICE_DATA="+t.TempDir())
	env := []string{"SLUICE_URL=ws://" + p.addr, "AEPWS_TOKEN=" + secret}
	f := func(name string, code int, stdout, stderr, stdin string, args ...string) {
		t.Helper()
		o := agentOf(t, stdin, env, args...)
		if o.code != code || !regexp.MustCompile(stdout).MatchString(o.stdout) || !regexp.MustCompile(stderr).MatchString(o.stderr) {
			t.Errorf("%s: exit %d, want %d\n%q\nwant %s\nstderr %q, want %s", name, o.code, code, o.stdout, stdout, o.stderr, stderr)
		}
	}
	const one = `{"id":"e1","type":"task.progress","source":"s","created_at":"2026-01-02T15:04:05Z","payload":{"text":"\u001b[2J","n":1.10}}`
	const two = `{"type":"tool.call.failed","target":"planner","payload":{"n":2}}`
	f("emit", exitOK, `^$`, `^sluice agent emit: 2 events acknowledged, 0 sent as best_effort, 0 refused, .*\n$`, one+"\n"+two, "emit", "-")
	f("emit again", exitOK, `^$`, `1 events acknowledged`, "", "emit", writeFile(t, "one", one))
	f("emit without answers", exitOK, `^$`, `0 events acknowledged, 1 sent as best_effort`, two, "emit", "--mode", "best_effort", "--source", "x", "-")
	f("refused", exitRefused, `^$`, `^stdin:2: invalid_envelope: payload is missing\n(.*\n)*stdin:1: invalid_envelope: duplicate_id: `,
		strings.Replace(one, "1.10", "3", 1)+"\n"+`{"type":"a.b"}`, "emit", "-")
	f("lines", exitOK, `^1 +2026-01-02T15:04:05.000Z task.progress +s n=1.10 text=.*\\x1b\[2J.*\n2 .* tool.call.failed +sluice-agent-emit -> planner n=2\n$`,
		`^$`, "", "tail", "--cursor", "start:0", "--count", "2")
	f("json", exitOK, `^{.*"id":"e1",.*"text":"\\u001b\[2J","n":1.10}.*"cursor":"e1:1".*}\n$`, `^$`, "", "tail", "--cursor", "start:0", "--count", "1", "--json")
	f("filter", exitOK, `^2 `, `^$`, "", "tail", "--cursor", "start:0", "--count", "1", "--type", "tool.*", "--target", "planner", "--mode", "replayable")
	f("rejected", exitFailed, `^$`, `^agent tail: the relay refuses: subscription_rejected: types: `, "", "tail", "--type", "mem*")
	f("gap", exitOK, `^1 `, `events after the cursor are missing: cursor_in_future.*\n.*incomplete: 1 gaps`, "", "tail", "--cursor", "e:99", "--count", "1")
	f("elsewhere", exitFailed, `^$`, `404 Not Found: .*there is no agents' WebSocket`, "", "tail", "--url", "ws://"+p.addr+"/none")
	file := filepath.Join(t.TempDir(), "cursor")
	for _, n := range []string{"1", "2"} {
		o := agentOf(t, "", env, "tail", "--cursor", "start:0", "--cursor-file", file, "--count", "1")
		if text, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(text), ":"+n+"\n") || !strings.HasPrefix(o.stdout, n+" ") {
			t.Errorf("cursor file: %q, %v, %q", text, err, o.stdout)
		}
	}
	env[1] = "AEPWS_TOKEN=wrong"
	f("wrong token", exitFailed, `^$`, `^agent tail: the relay refuses with 401 Unauthorized: .*; see --token-file`, "", "tail")
}

// A reader of the pipe that has seen enough ends tail with 0 and no word.
func TestAgentTailBrokenPipe(t *testing.T) {
	p := startProcess(t, "", "SLUICE_SURFACES=aepws", "SLUICE_DATA="+t.TempDir())
	env := []string{"SLUICE_URL=ws://" + p.addr, "AEPWS_TOKEN="}
	cmd, stderr := sluiceProcess(t, env, "agent", "tail", "--cursor", "start:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	emit := func() {
		t.Helper()
		if o := agentOf(t, `{"type":"a.b","payload":{}}`, env, "emit", "-"); o.code != exitOK {
			t.Fatal(o.stderr)
		}
	}
	emit()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 2)
	if _, err := io.ReadFull(out, one); err != nil || string(one) != "1 " {
		t.Fatalf("%q, %v", one, err)
	}
	_ = out.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		emit()
		select {
		case err := <-ended:
			if err != nil || strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("%v, %q", err, stderr)
			}
			return
		case <-t.Context().Done():
			t.Fatal("tail does not end")
		default:
		}
	}
}
