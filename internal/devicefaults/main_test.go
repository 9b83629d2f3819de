package devicefaults

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

var seedFlag = flag.Uint64("devicefaults.seed", 0, "seed of what is random, 0 for a new one")

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testrelay.Main()
	workerMain()
	flag.Parse()
	os.Exit(relaytest.RunLeakFree(m, "internal/device."))
}

// newSeed returns the seed of a test, which it logs.
func newSeed(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d, repeat with -devicefaults.seed", seed)
	return seed
}

func newRand(t *testing.T) *rand.Rand { return rand.New(rand.NewPCG(newSeed(t), 1)) }

// scale returns full, or less under -short and with the race detector.
func scale(full, less int) int {
	if testing.Short() || raceEnabled {
		return less
	}
	return full
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustBe wants an error that is another.
func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}
