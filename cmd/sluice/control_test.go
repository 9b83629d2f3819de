package main

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// What control prints and returns, with an agent that obeys.
func TestControl(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	open := startProcess(t, "")
	target, err := relaytest.StartControlTarget(relaytest.TargetConfig{
		Addr: p.addr, Token: secret, Session: "s", Accepts: []string{"control.cancel", "control.pause", "control.attention.respond"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}()
	env := []string{"SLUICE_URL=http://" + p.addr, "AEP_TOKEN=" + secret}
	f := func(name string, code int, stdout, stderr, args string) {
		t.Helper()
		o := runClient(t, nil, env, (*app).controlCommand, append([]string{"control"}, strings.Fields(args)...)...)
		if o.code != code || !regexp.MustCompile("^(?:"+stdout+")$").MatchString(o.stdout) ||
			!regexp.MustCompile(stderr).MatchString(o.stderr) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %d, %q, %q", name, o.code, o.stdout, o.stderr, code, stdout, stderr)
		}
	}
	last := func(want string) {
		t.Helper()
		received := target.Received()
		if got := received[len(received)-1]; !strings.Contains(got, want) {
			t.Errorf("the agent got %s, want %s in it", got, want)
		}
	}
	f("cancel", exitOK, "accepted\nrun.cancelled\n", "^$", "cancel --session s --run r1 --reason why --wait")
	last(`"run":"r1","capture":"redacted","data":{"reason":"why","scope":"run"}`)
	f("cancel all", exitOK, "accepted\n", "^$", "cancel --session s --scope session")
	last(`"data":{"scope":"session"}`)
	f("pause", exitOK, "accepted\n", "^$", "pause --session s --agent me")
	last(`/agent/me","agent":"me","session":"s"}`)
	f("json", exitOK, `\{.*"type":"control.accepted".*\}\n`, "^$", "pause --session s --json")
	f("respond", exitOK, "accepted\n", "^$", "respond --session s --attention q1 --option allow")
	last(`"subject":"q1"`)
	last(`"cause":"q1","data":{"answer":{"option":"allow"}}}`)
	f("respond by text", exitOK, "accepted\n", "^$", "respond --session s --attention q1 --decision other --text hm")
	last(`"capture":"redacted","data":{"answer":{"option":"other","text":"hm"}}}`)
	f("respond by values", exitOK, "accepted\n", "^$", `respond --session s --attention q1 --values {"n":1.0}`)
	last(`"data":{"answer":{"values":{"n":1.0}}}}`)
	f("respond by data", exitOK, "accepted\n", "^$", `respond --session s --attention q1 --data {"answer":{},"x":1}`)
	last(`"data":{"answer":{},"x":1}}`)
	f("rejected", exitRejected, "rejected: unsupported.*\n", "", "resume --session s")
	// The agent tells run.cancelled, which is not the end of the session.
	f("no end", exitUnanswered, "accepted\n", "no end of it within 50ms", "cancel --session s --scope session --wait --wait-timeout 50ms")
	f("no route", exitFailed, "", "no-route", "pause --session nobody")

	f("usage: session", exitUsage, "", "--session is missing: see sluice control pause --help", "pause")
	for _, name := range []string{"pause", "resume"} {
		f("usage: wait for "+name, exitUsage, "", "control."+name+" takes no --wait: no event is defined to tell its end", name+" --session s --wait")
		f(name+" help", exitOK, "(?s).*takes no --wait.*", "^$", name+" --help")
	}
	f("usage: no command", exitUsage, "", "say which command: cancel, pause, resume or respond: see sluice control --help", "")
	f("usage: what", exitUsage, "", "say what to cancel", "cancel --session s")
	f("usage: scope", exitUsage, "", "run or session", "cancel --session s --scope all")
	f("usage: run and session", exitUsage, "", "only with that", "cancel --session s --run r --scope session")
	f("usage: attention", exitUsage, "", "--attention is missing", "respond --session s --option allow")
	f("usage: answer", exitUsage, "", "say what to answer", "respond --session s --attention q")
	f("usage: values", exitUsage, "", "--values is not a JSON object", "respond --session s --attention q --values [1]")
	f("usage: data", exitUsage, "", "whole payload", "respond --session s --attention q --option a --data {}")
	f("usage: argument", exitUsage, "", "takes no argument", "pause --session s now")
	f("usage: command", exitUsage, "", `unknown command "stop"`, "stop")

	env = []string{"SLUICE_URL=http://" + open.addr}
	f("no token", exitFailed, "", "start it with AEP_TOKEN", "pause --session s")
}

// The decision is printed when it comes, so that a wait that is interrupted has
// shown it.
func TestControlInterrupted(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	target, err := relaytest.StartControlTarget(relaytest.TargetConfig{
		Addr: p.addr, Token: secret, Session: "s", Accepts: []string{"control.cancel"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = target.Close() }()
	out, in := io.Pipe()
	defer func() { _ = out.Close() }()
	a := &app{
		lookup: func(name string) (string, bool) { return secret, name == "AEP_TOKEN" },
		stdout: in, stderr: io.Discard,
	}
	root := a.command()
	root.Commands = []*cli.Command{a.controlCommand()}
	done, printed := make(chan error, 1), make(chan string, 1)
	go func() {
		done <- root.Run(context.Background(), strings.Fields(
			"sluice control cancel --url http://"+p.addr+" --session s --scope session --wait --id c1",
		))
	}()
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		printed <- line
	}()
	select {
	case line := <-printed:
		if line != "accepted\n" {
			t.Errorf("printed %q", line)
		}
	case <-time.After(patience):
		t.Fatal("the decision is not printed")
	}
	raise(t, syscall.SIGINT)
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "control: interrupted; to ask what became of it: --id c1") {
			t.Errorf("%v", err)
		}
	case <-time.After(patience):
		t.Fatal("does not end")
	}
}

