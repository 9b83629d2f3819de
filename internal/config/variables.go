package config

import (
	"strings"

	"github.com/sluice-relay/sluice/profiles"
)

// Names of the variables, as the contract (R10, R38, R175), this relay
// (SLUICE_) or the Go runtime (GO) defines them.
const (
	EnvPort        = "AEP_PORT"
	EnvHost        = "AEP_HOST"
	EnvOrigins     = "AEP_ORIGINS"
	EnvToken       = "AEP_TOKEN" // the name of the variable, not a token
	EnvTokenFile   = "AEP_TOKEN_FILE"
	EnvBuffer      = "AEP_BUFFER"
	EnvMaxSessions = "AEP_MAX_SESSIONS"
	EnvMaxBody     = "AEP_MAX_BODY"
	EnvMaxBatch    = "AEP_MAX_BATCH"
	EnvMaxFrom     = "AEP_MAX_FROM"
	EnvBufferBytes = "AEP_BUFFER_BYTES"
	EnvProfile     = "SLUICE_PROFILE"
	EnvAdmin       = "SLUICE_ADMIN"
	EnvMaxConns    = "SLUICE_MAX_CONNS"
	EnvConnsPerIP  = "SLUICE_MAX_CONNS_PER_IP"
	EnvIngestRate  = "SLUICE_INGEST_RATE"
	EnvIngestBurst = "SLUICE_INGEST_BURST"
	EnvProxies     = "SLUICE_TRUSTED_PROXIES"
	EnvDrain       = "SLUICE_DRAIN"
	EnvLoops       = "SLUICE_LOOPS"
	EnvSendBuffer  = "SLUICE_SEND_BUFFER"
	EnvAccessLog   = "SLUICE_ACCESS_LOG"
	EnvLogFormat   = "SLUICE_LOG_FORMAT"
	EnvLogLevel    = "SLUICE_LOG_LEVEL"
	EnvGCPercent   = "GOGC"
	EnvMemoryLimit = "GOMEMLIMIT"
)

// Variable describes one setting for help texts and documents.
type Variable struct {
	Env     string // name in the environment
	Flag    string // name on the command line; "" for a secret or Go's own
	Default string // as one would write it, or what stands for it
	Usage   string // half a sentence
}

// Variables returns all settings in the order in which they are printed.
// The slice is the caller's.
func Variables() []Variable {
	return []Variable{
		{EnvPort, "port", "8787", "TCP port; 0 asks the kernel for one"},
		{EnvHost, "host", "loopback, or every interface with a token", "address or name to bind, or unix:/path for a Unix socket"},
		{EnvOrigins, "origins", "none", "comma list of web origins that may use a relay without a token, or *"},
		{EnvToken, "", "none", "shared bearer token; without one the relay is open and carries no commands"},
		{EnvTokenFile, "token-file", "none", "file of further tokens, one a line, read again at SIGHUP"},
		{EnvBuffer, "buffer", "10000", "events kept per session for replay"},
		{EnvMaxSessions, "max-sessions", "500", "session buffers held at once"},
		{EnvMaxBody, "max-body", "16777216", "octets in one POST /events body"},
		{EnvMaxBatch, "max-batch", "10000", "events in one NDJSON body"},
		{EnvMaxFrom, "max-from", "as AEP_MAX_SESSIONS", "resume positions in one from array"},
		{EnvBufferBytes, "buffer-bytes", "1073741824", "bytes kept for replay in all sessions together; 0 sets no bound"},
		{EnvProfile, "profile", "none", "preset of tuning that stands for what is unset: " + strings.Join(profiles.Names(), ", ")},
		{EnvAdmin, "admin", "127.0.0.1:8788", "host:port of metrics, profiles and readiness, or off"},
		{EnvMaxConns, "max-conns", "0", "open connections; 0 derives it from the descriptor limit"},
		{EnvConnsPerIP, "max-conns-per-ip", "0", "open connections of one client address; 0 sets no cap"},
		{EnvIngestRate, "ingest-rate", "0", "events per second of one client address; 0 sets no limit"},
		{EnvIngestBurst, "ingest-burst", "twice SLUICE_INGEST_RATE", "events at once of one client address"},
		{EnvProxies, "trusted-proxies", "none", "comma list of the proxies whose X-Forwarded-For counts"},
		{EnvDrain, "drain", "0s", "time over which a stop spreads the closes, as 30s or in seconds"},
		{EnvLoops, "loops", "0", "event loops; 0 makes one per core"},
		{EnvSendBuffer, "send-buffer", "262144", "bytes of the kernel's send buffer of a stream, 16384 to 4194304"},
		{EnvLogFormat, "log-format", "text", "text or json"},
		{EnvLogLevel, "log-level", "info", "debug, info, warn or error"},
		{EnvAccessLog, "access-log", "off", "on logs each request"},
		{EnvGCPercent, "", "100", "growth of the heap between two collections in percent, or off"},
		{EnvMemoryLimit, "", "off", "memory that the Go runtime tries to stay under, as 1600MiB"},
	}
}
