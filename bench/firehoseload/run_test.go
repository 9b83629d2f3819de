package firehoseload

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// asFloor and asSource make this test binary one of the children; the value is
// their number of threads or frames.
const (
	asFloor  = "TEST_BINARY_AS_FLOOR"
	asSource = "TEST_BINARY_AS_SOURCE"
)

func TestMain(m *testing.M) {
	testrelay.Main()
	serve := func(f func(ctx context.Context) error) {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := f(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if n, err := strconv.Atoi(os.Getenv(asFloor)); err == nil {
		serve(func(ctx context.Context) error { return Floor(ctx, n, os.Stdout) })
	}
	if n, err := strconv.Atoi(os.Getenv(asSource)); err == nil {
		serve(func(ctx context.Context) error { return Source(ctx, n, os.Stdin, os.Stdout) })
	}
	os.Exit(m.Run())
}

// program runs this test binary.
func program(t *testing.T) Program {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := func(name string, n int) *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fmt.Sprint(name, "=", n))
		return cmd
	}
	return Program{
		Relay:  func(env ...string) (*faults.Process, error) { return testrelay.Spawn(env...) },
		Floor:  func(threads int) *exec.Cmd { return child(asFloor, threads) },
		Source: func(count int) *exec.Cmd { return child(asSource, count) },
	}
}

// TestRun: each load does against a relay what it says, and has its figure. What
// the consumers get is checked by the loads themselves (B1; F18, F36, F37; hard
// cases 14 and 18).
func TestRun(t *testing.T) {
	o := Options{
		Rounds: 1, Fans: []Fan{{20, 2, 10, 3, true}, {10, 1, 5, 2, false}},
		Healthy: 2, Stalled: 5, BoundBytes: 1 << 20, Upstream: 500,
	}
	var out, progress bytes.Buffer
	if err := Run(t.Context(), program(t), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	rows := strings.Count(out.String(), "\n| ") - 1
	if want := 2*6 + 7 + 2; rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
	_, table, _ := strings.Cut(out.String(), "Value |")
	for line := range strings.Lines(strings.ReplaceAll(table, "---", "")) {
		for _, wrong := range []string{"NaN", "Inf", "not measured", "| 0.000 us", " -"} {
			// The resident memory may shrink: what was free before is given back.
			if strings.Contains(line, wrong) && !(wrong == " -" && strings.Contains(line, "resident memory")) {
				t.Errorf("a figure is %q in %s", wrong, line)
			}
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestRunFails: a relay that refuses is an error, not a figure.
func TestRunFails(t *testing.T) {
	p := program(t)
	start := p.Relay
	for want, env := range map[string]string{
		"429": "FIREHOSE_MAX_CONSUMERS=1", // of the consumers
		"413": "FIREHOSE_MAX_FRAME_BYTES=1024",
	} {
		p.Relay = func(all ...string) (*faults.Process, error) { return start(append(all, env)...) }
		sample, err := newSample()
		if err != nil {
			t.Fatal(err)
		}
		s := &suite{p: p, sample: sample, progress: io.Discard}
		d, err := s.relaySide(t.Context(), Fan{Consumers: 2})
		if err == nil {
			if err = d.t.publish(firstSeq, 1); err == nil {
				err = d.t.published(firstSeq, 1)
			}
			if closing := d.close(); closing != nil {
				t.Error(closing)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", env, err, want)
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
