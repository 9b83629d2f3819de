package aepwsload

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

func TestMain(m *testing.M) {
	testrelay.Main()
	os.Exit(m.Run())
}

// program runs this test binary as the relay.
var program = Program{Relay: func(env ...string) (*faults.Process, error) { return testrelay.Spawn(env...) }}

// small is a run whose figures do not count. Its times are such that something
// happens in them on a slow machine, too.
var small = Options{
	Rounds: 2, Fans: []Fan{{100, 2, 5, 2, 2, 2}},
	Flood:  Flood{3, 8, 500 * time.Millisecond},
	Beats:  Beats{20, 2 * time.Second, 2},
	Replay: Replay{500, 3, 100, 100 * time.Millisecond},
}

// TestRun: each load does against a relay what it says, and has its figures. What
// the subscribers get is checked by the loads themselves (B1 to B3; hard case 31 of
// the contract).
func TestRun(t *testing.T) {
	var out, progress bytes.Buffer
	if err := Run(t.Context(), program, small, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	_, table, _ := strings.Cut(out.String(), "Value |")
	if rows, want := strings.Count(table, "\n| "), 10+4+7+3; rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
	for _, wrong := range []string{"NaN", "Inf", "not measured", "| 0.000 us", "| 0;", "| 0 |"} {
		if strings.Contains(table, wrong) {
			t.Errorf("a figure is %q", wrong)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestRunFails: a relay that refuses, or whose log keeps too little, is an error,
// not a figure.
func TestRunFails(t *testing.T) {
	for want, c := range map[string]struct {
		env string
		run func(*suite) error
	}{
		"503":             {"AEPWS_MAX_CONNECTIONS=1", func(s *suite) error { return s.fanOut(t.Context(), small.Fans[0]) }},
		"unauthorized":    {"AEPWS_TOKEN=secret", func(s *suite) error { return s.floods(t.Context()) }},
		"is not complete": {"AEPWS_RETENTION_EVENTS=100", func(s *suite) error { return s.replays(t.Context()) }},
		"404":             {"SLUICE_SURFACES=aep", func(s *suite) error { return s.beats(t.Context()) }},
	} {
		p := Program{Relay: func(env ...string) (*faults.Process, error) { return program.Relay(append(env, c.env)...) }}
		var progress bytes.Buffer
		if err := c.run(&suite{p: p, o: small, progress: &progress}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", c.env, err, want)
		}
	}
}

// TestWithRounds: the options that it is asked of stay as they are.
func TestWithRounds(t *testing.T) {
	before := Standard.Fans[0].Rounds
	o := Standard.WithRounds(before + 1)
	if o.Rounds != before+1 || o.Fans[0].Rounds != before+1 || Standard.Fans[0].Rounds != before {
		t.Errorf("%+v of %+v", o, Standard)
	}
}
