package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/client/timeline"
)

// The exit status and the output of sluice timeline.
func TestTimelineCommand(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Query().Get("filter"), `"demo"`) {
			_, _ = io.WriteString(w, ": replay-complete\n\n")
			return
		}
		end := ": replay-complete\n\n"
		if r.Header.Get("Authorization") == "Bearer cut" {
			end = ": shutting-down\n\n"
		}
		_, _ = io.WriteString(w, "data: "+exampleEvent+"\n\n"+end)
	}))
	defer server.Close()
	f := func(name, stdin string, code int, stdout, stderr string, args ...string) {
		t.Helper()
		o := runOne(t, (*app).timelineCommand, stdin, append([]string{"--utc"}, args...)...)
		if o.code != code || !strings.Contains(o.stdout, stdout) || !strings.Contains(o.stderr, stderr) ||
			code != exitOK && o.stdout != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, o.code, o.stdout, o.stderr)
		}
	}
	const shown = "session demo of demo\n1 event, 2026-01-01 00:00:00.000"
	f("a relay", "", exitOK, shown, "", "demo", "--url", server.URL)
	f("a replay that is cut off", "", exitOK, shown, "not all of it", "--url", server.URL,
		"--token-file", tokenFile(t, "cut"), "demo")
	f("nothing held", "", exitFailed, "", `holds nothing of session "other"`, "other", "--url", server.URL)
	f("a file", "", exitOK, shown, "", "--file", write(t, exampleEvent), "demo")
	f("standard input", exampleEvent+"\nx", exitOK, shown, "1 lines are no events, the first is line 2", "--file", "-", "demo")
	f("another session", exampleEvent, exitFailed, "", `nothing of session "x"; it has demo`, "x", "--file", "-")
	f("no such file", "", exitFailed, "", "absent", "demo", "--file", "/absent/file")
	f("no session", "", exitUsage, "", "which session")
	f("two sessions", "", exitUsage, "", "one session", "a", "b")
	f("file and relay", "", exitUsage, "", "exclude", "demo", "--file", "-", "--url", server.URL)
	f("a bad address", "", exitUsage, "", "not http", "demo", "--url", "ftp://x")

	o := runOne(t, (*app).timelineCommand, exampleEvent, "--json", "demo", "--file", "-")
	var tl timeline.Timeline
	if err := json.Unmarshal([]byte(o.stdout), &tl); err != nil || tl.Session != "demo" || tl.Events != 1 ||
		len(tl.Children) != 1 || tl.Children[0].Kind != timeline.KindEvent {
		t.Errorf("%v: %s", err, o.stdout)
	}
}
