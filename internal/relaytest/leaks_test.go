package relaytest

import (
	"strings"
	"testing"
	"time"
)

func stays(until chan struct{}) { <-until }

func TestLeaked(t *testing.T) {
	until := make(chan struct{})
	go stays(until)
	marks := []string{"no such mark", "relaytest.stays"}
	if left := leaked(50*time.Millisecond, marks); !strings.Contains(left, "relaytest.stays") {
		t.Errorf("a goroutine that stays is not found: %q", left)
	}
	close(until)
	if left := leaked(leakPatience, marks); left != "" {
		t.Errorf("it has ended, and is found: %q", left)
	}
}
