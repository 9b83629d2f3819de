package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// D30 to D32, D38: rows go from one device to another over a real relay, also
// with --sync, and a deletion with them.
func TestDeviceSync(t *testing.T) {
	_, url := syncRelay(t, t.TempDir())
	one, two := restored(t, "one", url), restored(t, "two", url)
	mustDevice(t, one, "", "put", "notes", "a", `{"n":1}`)
	mustDevice(t, one, "", "put", "notes", "b", `{"n":2}`)
	before := statusOf(t, one)
	if r := before.Relays[0]; r.State != "pending" || r.Owed != 2 || before.Rows != 2 || before.Device != "one" {
		t.Errorf("%+v", before)
	}
	wantDevice(t, "sync", deviceIn(t, one, "", "sync"), exitOK, "^"+url+": sent 2, received 2, rows changed 0\n$", "^$")
	if r := statusOf(t, one).Relays[0]; r.State != "synced" || r.Owed != 0 || r.SyncedAt == nil {
		t.Errorf("%+v", r)
	}
	wantDevice(t, "not asked yet", deviceIn(t, two, "", "status"), exitOK, url+": pending, never synced\n", "^$")
	wantDevice(t, "restore", deviceIn(t, two, "", "sync"), exitOK, "^"+url+": sent 0, received 2, rows changed 2\n$", "^$")
	if a, b := mustDevice(t, one, "", "export"), mustDevice(t, two, "", "export"); a != b || strings.Count(a, "\n") != 2 {
		t.Errorf("%q, %q", a, b)
	}
	wantDevice(t, "put --sync", deviceIn(t, two, "", "put", "notes", "a", `{"n":3}`, "--sync"), exitOK, "^$", url+": sent 1, ")
	wantDevice(t, "delete --sync", deviceIn(t, two, "", "delete", "notes", "b", "--sync"), exitOK, "^$", url+": sent 1, ")
	var report struct{ Relays []relayReport }
	if err := json.Unmarshal([]byte(mustDevice(t, one, "", "sync", "--json")), &report); err != nil || len(report.Relays) != 1 ||
		!report.Relays[0].OK || report.Relays[0].Rows != 2 || report.Relays[0].URL != url {
		t.Errorf("%v, %+v", err, report)
	}
	if s := mustDevice(t, one, "", "get", "notes", "a"); s != "{\"n\":3}\n" {
		t.Errorf("%q", s)
	}
	wantDevice(t, "deleted", deviceIn(t, one, "", "get", "notes", "b"), exitFailed, "^$", "was deleted .* by two")
	if r := statusOf(t, one).Relays[0]; r.QuotaBytes == 0 || r.UsedBytes == 0 {
		t.Errorf("quota: %+v", r)
	}
	o := deviceIn(t, one, "", "status")
	wantDevice(t, "status", o, exitOK, "(?m)^device +one\n(.*\n)*rows +1\n(.*\n)*relay +"+url+": synced", "^$")
}

// Case 9, in small: of two relays one is down; the exit code says so, the other
// has everything, and the late one gets it.
func TestDeviceTwoRelays(t *testing.T) {
	_, url := syncRelay(t, t.TempDir())
	data := t.TempDir()
	port := "AEP_PORT=" + testrelay.FixedPort(t)
	down, other := syncRelay(t, data, port)
	_ = down.cmd.Process.Kill()
	_ = down.cmd.Wait()
	one := restored(t, "one", url, other)
	mustDevice(t, one, "", "put", "notes", "a", `{"n":1}`)
	o := deviceIn(t, one, "", "sync")
	wantDevice(t, "one down", o, exitFailed, "(?m)^"+url+": sent 1, received 1.*\n"+other+": sent 0, received 0.*, not finished$",
		"(?s)sluice device sync: "+other+": .*not in sync with 1 of 2 relays")
	s := statusOf(t, one)
	if s.Relays[0].State != "synced" || s.Relays[1].State != "backing off" || s.Relays[1].Push.Reason == "" && s.Relays[1].Pull.Reason == "" {
		t.Errorf("%+v", s)
	}
	wantDevice(t, "status", deviceIn(t, one, "", "status"), exitOK, "(?m)^relay +"+other+": backing off", "^$")
	syncRelay(t, data, port)
	wantDevice(t, "both up", deviceIn(t, one, "", "sync"), exitOK, other+": sent 1, received 1", "^$")
}

