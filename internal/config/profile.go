package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/profiles"
)

const (
	// defaultGCPercent is the Go runtime's own value of GOGC.
	defaultGCPercent = 100
	// GCOff is the GCPercent of a collector that only the memory limit starts.
	GCOff = -1
	// NoMemoryLimit is the MemoryLimitBytes of a process without a limit.
	NoMemoryLimit = math.MaxInt64

	// minSendBuffer and maxSendBuffer bound SLUICE_SEND_BUFFER: less would cut
	// each batch of 16 KiB, more only delays the news that a consumer is slow.
	minSendBuffer = 16 << 10
	maxSendBuffer = 4 << 20
)

// ErrMemory tells of a GOMEMLIMIT that is no size.
var ErrMemory = errors.New("not a number of bytes, which may end in KiB, MiB, GiB or TiB, or off")

// FromPreset reports whether the value of a variable was given by the profile:
// neither the environment nor a flag set it.
func (c Config) FromPreset(env string) bool { return slices.Contains(c.Preset, env) }

// windowBytes is what the live window takes beside the buffers; it is fixed.
const windowBytes = 64 << 20

// MemoryTight reports whether the replay buffers and the live window alone
// would fill the memory limit, so that the collector ran without a pause once
// they are full. It deserves a warning at start.
func (c Config) MemoryTight() bool {
	return c.MemoryLimitBytes != NoMemoryLimit && c.BufferEvents > 0 && c.BufferBytes > c.MemoryLimitBytes-windowBytes
}

// profile reads the name of a preset and has its values stand for what is
// unset.
func (r *reader) profile(env string) string {
	name := r.text(env)
	if name == "" {
		return ""
	}
	values, err := profiles.Lookup(name)
	if err != nil {
		r.fail(env, fmt.Errorf("%s is %w", quote(name), err))
	}
	r.preset = values
	return name
}

// gcPercent reads GOGC, which is stricter here than in the Go runtime: that
// takes what it cannot read for 100.
func (r *reader) gcPercent(env string) int {
	if r.text(env) == gcOff {
		return GCOff
	}
	return r.number(env, defaultGCPercent, 1, math.MaxInt32)
}

// gcOff is the value of GOGC and GOMEMLIMIT for none.
const gcOff = "off"

// memoryUnits are the endings that the Go runtime reads in GOMEMLIMIT. One
// that ends another comes after it.
var memoryUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// memory reads GOMEMLIMIT as the Go runtime does (package runtime, "Environment
// Variables").
func (r *reader) memory(env string) int64 {
	s := r.text(env)
	if s == "" || s == gcOff {
		return NoMemoryLimit
	}
	for _, unit := range memoryUnits {
		digits, ok := strings.CutSuffix(s, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		switch {
		case errors.Is(err, strconv.ErrSyntax):
			r.fail(env, fmt.Errorf("%s is %w", quote(s), ErrMemory))
		case err != nil, int64(n) > math.MaxInt64/unit.bytes:
			r.fail(env, fmt.Errorf("%s is %w: at most %d bytes", quote(s), ErrRange, int64(math.MaxInt64)))
		case n == 0:
			r.fail(env, fmt.Errorf("%s is %w: at least 1 byte", quote(s), ErrRange))
		}
		return int64(n) * unit.bytes
	}
	return NoMemoryLimit // not reached: every text has the empty ending
}
