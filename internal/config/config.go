package config

import (
	"cmp"
	"log/slog"
	"math"
	"time"

	"github.com/sluice-relay/sluice/internal/limit"
	"github.com/sluice-relay/sluice/internal/proto/aepws"
	"github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/proto/sync"
)

// Config holds every setting of the relay, validated and with defaults
// filled in. It comes from [FromEnv]; the zero value is not usable.
type Config struct {
	// Profile is the name of the preset whose values stand for what is unset,
	// "" for none. Preset has the names of the variables that got their value
	// from it, in the order of reading; see [Config.FromPreset].
	Profile string
	Preset  []string

	// Port is the TCP port, 0 to 65535; 0 asks the kernel for one.
	Port int
	// Host is the configured bind address: an IP address without brackets,
	// a name, or unix: and the absolute path of a Unix socket. Empty when none
	// was configured; see [Config.ListenAddrs].
	Host string
	// Origins are the extra web origins that may use a relay without a
	// token (R38), normalised as by [auth.ParseOrigins]. AnyOrigin stands
	// for "*".
	Origins   []string
	AnyOrigin bool
	// Token is a shared bearer token and TokenFile the path of a file of
	// others; all are valid. With neither there is no authentication and
	// there are no commands; see [Config.HasToken] and [Config.Tokens].
	Token     Secret
	TokenFile string

	// BufferEvents is the number of events kept per session, 0 for none.
	BufferEvents int
	// BufferBytes bounds what all sessions keep, in bytes; 0 sets no bound
	// (R175).
	BufferBytes int64
	// MaxSessions is the number of session buffers held at once, at least 1.
	MaxSessions int
	// MaxBodyBytes is the size of the largest POST /events body, at least 1.
	MaxBodyBytes int64
	// MaxBatchEvents is the number of events in one body, at least 1.
	MaxBatchEvents int
	// MaxFrom is the number of resume positions in one from array. Unless
	// set it is MaxSessions (R10).
	MaxFrom int

	// MaxConns is the number of open connections; 0 means that it is to be
	// derived from the descriptor limit.
	MaxConns int
	// MaxConnsPerIP is the number of open connections of one client address;
	// 0 sets no cap. At most MaxConns, if that is set.
	MaxConnsPerIP int
	// IngestRate is the number of events per second that one client address
	// may publish, IngestBurst what it may publish at once; both are 0 when
	// there is no limit, both above 0 when there is one.
	IngestRate, IngestBurst int
	// TrustedProxies are the peers whose X-Forwarded-For counts, normalised as
	// by [limit.ParseProxies].
	TrustedProxies []string

	// Surfaces are those that the relay serves, see [Config.Serves]. Named tells
	// that SLUICE_SURFACES named them: then one that cannot be served stops the
	// start, else it is left out.
	Surfaces []string
	Named    bool
	// Data is the directory of what is stored. It is made when a surface first
	// stores something.
	Data string
	// Sync has the settings of the sync relay, but for SyncAdminToken, the
	// bearer token of its admin route (S47): unset, there is none.
	Sync           sync.Config
	SyncAdminToken Secret

	// Firehose has the settings of the atproto firehose, but for its tokens:
	// unset, there are no routes that want them (F52, F70).
	Firehose                                 firehose.Settings
	FirehosePublishToken, FirehoseAdminToken Secret

	// AEPWS has the settings of the aep-0.1 binding, but for its token; see
	// [Config.CheckAEPWS].
	AEPWS      aepws.Settings
	AEPWSToken Secret

	// Admin is the host:port of the admin listener, "" for none.
	Admin string
	// Drain is the time over which a stop spreads the closes, 0 to 10 minutes;
	// 0 closes all at once.
	Drain time.Duration
	// Loops is the number of event loops; 0 means one per core.
	Loops int
	// SendBufferBytes is the kernel's send buffer of a connection that carries
	// a stream, 16 KiB to 4 MiB.
	SendBufferBytes int

	// GCPercent is by how much the heap may grow between two collections, in
	// percent of what is in use, at least 1, or GCOff. MemoryLimitBytes is what
	// the Go runtime tries to stay under, at least 1, or NoMemoryLimit. The
	// runtime took what the environment says by itself, before main.
	GCPercent        int
	MemoryLimitBytes int64

	// LogFormat is "text" or "json".
	LogFormat string
	// LogLevel is the least level that is logged.
	LogLevel slog.Level
	// AccessLog tells to log each request.
	AccessLog bool
}