// No answer in time: exit 4, and how to ask again, which then finds the answer.
func TestControlUnanswered(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	env := []string{"SLUICE_URL=http://" + p.addr, "AEP_TOKEN=" + secret}
	w, err := relaytest.DialWS(p.addr, "/socket", relaytest.WSOptions{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	barrier := func(texts ...string) {
		t.Helper()
		for _, text := range append(texts, `{"type":"ping","t":"here"}`) {
			if err := w.SendText(text); err != nil {
				t.Fatal(err)
			}
		}
		for {
			m, err := w.Next(patience)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(m.Data), `"here"`) {
				return
			}
		}
	}
	barrier(`{"type":"hello","versions":["0.1"],"role":"emitter"}`, relaytest.Event{Session: "s"}.JSON())
	ask := func(timeout time.Duration, args ...string) outcome {
		t.Helper()
		return runClient(t, nil, env, (*app).controlCommand,
			append([]string{"control", "pause", "--session", "s", "--timeout", timeout.String()}, args...)...)
	}
	o, timeout := outcome{}, 200*time.Millisecond
	for ; o.code != exitUnanswered && timeout < patience; timeout *= 2 { // or it ends before the command is sent
		o = ask(timeout)
	}
	_, id, found := strings.Cut(strings.TrimSpace(o.stderr), "--id ")
	if o.code != exitUnanswered || o.stdout != "no answer\n" || !found {
		t.Fatalf("exit %d, %q, %q", o.code, o.stdout, o.stderr)
	}
	barrier(relaytest.Event{Type: "control.accepted", Session: "s", Seq: 1, Cause: id}.JSON())
	if o := ask(patience, "--id", id); o.code != exitOK || o.stdout != "accepted\n" {
		t.Errorf("exit %d, %q, %q", o.code, o.stdout, o.stderr)
	}
}

// The sender's name is a URI whatever it is.
func TestSourceOf(t *testing.T) {
	source := sourceOf("a b/ü\n")
	if u, err := url.Parse(source); err != nil || u.Scheme != "aep" || u.Host == "" || strings.ContainsAny(source, " \n") {
		t.Errorf("%q: %v", source, err)
	}
}
