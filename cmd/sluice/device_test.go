package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// A phrase of the locked vectors, and a key: nobody's.
const (
	testPhrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	testKey    = "sf1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
)

// deviceIn runs a command of device in a directory, without any variable.
func deviceIn(t *testing.T, dir, stdin string, args ...string) outcome {
	t.Helper()
	return deviceOf(t, stdin, []string{envDevice + "=" + dir}, args...)
}

// deviceOf runs a command of device. No phrase may come out of it, but from init
// and rekey.
func deviceOf(t *testing.T, stdin string, env []string, args ...string) outcome {
	t.Helper()
	o := runClient(t, strings.NewReader(stdin), env, func(a *app) *cli.Command { return a.deviceCommand() }, append([]string{"device"}, args...)...)
	if strings.Contains(o.stdout+o.stderr, "sausage") || strings.Contains(o.stdout+o.stderr, testKey[4:]) {
		t.Errorf("D5: %q shows the secret: %q %q", args, o.stdout, o.stderr)
	}
	return o
}

// mustDevice is deviceIn for a command that succeeds; it returns standard output.
func mustDevice(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	o := deviceIn(t, dir, stdin, args...)
	if o.code != exitOK {
		t.Fatalf("%q: exit %d, %q, %q", args, o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// restored makes a device of the test's owner.
func restored(t *testing.T, name string, relays ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	args := []string{"restore", "--name", name, "--phrase-file", "-"}
	for _, url := range relays {
		args = append(args, "--relay", url)
	}
	mustDevice(t, dir, testPhrase, args...)
	return dir
}

// syncRelay starts a real relay, and returns its URL.
func syncRelay(t *testing.T, data string, env ...string) (*process, string) {
	t.Helper()
	p := startProcess(t, "", append([]string{"SLUICE_SURFACES=sync", "SLUICE_DATA=" + data}, env...)...)
	return p, "http://" + p.addr
}

// wantDevice fails the test unless the command left this code and these texts,
// regular expressions.
func wantDevice(t *testing.T, name string, o outcome, code int, stdout, stderr string) {
	t.Helper()
	if o.code != code || !regexp.MustCompile(stdout).MatchString(o.stdout) || !regexp.MustCompile(stderr).MatchString(o.stderr) {
		t.Errorf("%s: exit %d, want %d\n%q\nwant %s\nstderr %q\nwant %s", name, o.code, code, o.stdout, stdout, o.stderr, stderr)
	}
}

// Command lines that cannot be are refused before anything is made, and what
// may be a secret is not repeated (D5, case 13).
func TestDeviceUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	f := func(stderr string, args ...string) {
		t.Helper()
		o := deviceIn(t, dir, "", args...)
		wantDevice(t, fmt.Sprint(args), o, exitUsage, "^$", stderr)
	}
	f("say which command: init, restore, relay, .*: see sluice device --help")
	f("there is no such command", testPhrase)
	f("there is no such command", "x")
	f("say which command: add, remove or list", "relay")
	f("there is no such command", "relay", testPhrase)
	words := strings.Fields(testPhrase)
	const never = "a phrase or key is never an argument.*--phrase-file.*SLUICE_DEVICE_PHRASE.*re-key"
	for _, command := range []string{"init", "restore", "rekey"} {
		f(never, append([]string{command}, words...)...)
		f(never, command, testPhrase)
		f(never, command, testKey)
		f("--help", command, "--phrase", testPhrase)
		f("--help", command, "--phrase="+testPhrase)
		f("--help", command, "--"+testPhrase)
		f("--help", command, "--words="+testPhrase)
		f("--help", command, "--native-key="+testPhrase)
	}
	f(never, "restore", "--phrase-file", testPhrase)
	f(never, "restore", "--phrase-file", testKey)
	f(never, "rekey", "--phrase-file="+testPhrase)
	f("--phrase-file is empty", "restore", "--phrase-file", "")
	f("give the phrase with --phrase-file FILE, --phrase-file - or SLUICE_DEVICE_PHRASE", "restore")
	f("--name is 1 to 64 of a-z, 0-9 and -", "init", "--name", testPhrase)
	f("--name is 1 to 64", "init", "--name", "")
	f("--words is 12, 15, 18, 21 or 24", "init", "--words", "13")
	f("--words is 12, 15, 18, 21 or 24", "init", "--words", "27")
	f("--native-key has no words", "init", "--words", "12", "--native-key")
	f("bad relay URL", "init", "--relay", "ftp://x")
	f("bad relay URL", "init", "--relay", "http://127.0.0.1:1", "--relay", "http://u:"+secret+"@h/")
	f("the relay's address is empty", "init", "--relay", "")
	f("--dir is empty", "init", "--dir", "")
	f("takes TABLE ID ROW|-", "put", "t", "i")
	f("takes TABLE ID ROW|-", "put", "t", "i", "{}", "x")
	f("there is no TABLE, ID or ROW", "put", "--lines", "-", "t")
	f("--lines is empty", "put", "--lines", "")
	f("takes TABLE ID", "get", "t")
	f("takes TABLE ID", "delete", "t")
	f(`takes \[TABLE\]`, "list", "t", "i")
	f("the table's name is empty", "list", "")
	f("--limit is at least 1", "list", "--limit", "0")
	f("name the table", "list", "--after", "x")
	f("leave out --after", "list", "t", "--after", "x", "--deleted")
	f("takes no argument", "export", "x")
	f("takes no argument", "status", "x")
	f("takes no argument", "sync", "x")
	f("takes no argument", "watch", "x")
	f("--after is at least 0", "watch", "--after", "-1")
	f("takes no argument", "purge", "x")
	f("--older-than is more than 0", "purge", "--older-than", "-1h")
	f("takes URL", "relay", "add")
	f("bad relay URL", "relay", "add", "ftp://x")
	f("bad relay URL: port 99999", "relay", "add", "http://127.0.0.1:99999")
	f("takes URL", "relay", "remove", "a", "b")
	f("takes FILE", "attach")
	f("--mime is empty", "attach", "--mime", "", "x")
	f("takes BLOB", "fetch")
	f("the FILE's name is empty", "fetch", "x", "")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
	for _, c := range helpOnly().deviceCommand().Commands {
		if o := deviceIn(t, dir, "", c.Name, "--help"); o.code != exitOK || !strings.Contains(o.stdout, "sluice device "+c.Name) {
			t.Errorf("%s --help: %+v", c.Name, o)
		}
	}
}

// Without a device each command says how one is made, and makes nothing.
func TestDeviceAbsent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{
		{"put", "t", "i", "{}"},
		{"put", "--lines", "-"},
		{"get", "t", "i"},
		{"list"},
		{"list", "--deleted"},
		{"delete", "t", "i"},
		{"export"},
		{"sync"},
		{"watch"},
		{"status"},
		{"purge"},
		{"attach", "device_test.go"},
		{"fetch", "x", "-"},
		{"rekey"},
		{"relay", "add", "http://127.0.0.1:1"},
		{"relay", "remove", "http://127.0.0.1:1"},
		{"relay", "list"},
	} {
		o := deviceIn(t, dir, "", args...)
		wantDevice(t, fmt.Sprint(args), o, exitFailed, "^$",
			`^device (relay )?[a-z]+: there is no device in .*none: "sluice device init" makes one.*restore.*--dir or SLUICE_DEVICE`)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
}

// A part of a device is no device, and none to be written over: what is missing is
// said.
func TestDevicePart(t *testing.T) {
	dir := restored(t, "one")
	mustDevice(t, dir, "", "put", "t", "i", "{}")
	if err := os.Remove(credentialPath(dir)); err != nil {
		t.Fatal(err)
	}
	wantDevice(t, "no credential", deviceIn(t, dir, "", "list"), exitFailed, "^$", "write the owner's phrase to .*credential")
	if err := os.WriteFile(credentialPath(dir), []byte(testPhrase+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantDevice(t, "mode", deviceIn(t, dir, "", "list"), exitFailed, "^$", "others than its user can read")
	if err := os.Chmod(credentialPath(dir), 0o600); err != nil {
		t.Fatal(err)
	}
	mustDevice(t, dir, "", "get", "t", "i")
	for _, what := range []string{"no database", "an empty one"} {
		for _, name := range []string{"device.db", "device.db-wal", "device.db-shm"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		if what == "an empty one" {
			if err := os.WriteFile(filepath.Join(dir, "device.db"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		wantDevice(t, what, deviceIn(t, dir, "", "list"), exitFailed, "^$", "restore --phrase-file .*credential\" finishes it")
		mustDevice(t, dir, "", "restore", "--phrase-file", credentialPath(dir))
		mustDevice(t, dir, "", "list")
	}
}

// D3, D5: init prints the credential alone, and keeps it for its user only;
// restore takes it from each of its places.
func TestDeviceInitRestore(t *testing.T) {
	for _, of := range []struct {
		words int
		args  []string
	}{{12, nil}, {24, []string{"--words", "24"}}, {1, []string{"--native-key"}}} {
		dir := filepath.Join(t.TempDir(), "d")
		o := deviceIn(t, dir, "", append([]string{"init", "--name", "one"}, of.args...)...)
		phrase, _ := strings.CutSuffix(o.stdout, "\n")
		if o.code != exitOK || len(strings.Fields(phrase)) != of.words || strings.Contains(phrase, "\n") {
			t.Fatalf("%q: exit %d, %q", of.args, o.code, o.stderr)
		}
		for _, want := range []string{"device one of owner ", "no relay yet: ", "the only way back", "must not share this owner"} {
			if !strings.Contains(o.stderr, want) {
				t.Errorf("%q is not said: %q", want, o.stderr)
			}
		}
		if strings.Contains(o.stderr, phrase) {
			t.Error("D5: the phrase is on standard error")
		}
		if info, err := os.Stat(credentialPath(dir)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("D5: %v, %v", info, err)
		}
		if text, err := os.ReadFile(credentialPath(dir)); err != nil || strings.TrimSpace(string(text)) != phrase {
			t.Errorf("the credential is not kept: %v", err)
		}
		owner := statusOf(t, dir).Owner
		file := writeFile(t, "phrase", "  "+strings.ToUpper(phrase[:1])+phrase[1:]+"\n")
		if of.words == 1 {
			file = writeFile(t, "phrase", phrase+"\n")
		}
		for name, from := range map[string]struct {
			stdin string
			env   []string
			args  []string
		}{
			"file":     {args: []string{"--phrase-file", file}},
			"stdin":    {stdin: phrase, args: []string{"--phrase-file", "-"}},
			"variable": {env: []string{envDevicePhrase + "=" + phrase}},
		} {
			dir := filepath.Join(t.TempDir(), "d")
			o := deviceOf(t, from.stdin, append(from.env, envDevice+"="+dir), append([]string{"restore"}, from.args...)...)
			wantDevice(t, name, o, exitOK, "^$", "next: ")
			if strings.Contains(o.stderr, phrase) {
				t.Errorf("%s: D5: the phrase is shown", name)
			}
			if got := statusOf(t, dir).Owner; got != owner {
				t.Errorf("%s: owner %s, want %s", name, got, owner)
			}
		}
		o = deviceIn(t, dir, "", "init")
		wantDevice(t, "in capitals", deviceIn(t, dir, "", "relay", "add", "HTTP://LOCALHOST:80"), exitOK, "^$", "^$")
		mustDevice(t, dir, "", "relay", "remove", "http://localhost")
		wantDevice(t, "again", o, exitFailed, "^$", "there is a device in .* already, and nothing was changed")
	}
}

// Case 13: a wrong phrase is refused with the position of the word, and nothing
// is made.
func TestDeviceWrongPhrase(t *testing.T) {
	f := func(name, phrase, stderr string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "d")
		wantDevice(t, name, deviceIn(t, dir, phrase, "restore", "--phrase-file", "-"), exitFailed, "^$", stderr)
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: it was made: %v", name, err)
		}
	}
	f("word", strings.Replace(testPhrase, "wave", "wavy", 1), "word 5 ")
	f("checksum", strings.Replace(testPhrase, "yellow", "year", 1), "checksum")
	f("13 words", testPhrase+" legal", "13|words")
	f("nothing", " \n", "no phrase or key given")
	f("long", strings.Repeat("legal ", 1000), "at most 4096 bytes")
	f("key", testKey[:20], "native key")
	dir := filepath.Join(t.TempDir(), "d")
	o := deviceIn(t, dir, "", "restore", "--phrase-file", filepath.Join(dir, "none"))
	wantDevice(t, "no file", o, exitFailed, "^$", "no such file")
}

// deadWriter is a full disk, or a pipe that nobody reads.
type deadWriter struct{ err error }

func (w deadWriter) Write([]byte) (int, error) { return 0, w.err }

// A phrase that cannot be printed is not lost: the error says where it is, even
// if it is the reader of a pipe that is gone.
func TestDeviceInitUnprinted(t *testing.T) {
	for _, cause := range []error{errors.New("no room"), errBrokenPipe} {
		dir := filepath.Join(t.TempDir(), "d")
		var stderr bytes.Buffer
		a := &app{lookup: func(string) (string, bool) { return "", false }, stdout: deadWriter{cause}, stderr: &stderr}
		code := a.main(t.Context(), []string{"sluice", "device", "init", "--dir", dir})
		if code != exitFailed || !strings.Contains(stderr.String(), "the phrase could not be printed") ||
			!strings.Contains(stderr.String(), credentialPath(dir)) {
			t.Errorf("exit %d, %q", code, stderr.String())
		}
	}
}

// D34: each refusal of a relay is told with what to do; the exit code is 1, and
// the token goes in a header and nowhere else.
func TestDeviceRefused(t *testing.T) {
	var status int
	var code string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			_, _ = w.Write([]byte(`{"ok":true,"features":[]}`))
			return
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":%q,"code":%q,"message":"bad\u001b[2J"}`, code, code)
	}))
	defer s.Close()
	dir := restored(t, "one", s.URL)
	mustDevice(t, dir, "", "put", "t", "i", `{"a":1}`)
	f := func(answer int, word, want string) {
		t.Helper()
		status, code = answer, word
		o := deviceIn(t, dir, "", "sync")
		wantDevice(t, fmt.Sprint(answer), o, exitFailed, `, not finished\n$`, want)
		if !strings.Contains(o.stderr, "not in sync with 1 of 1 relays") || strings.Contains(o.stdout+o.stderr, "\x1b") {
			t.Errorf("%d: %q", answer, o.stderr)
		}
		var report struct{ Relays []relayReport }
		o = deviceIn(t, dir, "", "sync", "--json")
		if err := json.Unmarshal([]byte(o.stdout), &report); err != nil || len(report.Relays) != 1 ||
			report.Relays[0].OK || report.Relays[0].Error == "" || report.Relays[0].URL != s.URL {
			t.Errorf("%d: %v, %s", answer, err, o.stdout)
		}
	}
	f(401, "unauthorized", "another token")
	f(403, "owner_limit", "takes no more owners")
	f(410, "owner_closed", "rekey --phrase-file FILE")
	f(413, "quota_exceeded", "no room for it")
	f(429, "rate_limited", "asks for a pause")
	f(404, "", "is it the address of a sync relay")
	f(501, "", "is it the address of a sync relay")
	f(500, "internal", "nothing is lost")
	if s := mustDevice(t, dir, "", "get", "t", "i"); s != "{\"a\":1}\n" {
		t.Errorf("the row is %q", s)
	}
}

// Without a relay sync says so; a plain address off this machine is warned of.
func TestDeviceRelays(t *testing.T) {
	dir := restored(t, "one")
	wantDevice(t, "none", deviceIn(t, dir, "", "sync"), exitFailed, "^$", "relay add")
	wantDevice(t, "clear", deviceIn(t, dir, "", "relay", "add", "http://relay.example/x/"), exitOK, "^$", "warning: .* not encrypted: .* use https")
	wantDevice(t, "https", deviceIn(t, dir, "", "relay", "add", "https://relay.example"), exitOK, "^$", "^$")
	wantDevice(t, "loopback", deviceIn(t, dir, "", "relay", "add", "http://127.0.0.1:1"), exitOK, "^$", "^$")
	wantDevice(t, "again", deviceIn(t, dir, "", "relay", "add", "http://127.0.0.1:1/"), exitFailed, "^$", "relay list")
	wantDevice(t, "list", deviceIn(t, dir, "", "relay", "list"), exitOK, "^http://relay.example/x\nhttps://relay.example\nhttp://127.0.0.1:1\n$", "^$")
	mustDevice(t, dir, "", "relay", "remove", "http://relay.example/x")
	wantDevice(t, "gone", deviceIn(t, dir, "", "relay", "remove", "http://relay.example/x"), exitFailed, "^$", "relay list")
	wantDevice(t, "list", deviceIn(t, dir, "", "relay", "list"), exitOK, "^https://relay.example\nhttp://127.0.0.1:1\n$", "^$")
}
