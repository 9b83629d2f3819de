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
	EnvSurfaces    = "SLUICE_SURFACES"
	EnvData        = "SLUICE_DATA"
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

// Names of the sync relay's variables, as its contract defines them (section 1).
const (
	EnvMaxOwnerBytes    = "MAX_OWNER_BYTES"
	EnvMaxEventsPerPush = "MAX_EVENTS_PER_PUSH"
	EnvMaxEventBytes    = "MAX_EVENT_BYTES"
	EnvMaxBlobBytes     = "MAX_BLOB_BYTES"
	EnvMaxEventsPerPull = "MAX_EVENTS_PER_PULL"
	EnvDefaultPerPull   = "DEFAULT_EVENTS_PER_PULL"
	EnvMaxPullBytes     = "MAX_PULL_BYTES"
	EnvMaxStreams       = "MAX_STREAMS_PER_COMPACT"
	EnvMaxTotalBytes    = "MAX_TOTAL_BYTES"
	EnvMaxOwners        = "MAX_OWNERS"
	EnvWritesDisabled   = "WRITES_DISABLED"
	EnvCompaction       = "COMPACTION_INTERVAL_MS"
	EnvBasePaths        = "SYNC_BASE_PATHS"
	EnvSeqFloor         = "SEQ_FLOOR"
	EnvSynchronous      = "SQLITE_SYNCHRONOUS"
	EnvSyncAdmin        = "SYNC_ADMIN_TOKEN" // the name of the variable, not a token
)

// Names of the firehose's variables, as its contract defines them (section 1).
const (
	EnvReplayFrames  = "FIREHOSE_REPLAY_FRAMES"
	EnvReplayBytes   = "FIREHOSE_REPLAY_BYTES"
	EnvSyncInterval  = "FIREHOSE_SYNC_INTERVAL_MS"
	EnvFirehoseFloor = "FIREHOSE_SEQ_FLOOR"
	EnvSeqReserve    = "FIREHOSE_SEQ_RESERVE"
	EnvMaxConsumers  = "FIREHOSE_MAX_CONSUMERS"
	EnvWriteTimeout  = "FIREHOSE_WRITE_TIMEOUT_MS"
	EnvPing          = "FIREHOSE_PING_MS"
	EnvMaxFrameBytes = "FIREHOSE_MAX_FRAME_BYTES"
	EnvServerHeader  = "FIREHOSE_SERVER_HEADER"
	EnvPublishToken  = "FIREHOSE_PUBLISH_TOKEN" // the name of the variable, not a token
	EnvUpstreams     = "FIREHOSE_UPSTREAMS"
	EnvCursorPersist = "FIREHOSE_CURSOR_PERSIST_MS"
	EnvVerify        = "FIREHOSE_VERIFY"
	EnvFirehoseAdmin = "FIREHOSE_ADMIN_TOKEN" // the name of the variable, not a token
)

