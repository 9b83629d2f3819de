package sync

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/store"
)

// SettingError tells of a setting whose value stops the start.
type SettingError struct {
	Name   string // of the variable
	Reason string
}

// Error implements error: the variable and what is wrong.
func (e *SettingError) Error() string { return e.Name + ": " + e.Reason }

// Config has the settings of the contract's section 1. The zero value means
// none, off or zero in each field, so start from DefaultConfig. Sizes are bytes.
type Config struct {
	MaxOwnerBytes        int64         // MAX_OWNER_BYTES: events and blobs of one owner
	MaxEventsPerPush     int           // MAX_EVENTS_PER_PUSH
	MaxEventBytes        int           // MAX_EVENT_BYTES: of the stored form
	MaxBlobBytes         int64         // MAX_BLOB_BYTES
	MaxEventsPerPull     int           // MAX_EVENTS_PER_PULL
	DefaultEventsPerPull int           // DEFAULT_EVENTS_PER_PULL
	MaxPullBytes         int64         // MAX_PULL_BYTES: a page ends past this (S36)
	MaxStreamsPerCompact int           // MAX_STREAMS_PER_COMPACT
	MaxTotalBytes        int64         // MAX_TOTAL_BYTES: of all owners, 0 for none
	MaxOwners            int           // MAX_OWNERS, 0 for none
	WritesDisabled       bool          // WRITES_DISABLED
	CompactionInterval   time.Duration // COMPACTION_INTERVAL_MS, 0 for off
	BasePaths            []string      // SYNC_BASE_PATHS
	SeqFloor             string        // SEQ_FLOOR: auto, clock or a number (S29)
	Synchronous          string        // SQLITE_SYNCHRONOUS
	AdminToken           string        // SYNC_ADMIN_TOKEN, empty for no admin route (S47)
	// GroupCount is for benchmarks alone: see store.Config.
	GroupCount int
}

// DefaultConfig returns the contract's defaults.
func DefaultConfig() Config {
	return Config{
		MaxOwnerBytes:        1 << 30,
		MaxEventsPerPush:     1000,
		MaxEventBytes:        256 << 10,
		MaxBlobBytes:         1<<20 + 1024,
		MaxEventsPerPull:     1000,
		DefaultEventsPerPull: 500,
		MaxPullBytes:         8 << 20,
		MaxStreamsPerCompact: 1000,
		MaxTotalBytes:        10 << 30,
		MaxOwners:            10_000,
		CompactionInterval:   6 * time.Hour,
		SeqFloor:             "auto",
		Synchronous:          "FULL",
	}
}

// MaxPushBytes is the longest push body: a batch of events each within its limit
// is never refused for its sum.
func (c *Config) MaxPushBytes() int64 {
	return int64(c.MaxEventsPerPush)*int64(c.MaxEventBytes) + 64<<10
}

// maxSizeBytes bounds each size in memory that is set, so that sums of them stay
// far from what an int64 holds.
const maxSizeBytes = 1 << 40

