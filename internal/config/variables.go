package config

// Names of the variables, as the contract (R10, R38, R175) or this relay
// (SLUICE_) defines them.
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
	EnvAdmin       = "SLUICE_ADMIN"
	EnvMaxConns    = "SLUICE_MAX_CONNS"
	EnvConnsPerIP  = "SLUICE_MAX_CONNS_PER_IP"
	EnvIngestRate  = "SLUICE_INGEST_RATE"
	EnvIngestBurst = "SLUICE_INGEST_BURST"
	EnvProxies     = "SLUICE_TRUSTED_PROXIES"
	EnvDrain       = "SLUICE_DRAIN"
	EnvLoops       = "SLUICE_LOOPS"
	EnvAccessLog   = "SLUICE_ACCESS_LOG"
	EnvLogFormat   = "SLUICE_LOG_FORMAT"
	EnvLogLevel    = "SLUICE_LOG_LEVEL"
)

// Variable describes one setting for help texts and documents.
type Variable struct {
	Env     string // name in the environment
	Flag    string // name on the command line; "" for a secret
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
		{EnvAdmin, "admin", "127.0.0.1:8788", "host:port of metrics, profiles and readiness, or off"},
		{EnvMaxConns, "max-conns", "0", "open connections; 0 derives it from the descriptor limit"},
		{EnvConnsPerIP, "max-conns-per-ip", "0", "open connections of one client address; 0 sets no cap"},
		{EnvIngestRate, "ingest-rate", "0", "events per second of one client address; 0 sets no limit"},
		{EnvIngestBurst, "ingest-burst", "twice SLUICE_INGEST_RATE", "events at once of one client address"},
		{EnvProxies, "trusted-proxies", "none", "comma list of the proxies whose X-Forwarded-For counts"},
		{EnvDrain, "drain", "0s", "time over which a stop spreads the closes, as 30s or in seconds"},
		{EnvLoops, "loops", "0", "event loops; 0 makes one per core"},
		{EnvLogFormat, "log-format", "text", "text or json"},
		{EnvLogLevel, "log-level", "info", "debug, info, warn or error"},
		{EnvAccessLog, "access-log", "off", "on logs each request"},
	}
}