// D50 to D52: a file goes in, over a relay, and out, as bytes and as a file.
func TestDeviceBlobs(t *testing.T) {
	_, url := syncRelay(t, t.TempDir())
	one, two := restored(t, "one", url), restored(t, "two", url)
	text := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	file := writeFile(t, "picture.jpg", string(text))
	blob := strings.TrimSpace(mustDevice(t, one, "", "attach", file))
	if blob == "" || strings.ContainsAny(blob, " \n") {
		t.Fatalf("%q", blob)
	}
	rows := rowsOf(t, mustDevice(t, one, "", "list", "blob", "--json"))
	if len(rows) != 1 || rows[0].ID != blob || !strings.Contains(string(rows[0].Row), `"mimeType":"image/jpeg"`) {
		t.Errorf("%+v", rows)
	}
	if got := mustDevice(t, one, "", "fetch", blob); got != string(text) {
		t.Error("the file is not what it was")
	}
	wantDevice(t, "not here", deviceIn(t, two, "", "fetch", blob), exitFailed, "^$", "")
	if n := statusOf(t, one).Relays[0].Blobs; n != 1 {
		t.Errorf("%d blobs owed", n)
	}
	mustDevice(t, one, "", "sync")
	if n := statusOf(t, one).Relays[0].Blobs; n != 0 {
		t.Errorf("%d blobs owed", n)
	}
	mustDevice(t, two, "", "sync")
	to := filepath.Join(t.TempDir(), "copy")
	wantDevice(t, "fetch", deviceIn(t, two, "", "fetch", blob, to), exitOK, "^$", "^$")
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
	var manifest struct{ MimeType string }
	if err := json.Unmarshal([]byte(mustDevice(t, one, "hello", "attach", "--json", "--sync", "-")), &manifest); err != nil ||
		manifest.MimeType != "text/plain; charset=utf-8" {
		t.Errorf("%v, %+v", err, manifest)
	}
	for name, want := range map[string]string{
		writeFile(t, "x.png", "hello"): "image/png", writeFile(t, "plain", "hello"): "text/plain; charset=utf-8",
		writeFile(t, "gif", "GIF89a\x00"): "image/gif", writeFile(t, "empty", ""): "text/plain; charset=utf-8",
	} {
		err := json.Unmarshal([]byte(mustDevice(t, one, "", "attach", "--json", name)), &manifest)
		if err != nil || manifest.MimeType != want {
			t.Errorf("%s: %v, %+v, want %s", name, err, manifest, want)
		}
	}
	if err := json.Unmarshal([]byte(mustDevice(t, one, "x", "attach", "--json", "--mime", "a/b", "-")), &manifest); err != nil || manifest.MimeType != "a/b" {
		t.Errorf("%v, %+v", err, manifest)
	}
	wantDevice(t, "mime", deviceIn(t, one, "x", "attach", "--mime", "a", "-"), exitFailed, "^$", "not a media type")
	wantDevice(t, "directory", deviceIn(t, one, "", "attach", t.TempDir()), exitFailed, "^$", "is a directory")
	wantDevice(t, "no file", deviceIn(t, one, "", "attach", filepath.Join(to, "none")), exitFailed, "^$", "none")
	wantDevice(t, "no blob", deviceIn(t, two, "", "fetch", "none"), exitFailed, "^$", "")
	wantDevice(t, "all blobs", deviceIn(t, two, "", "sync", "--blobs"), exitOK, "", "^$")
}

// startWatch runs "watch" in a process of its own, and returns its lines.
func startWatch(t *testing.T, dir string, args ...string) (*exec.Cmd, io.ReadCloser, *bufio.Reader, *bytes.Buffer) {
	t.Helper()
	cmd, stderr := sluiceProcess(t, []string{envDevice + "=" + dir}, append([]string{"device", "watch"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, bufio.NewReader(out), stderr
}

// D37: watch sends what other commands write to its directory, prints what comes
// from here and from elsewhere, and ends with 0 at a signal.
func TestDeviceWatch(t *testing.T) {
	_, url := syncRelay(t, t.TempDir())
	one, two := restored(t, "one", url), restored(t, "two", url)
	mustDevice(t, one, "", "put", "notes", "old", "{}", "--sync")
	first, _, lines, firstErr := startWatch(t, one, "--json", "--after", "0")
	second, _, plain, secondErr := startWatch(t, two)
	next := func() (row rowJSON) {
		t.Helper()
		line, err := lines.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &row) != nil {
			t.Fatalf("%q, %v, %q", line, err, firstErr)
		}
		return row
	}
	if row := next(); row.ID != "old" || row.Change == 0 || string(row.Row) != "{}" {
		t.Errorf("%+v", row)
	}
	if line, err := plain.ReadString('\n'); err != nil || !strings.HasSuffix(line, " notes      old              {}\n") {
		t.Fatalf("%q, %v, %q", line, err, secondErr)
	}
	mustDevice(t, two, "", "put", "notes", "new", `{"a":"\u001b"}`) // two's watch sends it
	if row := next(); row.ID != "new" || string(row.Row) != `{"a":"\u001b"}` {
		t.Errorf("%+v", row)
	}
	if line, err := plain.ReadString('\n'); err != nil || !strings.Contains(line, " new ") {
		t.Fatalf("%q, %v", line, err)
	}
	mustDevice(t, one, "", "delete", "notes", "old")
	if line, err := plain.ReadString('\n'); err != nil || !strings.HasSuffix(line, " old              deleted\n") {
		t.Fatalf("%q, %v", line, err)
	}
	if row := next(); row.ID != "old" || !row.Deleted || row.Row != nil {
		t.Errorf("%+v", row)
	}
	for cmd, sig := range map[*exec.Cmd]syscall.Signal{first: syscall.SIGTERM, second: syscall.SIGINT} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v, %q, %q", sig, err, firstErr, secondErr)
		}
	}
}

