package testrelay

import (
	"os"
	"strconv"
	"testing"
)

// killsVariable sets how often tests kill: see `make kills`.
const killsVariable = "SLUICE_KILLS"

// Kills returns how often a test is to kill: few unless the variable says more.
func Kills(tb testing.TB, few int) int {
	tb.Helper()
	text := os.Getenv(killsVariable)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		tb.Fatalf("%s is %q", killsVariable, text)
	}
	return n
}
