package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	at := "SLUICE_URL=http://" + p.addr
	f := func(name string, env []string, code int, want string, args ...string) {
		t.Helper()
		o := runClient(t, nil, env, (*app).demoCommand, append([]string{"demo"}, args...)...)
		if o.code != code || !strings.Contains(o.stderr, want) || o.stdout != "" {
			t.Errorf("%s: exit %d, want %d and %q:\n%s%s", name, o.code, code, want, o.stderr, o.stdout)
		}
	}
	env := []string{at, "AEP_TOKEN=" + secret}
	f("one second", env, exitOK, "0 sessions open\n", "--agents", "4", "--rate", "200", "--seed", "5", "--duration", "1s")
	f("by POST", env, exitOK, `{"demofleet":"0005"}`, "--http", "--rate", "200", "--seed", "5", "--duration", "1s")
	f("no token", []string{at}, exitFailed, "it wants a token: set AEP_TOKEN or --token-file", "--duration", "5s")
	f("wrong token", []string{at, "AEP_TOKEN=wrong"}, exitFailed, "it wants another token: set", "--duration", "5s")
	const nobody = "no event got in: cannot reach the relay: connection refused"
	f("nobody", env, exitFailed, nobody, "--duration", "1s", "--url", "http://127.0.0.1:1")
	f("nobody by POST", env, exitFailed, nobody, "--duration", "1s", "--http", "--url", "http://127.0.0.1:1")
	f("too many agents", env, exitUsage, "2000 agents, want 1 to 1000", "--agents", "2000")
	f("no rate", env, exitUsage, "0 events a second", "--rate", "0")
	f("too short", env, exitUsage, "--duration is less than 1s", "--duration", "5ms")
	f("negative seed", env, exitUsage, "see sluice demo --help", "--seed", "-1")
	f("argument", env, exitUsage, "takes no argument", "http://x")
	f("bad URL", []string{"SLUICE_URL=ftp://x"}, exitUsage, "not http or https")
}

func TestDoctor(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	env := []string{"AEP_TOKEN=" + secret}
	f := func(name string, env []string, code int, stdout, stderr string, args ...string) {
		t.Helper()
		if !slices.Contains(args, "--timeout") {
			args = append([]string{"--timeout", "1m"}, args...)
		}
		var o outcome
		for range 20 { // a busy machine is warned of: it is slow
			o = runClient(t, nil, env, (*app).doctorCommand, append([]string{"doctor"}, args...)...)
			if !strings.Contains(o.stderr, "nothing failed") {
				break
			}
		}
		if o.code != code || !strings.Contains(o.stdout, stdout) || !strings.Contains(o.stderr, stderr) {
			t.Errorf("%s: exit %d, want %d, %q and %q:\n%s%s", name, o.code, code, stdout, stderr, o.stdout, o.stderr)
		}
	}
	nowhere := httptest.NewServer(http.NotFoundHandler())
	defer nowhere.Close()
	f("well", env, exitOK, "ok    websocket    upgraded", "all is well", "--quick", "--publish", "--admin", "off", p.addr)
	f("from the environment", append(env, "SLUICE_URL=http://"+p.addr), exitOK, "skip  publish", "all is well", "--quick", "--admin", "off")
	f("JSON", env, exitOK, `"verdict": "ok"`, "all is well", "--quick", "--json", "--admin", "off", p.addr)
	f("no token", nil, exitUnwell, "-> set AEP_TOKEN or --token-file", "1 of 14 checks failed", "--quick", p.addr)
	f("not a relay", env, exitUnwell, "check the URL", "1 of 14 checks failed", nowhere.URL)
	f("twice", env, exitUsage, "", "given twice", "--url", "http://x", p.addr)
	f("two URLs", env, exitUsage, "", "takes one URL", p.addr, p.addr)
	f("bad URL", env, exitUsage, "", "not http or https", "ftp://x")
	f("admin off", env, exitOK, "skip  admin        the admin listener was turned off", "", "--quick", "--admin", "off", p.addr)
	f("no admin", env, exitOK, "warn  admin        no admin listener at http://127.0.0.1:1", "", "--quick", "--admin", "127.0.0.1:1", p.addr)
	f("bad admin", env, exitUsage, "", `"foo" is not host:port, a URL or off`, "--quick", "--admin", "foo", p.addr)
	f("empty admin", env, exitUsage, "", "bad address of the admin listener", "--quick", "--admin", "", p.addr)
	f("timeout", env, exitUsage, "", "--timeout is not between", "--timeout", "1h", p.addr)
}

// What cannot be written was not told: that is no success.
func TestDoctorUnwritten(t *testing.T) {
	p := startProcess(t, "")
	for _, format := range [][]string{nil, {"--json"}} {
		var stderr bytes.Buffer
		a := &app{stdout: failingWriter{}, stderr: &stderr}
		args := append([]string{"sluice", "doctor", "--quick", "--admin", "off", p.addr}, format...)
		if code := a.main(t.Context(), args); code != exitFailed || !strings.Contains(stderr.String(), "no room") {
			t.Errorf("%v: exit %d\n%s", format, code, &stderr)
		}
	}
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no room") }
