package autobahn

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// envSuite names the command of the public suite, wstest of the Python package
// autobahntestsuite.
const envSuite = "SLUICE_WSTEST"

// verdict is what the public suite's index says of one case.
type verdict struct {
	Behavior      string `json:"behavior"`
	BehaviorClose string `json:"behaviorClose"`
}

// strict tells whether a case passed without a remark. Cases that the suite
// itself only tells of are informational whatever the server does.
func (v verdict) strict() bool {
	ok := func(s string) bool { return s == "OK" || s == "INFORMATIONAL" }
	return ok(v.Behavior) && ok(v.BehaviorClose)
}

// suiteOptions give a busy machine time: the suite waits one second by default,
// and how fast the server closes is judged by TestGroup7ServerCloses.
var suiteOptions = map[string]any{
	"version": 18, "openHandshakeTimeout": 30, "closeHandshakeTimeout": 30, "serverConnectionDropTimeout": 30,
}

// TestPublicSuite: the Autobahn test suite itself passes strictly, where it is
// installed. All of it takes some minutes; -short leaves group 9 out.
func TestPublicSuite(t *testing.T) {
	wstest := os.Getenv(envSuite)
	if wstest == "" {
		t.Skipf("%s does not name the suite's command wstest", envSuite)
	}
	dir := t.TempDir()
	cases := []string{"1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"}
	least := 247
	if !testing.Short() {
		cases, least = append(cases, "9.*"), 301
	}
	spec, err := json.Marshal(map[string]any{
		"outdir":              dir,
		"servers":             []any{map[string]any{"agent": "sluice", "url": "ws://" + addr, "options": suiteOptions}},
		"cases":               cases,
		"exclude-cases":       []string{},
		"exclude-agent-cases": map[string]any{},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "spec.json")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), wstest, "-m", "fuzzingclient", "-s", file)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report map[string]map[string]verdict
	if err := json.Unmarshal(index, &report); err != nil {
		t.Fatal(err)
	}
	verdicts := report["sluice"]
	if len(verdicts) < least {
		t.Errorf("the suite judged %d cases, want %d", len(verdicts), least)
	}
	counts := map[string]int{}
	for name, v := range verdicts {
		counts[v.Behavior]++
		if !v.strict() {
			t.Errorf("case %s: %s, close %s", name, v.Behavior, v.BehaviorClose)
		}
	}
	t.Logf("%d cases: %v", len(verdicts), counts)
}

// TestNodeClient: the ws package of npm agrees, where it is installed.
func TestNodeClient(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here")
	}
	if err := exec.CommandContext(t.Context(), node, "-e", "require.resolve('ws')").Run(); err != nil {
		t.Skip("node finds no package ws: npm install ws@8 somewhere and let NODE_PATH name its node_modules")
	}
	out, err := exec.CommandContext(t.Context(), node, "testdata/peer.mjs", "ws://"+addr+"/").CombinedOutput()
	t.Logf("%s", out)
	if err != nil || strings.Count(string(out), "ok ") < 8 {
		t.Errorf("the client did not pass: %v", err)
	}
}
