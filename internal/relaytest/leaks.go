package relaytest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// leakPatience is how long goroutines may take to end after the tests.
const leakPatience = 30 * time.Second

// RunLeakFree runs a package's tests and returns the exit code of TestMain: 1 also
// when a goroutine is left whose stack has one of the marks.
func RunLeakFree(m *testing.M, marks ...string) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	if left := leaked(leakPatience, marks); left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left:\n%s\n", left)
		return 1
	}
	return 0
}

// leaked returns the stacks of goroutines with a mark, if any are left after
// timeout.
func leaked(timeout time.Duration, marks []string) string {
	deadline := time.Now().Add(timeout)
	for {
		var left []string
		buf := make([]byte, 4<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for g := range strings.SplitSeq(string(buf), "\n\n") {
			for _, mark := range marks {
				if strings.Contains(g, mark) {
					left = append(left, g)
					break
				}
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		time.Sleep(20 * time.Millisecond) // pacing
	}
}
