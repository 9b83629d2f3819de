package config

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/proto/sync"
)

// Names of the surfaces, as SLUICE_SURFACES has them.
const (
	SurfaceAEP      = "aep"
	SurfaceAEPWS    = "aepws"
	SurfaceSync     = "sync"
	SurfaceFirehose = "firehose"
)

// surfaces are all that there are, in the order in which they are printed.
var surfaces = []string{SurfaceAEP, SurfaceAEPWS, SurfaceSync, SurfaceFirehose}

// defaultData is the data directory unless one is named.
const defaultData = "sluice-data"

// reservedPaths are the paths of the other surfaces, which a base path of the
// sync relay must not overlap (S2).
var reservedPaths = []string{
	"/events", "/stream", "/socket", "/connections", "/healthz", "/.well-known",
	"/aep", "/xrpc", "/firehose", "/admin",
}

// Serves reports whether a surface is on: all are unless SLUICE_SURFACES names
// those that are.
func (c Config) Serves(surface string) bool { return slices.Contains(c.Surfaces, surface) }

// surfaces reads the list of surfaces. Twice is once.
func (r *reader) surfaces(env string) (list []string, named bool) {
	s := r.text(env)
	if s == "" {
		return slices.Clone(surfaces), false
	}
	on := map[string]bool{}
	for word := range strings.SplitSeq(s, ",") {
		word = strings.ToLower(strings.TrimSpace(word))
		if !slices.Contains(surfaces, word) {
			r.fail(env, choiceError(word, surfaces))
		}
		on[word] = true
	}
	for _, name := range surfaces {
		if on[name] {
			list = append(list, name)
		}
	}
	return list, true
}

// sync reads the settings of the sync relay's contract, section 1. aepwsPath is
// reserved besides what always is.
//
// The token is apart, so that no formatting of the rest shows it.
func (r *reader) sync(aepwsPath string) (c sync.Config, adminToken Secret) {
	c = sync.DefaultConfig()
	c.MaxOwnerBytes = r.bytes(EnvMaxOwnerBytes, c.MaxOwnerBytes, 1)
	c.MaxEventsPerPush = r.number(EnvMaxEventsPerPush, c.MaxEventsPerPush, 1, math.MaxInt)
	c.MaxEventBytes = r.number(EnvMaxEventBytes, c.MaxEventBytes, 1, math.MaxInt)
	c.MaxBlobBytes = r.bytes(EnvMaxBlobBytes, c.MaxBlobBytes, 1)
	c.MaxEventsPerPull = r.number(EnvMaxEventsPerPull, c.MaxEventsPerPull, 1, math.MaxInt)
	// One that is lower than the default takes the default along.
	c.DefaultEventsPerPull = r.number(EnvDefaultPerPull, min(c.DefaultEventsPerPull, c.MaxEventsPerPull), 1, math.MaxInt)
	c.MaxPullBytes = r.bytes(EnvMaxPullBytes, c.MaxPullBytes, 1)
	c.MaxStreamsPerCompact = r.number(EnvMaxStreams, c.MaxStreamsPerCompact, 1, math.MaxInt)
	c.MaxTotalBytes = r.bytes(EnvMaxTotalBytes, c.MaxTotalBytes, 0)
	c.MaxOwners = r.number(EnvMaxOwners, c.MaxOwners, 0, math.MaxInt)
	c.WritesDisabled = r.choice(EnvWritesDisabled, "0", "1") == "1"
	c.CompactionInterval = time.Duration(r.integer(EnvCompaction, c.CompactionInterval.Milliseconds(), 0,
		math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	if s := r.text(EnvBasePaths); s != "" {
		for base := range strings.SplitSeq(s, ",") {
			c.BasePaths = append(c.BasePaths, strings.TrimSpace(base))
		}
	}
	if s := r.text(EnvSeqFloor); s != "" {
		c.SeqFloor = strings.ToLower(s)
	}
	c.Synchronous = strings.ToUpper(r.choice(EnvSynchronous, "full", "off", "normal", "extra"))
	c.AdminToken = r.text(EnvSyncAdmin)
	if bad, ok := errors.AsType[*sync.SettingError](c.Validate(append(slices.Clone(reservedPaths), aepwsPath)...)); ok {
		r.fail(bad.Name, errors.New(bad.Reason))
	}
	adminToken = NewSecret(c.AdminToken)
	c.AdminToken = ""
	return c, adminToken
}

// syncValues returns the values of the sync relay's variables in the order of
// Variables.
func (c Config) syncValues() []string {
	s := &c.Sync
	bytes := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		bytes(s.MaxOwnerBytes),
		strconv.Itoa(s.MaxEventsPerPush),
		strconv.Itoa(s.MaxEventBytes),
		bytes(s.MaxBlobBytes),
		strconv.Itoa(s.MaxEventsPerPull),
		strconv.Itoa(s.DefaultEventsPerPull),
		bytes(s.MaxPullBytes),
		strconv.Itoa(s.MaxStreamsPerCompact),
		bytes(s.MaxTotalBytes),
		strconv.Itoa(s.MaxOwners),
		map[bool]string{false: "0", true: "1"}[s.WritesDisabled],
		bytes(s.CompactionInterval.Milliseconds()),
		strings.Join(s.BasePaths, ","),
		s.SeqFloor,
		s.Synchronous,
		c.SyncAdminToken.String(),
	}
}
