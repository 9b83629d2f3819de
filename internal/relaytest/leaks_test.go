package relaytest

import (
	"strings"
	"testing"
	"time"
)

func stays(began, until chan struct{}) {
	close(began)
	<-until
}

func TestLeaked(t *testing.T) {
	began, until := make(chan struct{}), make(chan struct{})
	go stays(began, until)
	<-began // or its stack does not have its name yet
	marks := []string{"no such mark", "relaytest.stays"}
	if left := leaked(50*time.Millisecond, marks); !strings.Contains(left, "relaytest.stays") {
		t.Errorf("a goroutine that stays is not found: %q", left)
	}
	close(until)
	if left := leaked(leakPatience, marks); left != "" {
		t.Errorf("it has ended, and is found: %q", left)
	}
}
