package device

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// What goes wrong with every attempt is said once, and again after a while.
func TestComplaint(t *testing.T) {
	var out bytes.Buffer
	c := complaint{what: "cannot pull", relay: "http://relay.example"}
	log, now := slog.New(slog.NewTextHandler(&out, nil)), start
	for range 1000 {
		c.say(log, now, errors.New("refused"))
		c.say(log, now, fmt.Errorf("store: %w", devicestore.ErrOwnerChanged))
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "relay=http://relay.example err=refused") {
		t.Errorf("%d: %s", n, out.String())
	}
	c.say(log, now, errors.New("another"))
	c.say(log, now.Add(sayAgain-1), errors.New("another"))
	c.say(log, now.Add(sayAgain), errors.New("another"))
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d: %s", n, out.String())
	}
}
