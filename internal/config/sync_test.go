package config

import (
	"errors"
	"strings"
	"testing"
)

func TestSurfaces(t *testing.T) {
	c := mustRead(t)
	if !c.Serves(SurfaceAEP) || !c.Serves(SurfaceSync) || c.Named {
		t.Errorf("by default all are on and none is named: %v", c.Surfaces)
	}
	if c := mustRead(t, "SLUICE_SURFACES=SYNC"); c.Serves(SurfaceAEP) || !c.Serves(SurfaceSync) || !c.Named {
		t.Errorf("only sync was named: %v", c.Surfaces)
	}
	for _, bad := range []string{"x", "sync,", ",", "aep sync", "all"} {
		_, err := FromEnv(env("SLUICE_SURFACES=" + bad))
		checkError(t, EnvSurfaces, bad, err, ErrChoice)
	}
}

// Section 1 of the sync relay's contract: a bad value stops the start with a
// message that names the variable.
func TestSyncErrors(t *testing.T) {
	for _, bad := range []string{
		"MAX_OWNER_BYTES=0", "MAX_OWNER_BYTES=1e9", "MAX_OWNER_BYTES=-1", "MAX_EVENTS_PER_PUSH=0", "MAX_EVENTS_PER_PUSH=99999999",
		"MAX_EVENT_BYTES=x", "MAX_BLOB_BYTES=0", "MAX_BLOB_BYTES=1099511627776", "MAX_EVENTS_PER_PULL=-3",
		"DEFAULT_EVENTS_PER_PULL=1001", "MAX_PULL_BYTES=0", "MAX_STREAMS_PER_COMPACT=1000000000", "MAX_TOTAL_BYTES=-1",
		"MAX_OWNERS=ten", "WRITES_DISABLED=yes", "COMPACTION_INTERVAL_MS=6h", "COMPACTION_INTERVAL_MS=9223372036855",
		"SYNC_BASE_PATHS=v2", "SYNC_BASE_PATHS=/v2/", "SYNC_BASE_PATHS=/events", "SYNC_BASE_PATHS=/v2,,/v3", "SYNC_BASE_PATHS=/v2,/v2",
		"SEQ_FLOOR=soon", "SEQ_FLOOR=-1", "SEQ_FLOOR=9007199254740993", "SQLITE_SYNCHRONOUS=2", "SYNC_ADMIN_TOKEN=a b",
		"SLUICE_DATA=a\nb",
	} {
		_, err := FromEnv(env(bad))
		name, _, _ := strings.Cut(bad, "=")
		if wrong, ok := errors.AsType[*VariableError](err); !ok || wrong.Env != name {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A default page that nobody set follows a lower maximum.
func TestDefaultPageFollowsMaximum(t *testing.T) {
	if c := mustRead(t, "MAX_EVENTS_PER_PULL=7"); c.Sync.DefaultEventsPerPull != 7 {
		t.Errorf("DEFAULT_EVENTS_PER_PULL is %d", c.Sync.DefaultEventsPerPull)
	}
}
