package main

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// adminAddr finds the address of the admin listener in a log.
var adminAddr = regexp.MustCompile(`msg="admin listener" addr=(\S+)`)

// metrics returns the values of what has no label on a metrics page.
func metrics(t *testing.T, addr string) map[string]float64 {
	t.Helper()
	res, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}

// TestProfileOfARunningRelay: what the profile gives to the Go runtime is in
// force in the process, what the environment says stays, and SIGHUP changes
// nothing of it.
func TestProfileOfARunningRelay(t *testing.T) {
	f := func(percent, limitBytes float64, said string, env ...string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "log")
		tokens := tokenFile(t, secret)
		p := startProcess(t, "exec 2>'"+path+"';", append([]string{
			"SLUICE_ADMIN=127.0.0.1:0", "SLUICE_PROFILE=", "GOGC=", "GOMEMLIMIT=", "AEP_TOKEN_FILE=" + tokens,
		}, env...)...)
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		addr := adminAddr.FindSubmatch(log)
		if addr == nil || strings.Contains(string(log), "msg=profile ") != (said != "") || !strings.Contains(string(log), said) {
			t.Fatalf("%q: no admin listener, or not what the profile gives, %q: %s", env, said, log)
		}
		check := func(when string) {
			t.Helper()
			m := metrics(t, string(addr[1]))
			if m["go_gc_gogc_percent"] != percent || m["go_gc_gomemlimit_bytes"] != limitBytes {
				t.Errorf("%q, %s: GOGC %v, GOMEMLIMIT %v, want %v, %v", env, when,
					m["go_gc_gogc_percent"], m["go_gc_gomemlimit_bytes"], percent, limitBytes)
			}
		}
		check("at start")
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		awaitText(t, path, "msg=reloaded")
		check("after SIGHUP")
	}
	const none, gib = 1<<63 - 1, 1 << 30
	f(100, none, "")
	f(200, 24*gib, `gives="AEP_MAX_SESSIONS AEP_BUFFER_BYTES SLUICE_SEND_BUFFER GOGC GOMEMLIMIT"`, "SLUICE_PROFILE=large-node")
	f(33, 24*gib, `SLUICE_SEND_BUFFER GOMEMLIMIT"`, "SLUICE_PROFILE=large-node", "GOGC=33")
	f(200, gib, `SLUICE_SEND_BUFFER GOGC"`, "SLUICE_PROFILE=large-node", "GOMEMLIMIT=1GiB", "AEP_BUFFER_BYTES=7")
}

// awaitText waits until a file holds a text.
func awaitText(t *testing.T, path, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if log, err := os.ReadFile(path); err == nil && strings.Contains(string(log), text) {
			return
		}
	}
	t.Fatalf("no %q in %s", text, path)
}
