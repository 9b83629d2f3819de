package relay_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestLiveChecker runs the public live checker of AEP against relays in the
// three modes of section 20 of the contract and wants its exact scores. The
// checker is not part of this project: SLUICE_LIVE_JS is the path of its
// live.js, SLUICE_NODE that of a node of version 22 or later.
func TestLiveChecker(t *testing.T) {
	script, node := os.Getenv("SLUICE_LIVE_JS"), os.Getenv("SLUICE_NODE")
	if script == "" || node == "" {
		t.Skip("SLUICE_LIVE_JS and SLUICE_NODE are not set: set them to the checker's live.js and to a node of version 22 or later")
	}
	const run, session = "r-cancel", "live-target"
	for _, mode := range []struct {
		name    string
		env     map[string]string
		args    []string
		control bool
		pass    int
		skip    int
	}{
		{"plain", nil, nil, false, 12, 7},
		{
			"token and evict",
			map[string]string{"AEP_TOKEN": testToken, "AEP_BUFFER": "64"},
			[]string{"--token", testToken, "--evict"},
			false, 14, 5,
		},
		{
			"control",
			map[string]string{"AEP_TOKEN": testToken, "AEP_BUFFER": "64"},
			[]string{"--token", testToken, "--evict", "--control-session", session, "--control-cancel", run, "--ack-window", "2500"},
			true, 18, 1,
		},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			f := startRelay(t, mode.env)
			if mode.control {
				target, err := relaytest.StartControlTarget(relaytest.TargetConfig{
					Addr: f.addr, Token: testToken, Session: session,
					Accepts: []string{"control.attention.respond", "control.cancel"},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := target.Close(); err != nil {
						t.Errorf("control target: %v", err)
					}
				}()
			}
			report, output := runChecker(t, node, script, "http://"+f.addr, mode.args)
			s := report.Summary
			if !report.OK || s.Pass != mode.pass || s.Fail != 0 || s.Skip != mode.skip || s.Total != 19 {
				t.Errorf("%d passed, %d failed, %d skipped; want %d, 0, %d\n%s", s.Pass, s.Fail, s.Skip, mode.pass, mode.skip, output)
			}
			for _, c := range report.Checks {
				if c.Name == "evict-byte-identity" && c.Status == "pass" && !strings.HasPrefix(c.Detail, "byte-identical") {
					t.Errorf("R194: not the strict grade: %s", c.Detail)
				}
				t.Logf("%s %s: %s", c.Status, c.Name, c.Detail)
			}
		})
	}
}

// checkerReport is the checker's own report, format 1.
type checkerReport struct {
	OK      bool
	Checks  []struct{ Name, Status, Detail string }
	Summary struct{ Pass, Fail, Skip, Total int }
}

func runChecker(t *testing.T, node, script, url string, args []string) (checkerReport, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(ctx, node, append([]string{script, url, "--json", path}, args...)...)
	output, err := cmd.CombinedOutput()
	b, rerr := os.ReadFile(path)
	if rerr != nil {
		t.Fatalf("checker: %v, %v\n%s", err, rerr, output)
	}
	var report checkerReport
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	return report, string(output)
}