const (
	// maxLoops bounds SLUICE_LOOPS: the reactor numbers its loops in a byte.
	maxLoops = 255
	// maxDrain bounds SLUICE_DRAIN: supervisors lose patience long before.
	maxDrain = 10 * time.Minute
)

// FromEnv reads the configuration through lookup, which has the signature of
// os.LookupEnv. The error is a [*VariableError] for the first variable that
// is wrong (R11); it is one line and never holds a token. The values of the
// profile stand for what lookup does not have, or has as an empty text.
func FromEnv(lookup func(string) (string, bool)) (Config, error) {
	r := reader{lookup: lookup}
	profile := r.profile(EnvProfile) // before all that it may give
	c := Config{
		Profile:        profile,
		Port:           r.number(EnvPort, 8787, 0, math.MaxUint16),
		Host:           r.host(EnvHost),
		Token:          NewSecret(r.text(EnvToken)),
		TokenFile:      r.path(EnvTokenFile),
		BufferEvents:   r.number(EnvBuffer, 10_000, 0, math.MaxInt),
		MaxSessions:    r.number(EnvMaxSessions, 500, 1, math.MaxInt),
		MaxBodyBytes:   r.bytes(EnvMaxBody, 16<<20, 1),
		MaxBatchEvents: r.number(EnvMaxBatch, 10_000, 1, math.MaxInt),
		BufferBytes:    r.bytes(EnvBufferBytes, 1<<30, 0),
		MaxConns:       r.number(EnvMaxConns, 0, 0, math.MaxInt),
		MaxConnsPerIP:  r.number(EnvConnsPerIP, 0, 0, math.MaxInt),
		IngestRate:     r.number(EnvIngestRate, 0, 0, limit.MaxRate),
		TrustedProxies: r.proxies(EnvProxies),
		Admin:          r.admin(EnvAdmin, "127.0.0.1:8788"),
		Drain:          r.duration(EnvDrain, maxDrain),
		Loops:          r.number(EnvLoops, 0, 0, maxLoops),
		LogFormat:      r.choice(EnvLogFormat, "text", "json"),
	}
	c.Surfaces, c.Named = r.surfaces(EnvSurfaces)
	c.Data = cmp.Or(r.path(EnvData), defaultData)
	c.AEPWS, c.AEPWSToken = r.aepws()
	c.Sync, c.SyncAdminToken = r.sync(c.AEPWS.Path)
	c.Firehose, c.FirehosePublishToken, c.FirehoseAdminToken = r.firehose()
	c.Origins, c.AnyOrigin = r.origins(EnvOrigins)
	c.MaxFrom = r.number(EnvMaxFrom, c.MaxSessions, 0, math.MaxInt)
	c.IngestBurst = r.number(EnvIngestBurst, 2*c.IngestRate, 0, limit.MaxBurst)
	c.LogLevel = logLevels[r.choice(EnvLogLevel, "info", "debug", "warn", "error")]
	c.AccessLog = r.choice(EnvAccessLog, "off", "on") == "on"
	c.SendBufferBytes = r.number(EnvSendBuffer, 256<<10, minSendBuffer, maxSendBuffer)
	c.GCPercent = r.gcPercent(EnvGCPercent)
	c.MemoryLimitBytes = r.memory(EnvMemoryLimit)
	c.Preset = r.given
	c.checkEffect(&r)
	if r.err != nil {
		return Config{}, r.err
	}
	return c, nil
}

// logLevels has the levels by the names that SLUICE_LOG_LEVEL takes.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
}
