package sync

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store"
)

// TestConfig: what cannot be stops the start and names the variable.
func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                        func(*Config) {},
		"MAX_OWNER_BYTES":         func(c *Config) { c.MaxOwnerBytes = -1 },
		"MAX_EVENTS_PER_PUSH":     func(c *Config) { c.MaxEventsPerPush = 0 },
		"MAX_EVENT_BYTES":         func(c *Config) { c.MaxEventBytes = 1 << 30 },
		"MAX_BLOB_BYTES":          func(c *Config) { c.MaxBlobBytes = 0 },
		"MAX_EVENTS_PER_PULL":     func(c *Config) { c.MaxEventsPerPull = -5 },
		"DEFAULT_EVENTS_PER_PULL": func(c *Config) { c.DefaultEventsPerPull = 1001 },
		"MAX_PULL_BYTES":          func(c *Config) { c.MaxPullBytes = 0 },
		"MAX_STREAMS_PER_COMPACT": func(c *Config) { c.MaxStreamsPerCompact = 1 << 30 },
		"MAX_TOTAL_BYTES":         func(c *Config) { c.MaxTotalBytes = -1 },
		"MAX_OWNERS":              func(c *Config) { c.MaxOwners = -1 },
		"COMPACTION_INTERVAL_MS":  func(c *Config) { c.CompactionInterval = -time.Second },
		"SEQ_FLOOR":               func(c *Config) { c.SeqFloor = "1.5" },
		"SQLITE_SYNCHRONOUS":      func(c *Config) { c.Synchronous = "full" },
		"SYNC_ADMIN_TOKEN":        func(c *Config) { c.AdminToken = "a b" },
		"SYNC_BASE_PATHS":         func(c *Config) { c.BasePaths = []string{"v2"} },
	} {
		c := DefaultConfig()
		change(&c)
		err := c.Validate()
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if bad, ok := errors.AsType[*SettingError](err); !ok || bad.Name != want || !strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	c := Config{MaxEventsPerPush: 1000, MaxEventBytes: 262144}
	if got := c.MaxPushBytes(); got != 1000*262144+65536 {
		t.Errorf("MAX_PUSH_BYTES %d", got)
	}
}

// TestBasePaths: S2: one that overlaps another surface stops the start.
func TestBasePaths(t *testing.T) {
	reserved := []string{"/xrpc/", "/stream", "/admin/firehose/"}
	for base, ok := range map[string]bool{
		"/v2": true, "/a/b": true, "/streams": true, "/v1x": true,
		"": false, "/": false, "v2": false, "/v2/": false, "/a//b": false, "/a b": false, "/a?b": false, "/%41": false,
		"/v1": false, "/v1/x": false, "/health": false, "/xrpc": false, "/xrpc/x": false, "/stream": false, "/admin": false,
	} {
		c := DefaultConfig()
		c.BasePaths = []string{base}
		if err := c.Validate(reserved...); (err == nil) != ok {
			t.Errorf("%q: %v", base, err)
		}
	}
	c := DefaultConfig()
	c.BasePaths = []string{"/v2", "/v2"}
	if c.Validate() == nil {
		t.Error("the same twice is taken")
	}
}

// TestStoreConfig: the contract's 0 for none is not the store's default.
func TestStoreConfig(t *testing.T) {
	c := DefaultConfig()
	c.MaxTotalBytes, c.MaxOwners, c.CompactionInterval, c.SeqFloor = 0, 0, 0, "17"
	got := c.StoreConfig()
	if got.TotalBytes != store.Unlimited || got.Owners != store.Unlimited || got.CompactionInterval >= 0 {
		t.Errorf("%+v", got)
	}
	if want := (store.Floor{Mode: store.FloorFixed, Number: 17}); got.Floor != want {
		t.Errorf("floor %+v", got.Floor)
	}
	for _, bad := range []string{"", "-1", "1e3", "x", "9007199254740993", "99999999999999999999"} {
		if validFloor(bad) {
			t.Errorf("floor %q is taken", bad)
		}
	}
}
