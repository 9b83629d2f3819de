package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/profiles"
)

// valueOf returns what is printed for a variable.
func valueOf(c Config, env string) string {
	i := slices.IndexFunc(Variables(), func(v Variable) bool { return v.Env == env })
	return c.values()[i]
}

// Later wins: preset, then environment. A preset stands for what is unset, and
// set but empty is unset (R11).
func TestPresetPrecedence(t *testing.T) {
	f := func(env, want string, preset bool, pairs ...string) {
		t.Helper()
		c := mustRead(t, pairs...)
		if got := valueOf(c, env); got != want || c.FromPreset(env) != preset {
			t.Errorf("%q: %s is %s, from the preset: %v; want %s, %v", pairs, env, got, c.FromPreset(env), want, preset)
		}
	}
	const edge, large = "SLUICE_PROFILE=edge", "SLUICE_PROFILE=large-node"
	f(EnvProfile, "", false)
	f(EnvProfile, "edge", false, edge)
	f(EnvProfile, "", false, "SLUICE_PROFILE=")

	f(EnvBufferBytes, "1073741824", false)
	f(EnvBufferBytes, "134217728", true, edge)
	f(EnvBufferBytes, "134217728", true, edge, "AEP_BUFFER_BYTES=")
	f(EnvBufferBytes, "5", false, edge, "AEP_BUFFER_BYTES=5")
	f(EnvBufferBytes, "134217728", false, edge, "AEP_BUFFER_BYTES=134217728") // said by both: the environment said it
	f(EnvBufferBytes, "8589934592", true, large)

	f(EnvSendBuffer, "262144", false)
	f(EnvSendBuffer, "65536", true, edge)
	f(EnvSendBuffer, "262144", false, edge, "SLUICE_SEND_BUFFER=262144")

	f(EnvGCPercent, "100", false)
	f(EnvGCPercent, "off", false, "GOGC=off")
	f(EnvGCPercent, "off", false, large, "GOGC=off")
	f(EnvGCPercent, "50", false, large, "GOGC=50")
	f(EnvMemoryLimit, "off", false)
	f(EnvMemoryLimit, "402653184", true, edge)
	f(EnvMemoryLimit, "off", false, edge, "GOMEMLIMIT=off")
	f(EnvMemoryLimit, "1073741824", false, edge, "GOMEMLIMIT=1GiB")

	// What follows another setting follows that of the preset (R10).
	f(EnvMaxSessions, "4000", true, large)
	f(EnvMaxFrom, "4000", false, large)
	f(EnvMaxFrom, "7", false, large, "AEP_MAX_SESSIONS=7")
	// What a preset does not name keeps its default.
	f(EnvPort, "8787", false, edge)
	f(EnvMaxConns, "0", false, edge)
}

// Each preset gives all that it names, names only what is tuning, and is a
// valid configuration, on TCP and on a Unix socket.
func TestEveryPresetIsValid(t *testing.T) {
	tuning := map[string]bool{
		EnvBuffer: true, EnvBufferBytes: true, EnvMaxSessions: true, EnvMaxBody: true, EnvMaxBatch: true,
		EnvLoops: true, EnvSendBuffer: true, EnvGCPercent: true, EnvMemoryLimit: true,
	}
	for _, name := range profiles.Names() {
		values, err := profiles.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for env := range values {
			if !tuning[env] {
				t.Errorf("%s: %s is unknown, or of a site and not of a kind of machine", name, env)
			}
		}
		for _, host := range []string{"", "unix:/run/s"} {
			c := mustRead(t, "SLUICE_PROFILE="+name, "AEP_HOST="+host)
			got := slices.Sorted(slices.Values(c.Preset))
			if want := slices.Sorted(maps.Keys(values)); !slices.Equal(got, want) {
				t.Errorf("%s: gives %q, want %q", name, got, want)
			}
			if c.MemoryTight() || c.MemoryLimitBytes == NoMemoryLimit || c.MemoryLimitBytes < 2*c.BufferBytes {
				t.Errorf("%s: %d bytes for buffers of %d", name, c.MemoryLimitBytes, c.BufferBytes)
			}
			// What is printed is what a relay without the preset would need.
			lines := strings.Split(strings.TrimSuffix(c.String(), "\n"), "\n")
			again := mustRead(t, slices.DeleteFunc(lines, func(line string) bool {
				name, value, _ := strings.Cut(line, "=")
				return name == EnvProfile || value == Secret{}.String()
			})...)
			for _, v := range Variables() {
				if v.Env != EnvProfile && valueOf(again, v.Env) != valueOf(c, v.Env) {
					t.Errorf("%s: %s read back as %s, was %s", name, v.Env, valueOf(again, v.Env), valueOf(c, v.Env))
				}
			}
		}
	}
}

