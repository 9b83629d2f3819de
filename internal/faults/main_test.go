package faults_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

var seedFlag = flag.Uint64("faults.seed", 0, "seed of what is random, 0 for a new one")

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testrelay.Main()
	if runtime.GOOS != "linux" {
		fmt.Println("faults: skipped, needs /proc and 127.0.0.0/8")
		return
	}
	os.Exit(m.Run())
}

// startRelay starts a relay. When the test ends it is stopped, which must
// succeed, and its log must not hold an error (R14).
func startRelay(tb testing.TB, env ...string) *faults.Process {
	tb.Helper()
	p, err := testrelay.Spawn(env...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { endRelay(tb, p) })
	return p
}

func endRelay(tb testing.TB, p *faults.Process) {
	tb.Helper()
	if err := p.Stop(); err != nil {
		tb.Errorf("R464: %v", err)
	}
	checkLog(tb, p)
}

func checkLog(tb testing.TB, p *faults.Process) {
	tb.Helper()
	for _, line := range p.Problems() {
		tb.Errorf("R14: log of the relay: %s", line)
	}
}

// raceDetector tells whether the relay carries the race detector, whose own
// memory grows with what it has seen: bounds on memory mean nothing then.
var raceDetector = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// newSeed returns a seed and prints it (F1).
func newSeed(tb testing.TB) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	tb.Logf("seed %d, repeat with -faults.seed", seed)
	return seed
}

// scale returns full, or short under -short.
func scale[T any](full, short T) T {
	if testing.Short() {
		return short
	}
	return full
}

// must ends the test on an error of the driver.
func must(tb testing.TB, what string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

// gauges reads the baseline.
func gauges(tb testing.TB, p *faults.Process) faults.Gauges {
	tb.Helper()
	g, err := p.Gauges()
	must(tb, "gauges", err)
	return g
}

// failure keeps the first error of many goroutines.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// await polls until done, or fails the test.
func await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(2 * time.Millisecond) // pacing
	}
}
