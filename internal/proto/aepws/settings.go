package aepws

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// Settings are the settings of the contract's section 1, but for the token. Those
// that no variable sets have the contract's value.
type Settings struct {
	Path              string        // AEPWS_PATH (B1)
	AllowOpen         bool          // AEPWS_ALLOW_OPEN
	MaxMessageBytes   int64         // AEPWS_MAX_MESSAGE_BYTES (B14)
	Heartbeat         time.Duration // AEPWS_HEARTBEAT_MS (B36); 0 is none
	OpenTimeout       time.Duration // AEPWS_OPEN_TIMEOUT_MS (B40)
	MaxConnections    int           // AEPWS_MAX_CONNECTIONS (B9)
	MaxSubscriptions  int           // of a session
	RetentionEvents   int64         // AEPWS_RETENTION_EVENTS (B62)
	RetentionAge      time.Duration // AEPWS_RETENTION_MS
	RetentionBytes    int64         // AEPWS_RETENTION_BYTES
	SendQueueEvents   int           // of a live best_effort subscription (B60)
	WriteTimeout      time.Duration // a socket takes nothing of what it is owed
	AckTimeout        time.Duration // AEPWS_ACK_TIMEOUT_MS (B58)
	MaxAttempts       int           // AEPWS_MAX_ATTEMPTS
	Backoff           time.Duration // AEPWS_BACKOFF_MS
	BackoffMultiplier float64       // AEPWS_BACKOFF_MULTIPLIER
	MaxBackoff        time.Duration // AEPWS_BACKOFF_MAX_MS
	MaxUnacked        int           // of a session (B60)
	StrictTypes       bool          // AEPWS_STRICT_TYPES (B24)
	ExtraTypes        []string      // AEPWS_EXTRA_TYPES, for StrictTypes
	AcceptFragments   bool          // AEPWS_FRAGMENTS (B12)
}

// DefaultSettings returns the contract's defaults.
func DefaultSettings() Settings {
	return Settings{
		Path:            "/aep",
		MaxMessageBytes: 1 << 20,
		Heartbeat:       30 * time.Second, OpenTimeout: 10 * time.Second,
		MaxConnections: 10_000, MaxSubscriptions: 64,
		RetentionEvents: 1_000_000, RetentionAge: 24 * time.Hour, RetentionBytes: 1 << 30,
		SendQueueEvents: 1024, WriteTimeout: 10 * time.Second,
		AckTimeout: 30 * time.Second, MaxAttempts: 3,
		Backoff: time.Second, BackoffMultiplier: 2, MaxBackoff: 30 * time.Second,
		MaxUnacked: 1000,
	}
}

// Bounds of the message limit: a larger message would not fit into what one
// peer may be owed, a smaller limit not hold an envelope.
const (
	MinMessageBytes = 1 << 10
	MaxMessageBytes = 4 << 20
)

// Errors of ValidatePath.
var (
	errPath       = errors.New("is not / and visible ASCII characters without ? and #, at most 200")
	errPathOwners = errors.New("is a path of another surface")
)

// ValidatePath tells whether the surface can have a path: others are those of
// the other surfaces, which it must not be nor lie below.
func ValidatePath(path string, others ...string) error {
	bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '?' || c == '#' }
	if len(path) < 2 || len(path) > 200 || path[0] != '/' || strings.ContainsFunc(path, bad) {
		return errPath
	}
	for _, other := range others {
		if rest, ok := strings.CutPrefix(path, other); ok && (rest == "" || rest[0] == '/') {
			return fmt.Errorf("%w: %s", errPathOwners, other)
		}
	}
	return nil
}

// registry returns the domain types that are taken, nil for all (B24). An extra
// type that is none is an error.
func (s *Settings) registry() (*aepws.Registry, error) {
	r, bad := aepws.NewRegistry(s.ExtraTypes...)
	switch {
	case len(bad) > 0:
		return nil, fmt.Errorf("%q is no domain type", bad[0])
	case !s.StrictTypes:
		return nil, nil
	}
	return r, nil
}

// Validate tells which values cannot be served with: those of the retries and
// the extra types.
func (s *Settings) Validate() error {
	if _, err := s.registry(); err != nil {
		return err
	}
	_, err := s.retryPlan()
	return err
}

func (s *Settings) retryPlan() (*retryPlan, error) {
	return newRetryPlan(retryPolicy{
		ackTimeout: s.AckTimeout, backoff: s.Backoff, multiplier: s.BackoffMultiplier,
		maxBackoff: s.MaxBackoff, attempts: s.MaxAttempts, unacked: s.MaxUnacked,
	})
}