// R11: a profile that does not exist is an error of one line that lists those
// that do, before any other.
func TestUnknownProfile(t *testing.T) {
	for _, name := range []string{"x", "Edge", " edge", "edge.env", "edge\n", "../edge", strings.Repeat("x", 5000)} {
		_, err := FromEnv(env("SLUICE_PROFILE="+name, "AEP_PORT=x"))
		checkError(t, EnvProfile, name, err, profiles.ErrUnknown)
		for _, known := range profiles.Names() {
			if !strings.Contains(fmt.Sprint(err), known) {
				t.Errorf("%q: %v does not list %s", name, err, known)
			}
		}
	}
}

// GOGC and GOMEMLIMIT are read as the Go runtime reads them, and what it would
// ignore is an error.
func TestCollectorVariables(t *testing.T) {
	percent := func(value string, want int) {
		t.Helper()
		if got := mustRead(t, "GOGC="+value).GCPercent; got != want {
			t.Errorf("GOGC=%s: %d, want %d", value, got, want)
		}
	}
	percent("", 100)
	percent("off", GCOff)
	percent("1", 1)
	percent("2147483647", math.MaxInt32)
	for _, bad := range []string{"OFF", "-1", "100%", "on"} {
		_, err := FromEnv(env("GOGC=" + bad))
		checkError(t, EnvGCPercent, bad, err, ErrNotNumber)
	}

	memory := func(value string, want int64) {
		t.Helper()
		if got := mustRead(t, "GOMEMLIMIT="+value).MemoryLimitBytes; got != want {
			t.Errorf("GOMEMLIMIT=%s: %d, want %d", value, got, want)
		}
	}
	memory("", NoMemoryLimit)
	memory("off", NoMemoryLimit)
	memory("1", 1)
	memory("1B", 1)
	memory("3KiB", 3<<10)
	memory("448MiB", 448<<20)
	memory("24GiB", 24<<30)
	memory("2TiB", 2<<40)
	memory("8388607TiB", 8388607<<40)
	memory("9223372036854775806", math.MaxInt64-1)
	for value, want := range map[string]error{
		"x": ErrMemory, "-1": ErrMemory, "+1": ErrMemory, "1.5GiB": ErrMemory, "1GB": ErrMemory, "1G": ErrMemory,
		"1gib": ErrMemory, "1 GiB": ErrMemory, "GiB": ErrMemory, "B": ErrMemory, " 1": ErrMemory, "1KiBB": ErrMemory,
		"OFF": ErrMemory, "1_0": ErrMemory, strings.Repeat("x", 5000): ErrMemory,
		"0": ErrRange, "0GiB": ErrRange, "8388608TiB": ErrRange, "9223372036854775808": ErrRange,
		strings.Repeat("9", 400): ErrRange,
	} {
		_, err := FromEnv(env("GOMEMLIMIT=" + value))
		checkError(t, EnvMemoryLimit, value, err, want)
		if wrong, ok := errors.AsType[*VariableError](err); ok && wrong.Env != EnvMemoryLimit {
			t.Errorf("%q: named %s", value, wrong.Env)
		}
	}
}

// Buffers and window that fill the limit deserve a warning.
func TestMemoryTight(t *testing.T) {
	f := func(want bool, pairs ...string) {
		t.Helper()
		if got := mustRead(t, pairs...).MemoryTight(); got != want {
			t.Errorf("%q: tight %v", pairs, got)
		}
	}
	f(false)
	f(false, "AEP_BUFFER_BYTES=0")
	f(false, "GOMEMLIMIT=1600MiB")
	f(true, "GOMEMLIMIT=1GiB")
	f(true, "GOMEMLIMIT=1MiB")
	f(false, "GOMEMLIMIT=1GiB", "AEP_BUFFER=0")
	f(false, "SLUICE_PROFILE=edge")
	f(true, "SLUICE_PROFILE=edge", "AEP_BUFFER_BYTES=1073741824")
	f(false, "SLUICE_PROFILE=edge", "AEP_BUFFER_BYTES=1073741824", "GOMEMLIMIT=off")
	f(false, "GOMEMLIMIT=164MiB", "AEP_BUFFER_BYTES=104857600")
	f(true, "GOMEMLIMIT=163MiB", "AEP_BUFFER_BYTES=104857600")
}