// Validate returns an error that names the first variable with a value that
// cannot be (*SettingError), nil if there is none. reserved are the paths of other
// surfaces, which a base path must not overlap (S2).
func (c *Config) Validate(reserved ...string) error {
	bad := func(name, format string, args ...any) error {
		return &SettingError{Name: name, Reason: fmt.Sprintf(format, args...)}
	}
	for _, n := range []struct {
		name       string
		value, min int64
	}{
		{"MAX_OWNER_BYTES", c.MaxOwnerBytes, 1},
		{"MAX_EVENTS_PER_PUSH", int64(c.MaxEventsPerPush), 1},
		{"MAX_EVENT_BYTES", int64(c.MaxEventBytes), 1},
		{"MAX_BLOB_BYTES", c.MaxBlobBytes, 1},
		{"MAX_EVENTS_PER_PULL", int64(c.MaxEventsPerPull), 1},
		{"DEFAULT_EVENTS_PER_PULL", int64(c.DefaultEventsPerPull), 1},
		{"MAX_PULL_BYTES", c.MaxPullBytes, 1},
		{"MAX_STREAMS_PER_COMPACT", int64(c.MaxStreamsPerCompact), 1},
		{"MAX_TOTAL_BYTES", c.MaxTotalBytes, 0},
		{"MAX_OWNERS", int64(c.MaxOwners), 0},
		{"COMPACTION_INTERVAL_MS", c.CompactionInterval.Milliseconds(), 0},
	} {
		if n.value < n.min {
			return bad(n.name, "is %d, at least %d is needed", n.value, n.min)
		}
	}
	for _, n := range []struct {
		name       string
		value, max int64
	}{
		{"MAX_EVENTS_PER_PUSH", int64(c.MaxEventsPerPush), 1 << 20},
		{"MAX_EVENT_BYTES", int64(c.MaxEventBytes), 64 << 20},
		{"MAX_BLOB_BYTES", c.MaxBlobBytes, 64 << 20},
		{"MAX_EVENTS_PER_PULL", int64(c.MaxEventsPerPull), 1 << 20},
		{"MAX_PULL_BYTES", c.MaxPullBytes, 256 << 20},
		{"MAX_STREAMS_PER_COMPACT", int64(c.MaxStreamsPerCompact), 1 << 16},
	} {
		if n.value > n.max {
			return bad(n.name, "is %d, at most %d is possible", n.value, n.max)
		}
	}
	if c.DefaultEventsPerPull > c.MaxEventsPerPull {
		return bad("DEFAULT_EVENTS_PER_PULL", "is more than MAX_EVENTS_PER_PULL")
	}
	if c.MaxPushBytes() > maxSizeBytes {
		return bad("MAX_EVENTS_PER_PUSH", "times MAX_EVENT_BYTES is more than %d", int64(maxSizeBytes))
	}
	if !validFloor(c.SeqFloor) {
		return bad("SEQ_FLOOR", "is neither auto, clock nor a number below 2^53")
	}
	switch c.Synchronous {
	case "OFF", "NORMAL", "FULL", "EXTRA":
	default:
		return bad("SQLITE_SYNCHRONOUS", "is none of OFF, NORMAL, FULL and EXTRA")
	}
	if len(c.AdminToken) > 512 || !visible(c.AdminToken) {
		return bad("SYNC_ADMIN_TOKEN", "is not up to 512 visible ASCII characters")
	}
	for i, base := range c.BasePaths {
		if why := badBasePath(base, c.BasePaths[:i], reserved); why != "" {
			return bad("SYNC_BASE_PATHS", "has %q: %s", base, why)
		}
	}
	return nil
}

// validFloor tells whether s is a value of SEQ_FLOOR (S29).
func validFloor(s string) bool {
	if s == "auto" || s == "clock" {
		return true
	}
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n >= 1<<53/10 {
			return false
		}
		n = n*10 + int64(c-'0')
	}
	return s != ""
}

func visible(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// badBasePath tells why base cannot be a base path, "" if it can.
func badBasePath(base string, before, reserved []string) string {
	if len(base) < 2 || base[0] != '/' || base[len(base)-1] == '/' || strings.Contains(base, "//") {
		return "a base path is /name, without a slash at its end"
	}
	if !visible(base) || strings.ContainsAny(base, "%?#\\\"<>^`{|}") {
		return "it has characters that a path cannot have"
	}
	for _, own := range []string{"/v1", "/health"} {
		if overlaps(base, own) {
			return "it overlaps " + own
		}
	}
	for _, other := range before {
		if base == other {
			return "it is there twice"
		}
	}
	for _, other := range reserved {
		if overlaps(base, strings.TrimSuffix(other, "/")) {
			return "it overlaps " + other + " of another surface"
		}
	}
	return ""
}

// overlaps tells whether one of two paths is the other or lies below it.
func overlaps(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// StoreConfig returns what the store has to be opened with, except for its path
// and for Notify, which is Surface.Notify.
func (c *Config) StoreConfig() store.Config {
	out := store.Config{
		OwnerBytes:         c.MaxOwnerBytes,
		TotalBytes:         c.MaxTotalBytes,
		Owners:             int64(c.MaxOwners),
		PullBytes:          c.MaxPullBytes,
		CompactionInterval: c.CompactionInterval,
		Synchronous:        c.Synchronous,
		GroupCount:         c.GroupCount,
	}
	// Zero means none in the contract, and the default to the store.
	if out.TotalBytes == 0 {
		out.TotalBytes = store.Unlimited
	}
	if out.Owners == 0 {
		out.Owners = store.Unlimited
	}
	if out.CompactionInterval == 0 {
		out.CompactionInterval = -1
	}
	switch c.SeqFloor {
	case "", "auto":
	case "clock":
		out.Floor.Mode = store.FloorClock
	default:
		out.Floor.Mode = store.FloorFixed
		out.Floor.Number, _ = strconv.ParseInt(c.SeqFloor, 10, 64) // Validate took it
	}
	return out
}