// A reader of the pipe that has seen enough ends watch with 0 and no word.
func TestDeviceWatchBrokenPipe(t *testing.T) {
	dir := restored(t, "one")
	mustDevice(t, dir, "", "put", "t", "i", "{}")
	cmd, out, lines, stderr := startWatch(t, dir, "--after", "0")
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	n := 0
	eventually(t, "watch ends", func() bool {
		n++
		mustDevice(t, dir, "", "put", "t", fmt.Sprint(n), "{}")
		select {
		case err := <-ended:
			if err != nil || strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("%v, %q", err, stderr)
			}
			return true
		default:
			return false
		}
	})
}

// D39: a re-key prints a new phrase, closes the old owner, and the other device
// is told so and follows.
func TestDeviceRekey(t *testing.T) {
	_, url := syncRelay(t, t.TempDir())
	one, two := restored(t, "one", url), restored(t, "two", url)
	mustDevice(t, one, "", "put", "notes", "a", `{"n":1}`, "--sync")
	mustDevice(t, two, "", "sync")
	old := statusOf(t, one).Owner
	o := deviceIn(t, one, "", "rekey", "--words", "15")
	wantDevice(t, "rekey", o, exitOK, `^([a-z]+ ){14}[a-z]+\n$`, "follows "+old)
	if strings.Contains(o.stderr, o.stdout[:20]) {
		t.Error("D5: the phrase is on standard error")
	}
	wantDevice(t, "closed", deviceIn(t, two, "", "sync"), exitFailed, "not finished", "rekey --phrase-file FILE")
	if s := statusOf(t, two).Relays[0].State; s != "closed" {
		t.Errorf("state %q", s)
	}
	wantDevice(t, "status", deviceIn(t, two, "", "status"), exitOK, url+": closed", "^$")
	wantDevice(t, "same", deviceIn(t, two, testPhrase, "rekey", "--phrase-file", "-"), exitFailed, "^$", "")
	wantDevice(t, "both", deviceIn(t, two, o.stdout, "rekey", "--phrase-file", "-", "--words", "12"), exitUsage, "^$", "leave out")
	wantDevice(t, "follow", deviceIn(t, two, o.stdout, "rekey", "--phrase-file", "-"), exitOK, "^$", "follows "+old)
	mustDevice(t, two, "", "put", "notes", "b", `{"n":2}`, "--sync")
	mustDevice(t, one, "", "sync")
	if s := mustDevice(t, one, "", "get", "notes", "b"); s != "{\"n\":2}\n" {
		t.Errorf("%q", s)
	}
	if a, b := statusOf(t, one).Owner, statusOf(t, two).Owner; a != b || a == old {
		t.Errorf("owners %s, %s, before %s", a, b, old)
	}
}

// D39: a relay that is not there stops a re-key before anything is changed; with
// --force the new phrase is printed although not all is done.
func TestDeviceRekeyUnready(t *testing.T) {
	p, url := syncRelay(t, t.TempDir())
	dir := restored(t, "one", url)
	mustDevice(t, dir, "", "put", "notes", "a", `{"n":1}`, "--sync")
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	old := statusOf(t, dir).Owner
	wantDevice(t, "unready", deviceIn(t, dir, "", "rekey"), exitFailed, "^$", "was not re-keyed.*--force")
	if owner := statusOf(t, dir).Owner; owner != old {
		t.Errorf("owner %s, want %s", owner, old)
	}
	o := deviceIn(t, dir, "", "rekey", "--force")
	wantDevice(t, "forced", o, exitFailed, `^([a-z]+ ){11}[a-z]+\n$`, "(?s)follows "+old+".*next sync")
	if owner := statusOf(t, dir).Owner; owner == old {
		t.Error("the owner is the old one")
	}
	text, err := os.ReadFile(credentialPath(dir))
	if err != nil || strings.TrimSpace(string(text)) != strings.TrimSpace(o.stdout) {
		t.Errorf("the printed phrase is not the device's: %v", err)
	}
}

// D34: what goes wrong during a watch is told with what to do about it, in a line.
func TestDeviceLog(t *testing.T) {
	var out bytes.Buffer
	r := &deviceRun{app: &app{stderr: &out}, cmd: &cli.Command{Name: "watch"}}
	r.deviceLog().Warn("cannot pull", "relay", "http://127.0.0.1:1", "err", &device.Refusal{Status: 410, Code: "owner_closed"})
	if s := out.String(); !strings.Contains(s, `"cannot pull" relay=http://127.0.0.1:1 err="the relay answers 410`) ||
		!strings.Contains(s, "rekey --phrase-file FILE") || strings.Count(s, "\n") != 1 {
		t.Errorf("%q", s)
	}
}
