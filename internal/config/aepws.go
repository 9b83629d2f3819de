package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/proto/aepws"
)

// Bounds of the binding's settings, beyond which a value is a mistake in the
// unit. The lower ones of a heartbeat are the contract's (B36).
const (
	maxAEPWSConnections = 1 << 20
	maxRetentionEvents  = 1 << 40
	maxRetentionMillis  = 10 * 365 * 24 * 60 * 60 * 1000
	minHeartbeatMillis  = 1000
	maxHeartbeatMillis  = 300_000
	maxAEPWSAttempts    = 10
	maxMultiplier       = 1000
	maxExtraTypes       = 1000
)

var (
	errHeartbeat  = errors.New("is neither 0 nor 1000 to 300000")
	errMultiplier = errors.New("is not a decimal number from 1 to 1000")
	errExtraTypes = errors.New("names more than 1,000 types")
)

// ErrExposed tells of a binding that may not be served: without a token the relay
// has to be bound to loopback, unless AEPWS_ALLOW_OPEN says otherwise.
var ErrExposed = errors.New("without it the relay must be bound to loopback, or AEPWS_ALLOW_OPEN be 1")

// otherPaths are those of the other surfaces, which the binding's must not be.
var otherPaths = []string{
	"/events", "/stream", "/socket", "/connections", "/healthz", "/.well-known",
	"/xrpc", "/firehose", "/admin", "/v1", "/health",
}

// aepws reads the settings of the binding's contract, section 1. The token is
// apart, so that no formatting of the rest shows it.
func (r *reader) aepws() (c aepws.Settings, token Secret) {
	c = aepws.DefaultSettings()
	millis := func(env string, value time.Duration, least, most int64) time.Duration {
		return time.Duration(r.integer(env, value.Milliseconds(), least, most)) * time.Millisecond
	}
	if s := r.text(EnvAEPWSPath); s != "" {
		if err := aepws.ValidatePath(s, otherPaths...); err != nil {
			r.fail(EnvAEPWSPath, fmt.Errorf("%s %w", quote(s), err))
		}
		c.Path = s
	}
	c.AllowOpen = r.choice(EnvAEPWSOpen, "0", "1") == "1"
	c.MaxMessageBytes = r.integer(EnvAEPWSMessage, c.MaxMessageBytes, aepws.MinMessageBytes, aepws.MaxMessageBytes)
	c.Heartbeat = millis(EnvAEPWSHeartbeat, c.Heartbeat, 0, maxHeartbeatMillis)
	if c.Heartbeat > 0 && c.Heartbeat < minHeartbeatMillis*time.Millisecond {
		r.fail(EnvAEPWSHeartbeat, errHeartbeat)
	}
	c.OpenTimeout = millis(EnvAEPWSOpenTimeout, c.OpenTimeout, 1, maxMillis)
	c.MaxConnections = r.number(EnvAEPWSConns, c.MaxConnections, 1, maxAEPWSConnections)
	c.RetentionEvents = r.integer(EnvRetentionEvents, c.RetentionEvents, 1, maxRetentionEvents)
	c.RetentionAge = millis(EnvRetentionAge, c.RetentionAge, 1, maxRetentionMillis)
	c.RetentionBytes = r.bytes(EnvRetentionBytes, c.RetentionBytes, 1)
	c.AckTimeout = millis(EnvAckTimeout, c.AckTimeout, 1, maxMillis)
	c.MaxAttempts = r.number(EnvMaxAttempts, c.MaxAttempts, 1, maxAEPWSAttempts)
	c.Backoff = millis(EnvBackoff, c.Backoff, 0, maxMillis)
	c.BackoffMultiplier = r.multiplier(EnvMultiplier, c.BackoffMultiplier)
	c.MaxBackoff = millis(EnvMaxBackoff, c.MaxBackoff, 0, maxMillis)
	c.StrictTypes = r.choice(EnvStrictTypes, "0", "1") == "1"
	c.ExtraTypes = r.extraTypes(EnvExtraTypes)
	c.AcceptFragments = r.choice(EnvFragments, "refuse", "accept") == "accept"
	return c, NewSecret(r.text(EnvAEPWSToken))
}

// multiplier reads a decimal number: digits, and a point with digits.
func (r *reader) multiplier(env string, unset float64) float64 {
	s := r.text(env)
	if s == "" {
		return unset
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "0123456789.") != "" || f < 1 || f > maxMultiplier {
		r.fail(env, fmt.Errorf("%s %w", quote(s), errMultiplier))
	}
	return f
}

// extraTypes reads a list of domain types (B24).
func (r *reader) extraTypes(env string) (list []string) {
	s := r.text(env)
	if s == "" {
		return nil
	}
	for word := range strings.SplitSeq(s, ",") {
		list = append(list, strings.TrimSpace(word))
	}
	if len(list) > maxExtraTypes {
		r.fail(env, errExtraTypes)
		return nil
	}
	c := aepws.DefaultSettings()
	c.ExtraTypes = list
	if err := c.Validate(); err != nil {
		r.fail(env, err)
	}
	return list
}

// CheckAEPWS returns ErrExposed, as the error of a variable, when the binding may
// not be served as configured.
func (c Config) CheckAEPWS() error {
	if c.AEPWSToken.IsSet() || c.Loopback() || c.AEPWS.AllowOpen {
		return nil
	}
	return &VariableError{Env: EnvAEPWSToken, Err: ErrExposed}
}

// aepwsValues returns the values of the binding's variables in the order of
// Variables.
func (c Config) aepwsValues() []string {
	s := &c.AEPWS
	flag := map[bool]string{false: "0", true: "1"}
	bytes := func(n int64) string { return strconv.FormatInt(n, 10) }
	millis := func(d time.Duration) string { return bytes(d.Milliseconds()) }
	return []string{
		s.Path,
		c.AEPWSToken.String(),
		flag[s.AllowOpen],
		bytes(s.MaxMessageBytes),
		millis(s.Heartbeat),
		millis(s.OpenTimeout),
		strconv.Itoa(s.MaxConnections),
		bytes(s.RetentionEvents),
		millis(s.RetentionAge),
		bytes(s.RetentionBytes),
		millis(s.AckTimeout),
		strconv.Itoa(s.MaxAttempts),
		millis(s.Backoff),
		strconv.FormatFloat(s.BackoffMultiplier, 'f', -1, 64),
		millis(s.MaxBackoff),
		flag[s.StrictTypes],
		strings.Join(s.ExtraTypes, ","),
		map[bool]string{false: "refuse", true: "accept"}[s.AcceptFragments],
	}
}