// Names of the aep-0.1 binding's variables, as its contract defines them (section
// 1).
const (
	EnvAEPWSPath        = "AEPWS_PATH"
	EnvAEPWSToken       = "AEPWS_TOKEN" // the name of the variable, not a token
	EnvAEPWSOpen        = "AEPWS_ALLOW_OPEN"
	EnvAEPWSMessage     = "AEPWS_MAX_MESSAGE_BYTES"
	EnvAEPWSHeartbeat   = "AEPWS_HEARTBEAT_MS"
	EnvAEPWSOpenTimeout = "AEPWS_OPEN_TIMEOUT_MS"
	EnvAEPWSConns       = "AEPWS_MAX_CONNECTIONS"
	EnvRetentionEvents  = "AEPWS_RETENTION_EVENTS"
	EnvRetentionAge     = "AEPWS_RETENTION_MS"
	EnvRetentionBytes   = "AEPWS_RETENTION_BYTES"
	EnvAckTimeout       = "AEPWS_ACK_TIMEOUT_MS"
	EnvMaxAttempts      = "AEPWS_MAX_ATTEMPTS"
	EnvBackoff          = "AEPWS_BACKOFF_MS"
	EnvMultiplier       = "AEPWS_BACKOFF_MULTIPLIER"
	EnvMaxBackoff       = "AEPWS_BACKOFF_MAX_MS"
	EnvStrictTypes      = "AEPWS_STRICT_TYPES"
	EnvExtraTypes       = "AEPWS_EXTRA_TYPES"
	EnvFragments        = "AEPWS_FRAGMENTS"
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
		{EnvSurfaces, "surfaces", "all", "comma list of what is served: " + strings.Join(surfaces, ", ")},
		{EnvData, "data", "sluice-data", "directory of what is stored, made when something is"},
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
		{EnvMaxOwnerBytes, "max-owner-bytes", "1073741824", "sync: bytes stored for one owner"},
		{EnvMaxEventsPerPush, "max-events-per-push", "1000", "sync: events in one push"},
		{EnvMaxEventBytes, "max-event-bytes", "262144", "sync: bytes of one event"},
		{EnvMaxBlobBytes, "max-blob-bytes", "1049600", "sync: bytes of one chunk of a blob"},
		{EnvMaxEventsPerPull, "max-events-per-pull", "1000", "sync: events in one page"},
		{EnvDefaultPerPull, "default-events-per-pull", "500", "sync: events in a page whose limit is not said"},
		{EnvMaxPullBytes, "max-pull-bytes", "8388608", "sync: a page ends past these bytes"},
		{EnvMaxStreams, "max-streams-per-compact", "1000", "sync: streams in one compaction request"},
		{EnvMaxTotalBytes, "max-total-bytes", "10737418240", "sync: bytes stored for all owners; 0 sets no bound"},
		{EnvMaxOwners, "max-owners", "10000", "sync: owners, closed ones too; 0 sets no bound"},
		{EnvWritesDisabled, "writes-disabled", "0", "sync: 1 refuses pushes and uploads"},
		{EnvCompaction, "compaction-interval-ms", "21600000", "sync: milliseconds between compactions; 0 turns them off"},
		{EnvBasePaths, "sync-base-paths", "none", "sync: comma list of path prefixes that are served besides the root, as /v2"},
		{EnvSeqFloor, "seq-floor", "auto", "sync: auto, clock, or the least number of an event"},
		{EnvSynchronous, "sqlite-synchronous", "FULL", "sync: OFF, NORMAL, FULL or EXTRA; below FULL a power cut loses acknowledged events"},
		{EnvSyncAdmin, "", "none", "sync: bearer token of POST /v1/admin/compact; without one there is no such route"},
		{EnvReplayFrames, "firehose-replay-frames", "65536", "firehose: frames held for consumers that come back"},
		{EnvReplayBytes, "firehose-replay-bytes", "134217728", "firehose: bytes of these; twice as much may be in use"},
		{EnvSyncInterval, "firehose-sync-interval-ms", "100", "firehose: milliseconds that a commit of a producer in the same program may be held"},
		{EnvFirehoseFloor, "firehose-seq-floor", "auto", "firehose: auto, clock, or the least number of a frame"},
		{EnvSeqReserve, "firehose-seq-reserve", "65536", "firehose: numbers reserved with one durable write"},
		{EnvMaxConsumers, "firehose-max-consumers", "1000", "firehose: consumers connected at once"},
		{EnvWriteTimeout, "firehose-write-timeout-ms", "30000", "firehose: milliseconds that a consumer may take nothing of what it is owed"},
		{EnvPing, "firehose-ping-ms", "30000", "firehose: milliseconds without a write before a ping"},
		{EnvMaxFrameBytes, "firehose-max-frame-bytes", "5000000", "firehose: bytes of one frame, in and out"},
		{EnvServerHeader, "firehose-server-header", "by mode", "firehose: value of the Server header field"},
		{EnvPublishToken, "", "none", "firehose: bearer token of POST /firehose/publish; without one there is no such route"},
		{EnvUpstreams, "firehose-upstreams", "none", "firehose: comma list of the hosts that are followed: host, wss://host or ws://localhost:port"},
		{EnvCursorPersist, "firehose-cursor-persist-ms", "4000", "firehose: milliseconds between two writes of the cursors at these hosts"},
		{EnvVerify, "firehose-verify", "structure", "firehose: structure or off, how frames of these hosts are checked"},
		{EnvFirehoseAdmin, "", "none", "firehose: bearer token of /admin/firehose; without one there are no such routes"},
		{EnvAEPWSPath, "aepws-path", "/aep", "aepws: path of the WebSocket"},
		{EnvAEPWSToken, "", "none", "aepws: bearer token of its sessions; without one it is served on loopback only"},
		{EnvAEPWSOpen, "aepws-allow-open", "0", "aepws: 1 serves it without a token beyond loopback too"},
		{EnvAEPWSMessage, "aepws-max-message-bytes", "1048576", "aepws: bytes of one message, 1024 to 4194304"},
		{EnvAEPWSHeartbeat, "aepws-heartbeat-ms", "30000", "aepws: milliseconds between pings and heartbeats, 1000 to 300000; 0 sends none"},
		{EnvAEPWSOpenTimeout, "aepws-open-timeout-ms", "10000", "aepws: milliseconds that a socket may take to open its session"},
		{EnvAEPWSConns, "aepws-max-connections", "10000", "aepws: sockets open at once"},
		{EnvRetentionEvents, "aepws-retention-events", "1000000", "aepws: events kept for replay"},
		{EnvRetentionAge, "aepws-retention-ms", "86400000", "aepws: milliseconds that an event is kept"},
		{EnvRetentionBytes, "aepws-retention-bytes", "1073741824", "aepws: bytes of the events kept"},
		{EnvAckTimeout, "aepws-ack-timeout-ms", "30000", "aepws: milliseconds that a subscriber may take to acknowledge an event"},
		{EnvMaxAttempts, "aepws-max-attempts", "3", "aepws: times that an event is sent before it is a dead letter, 1 to 10"},
		{EnvBackoff, "aepws-backoff-ms", "1000", "aepws: milliseconds to wait after the ack timeout, before an event is sent again"},
		{EnvMultiplier, "aepws-backoff-multiplier", "2", "aepws: by which that wait grows with each attempt"},
		{EnvMaxBackoff, "aepws-backoff-max-ms", "30000", "aepws: milliseconds of the longest such wait"},
		{EnvStrictTypes, "aepws-strict-types", "0", "aepws: 1 takes registered event types only"},
		{EnvExtraTypes, "aepws-extra-types", "none", "aepws: comma list of types that are registered besides"},
		{EnvFragments, "aepws-fragments", "refuse", "aepws: refuse or accept, of messages in fragments"},
	}
}
