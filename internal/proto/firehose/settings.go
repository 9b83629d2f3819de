package firehose

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// Settings are the settings of the contract's section 1, but for the tokens. A
// Surface and a Producer are made from them.
type Settings struct {
	ReplayFrames    int           // FIREHOSE_REPLAY_FRAMES (F29)
	ReplayBytes     int64         // FIREHOSE_REPLAY_BYTES (F29)
	SyncInterval    time.Duration // FIREHOSE_SYNC_INTERVAL_MS (F45)
	FloorMode       FloorMode     // FIREHOSE_SEQ_FLOOR (F26)
	Floor           int64         // of FloorNumber
	Reserve         int64         // FIREHOSE_SEQ_RESERVE (F25)
	MaxConsumers    int           // FIREHOSE_MAX_CONSUMERS
	WriteTimeout    time.Duration // FIREHOSE_WRITE_TIMEOUT_MS
	PingInterval    time.Duration // FIREHOSE_PING_MS (F6)
	MaxFrameBytes   int           // FIREHOSE_MAX_FRAME_BYTES (F17), payload
	Server          string        // FIREHOSE_SERVER_HEADER (F8)
	Upstreams       []string      // FIREHOSE_UPSTREAMS
	PersistInterval time.Duration // FIREHOSE_CURSOR_PERSIST_MS (F63)
	Verify          string        // FIREHOSE_VERIFY: off or structure (F66)
}

// Values of Settings.Verify.
const (
	VerifyOff       = "off"
	VerifyStructure = "structure"
)

// Server fields (F8): other relays refuse to follow one that names itself a
// relay, and ban a source that does so without being one.
const (
	serverLocal    = "sluice"
	serverUpstream = "sluice (atproto-relay)"
)

// DefaultSettings returns the contract's defaults.
func DefaultSettings() Settings {
	return Settings{
		ReplayFrames: 65536, ReplayBytes: 128 << 20,
		SyncInterval: 100 * time.Millisecond,
		Reserve:      65536,
		MaxConsumers: 1000,
		WriteTimeout: 30 * time.Second, PingInterval: 30 * time.Second,
		MaxFrameBytes:   firehose.MaxFrameBytes,
		PersistInterval: 4 * time.Second,
		Verify:          VerifyStructure,
	}
}

// ServerField returns what the Server header field says (F8).
func (s *Settings) ServerField() string {
	switch {
	case s.Server != "":
		return s.Server
	case len(s.Upstreams) > 0:
		return serverUpstream
	}
	return serverLocal
}

// ParseFloor reads FIREHOSE_SEQ_FLOOR: auto, clock or a number (F26).
func ParseFloor(text string) (FloorMode, int64, error) {
	switch text {
	case "", "auto":
		return FloorAuto, 0, nil
	case "clock":
		return FloorClock, 0, nil
	}
	u, err := strconv.ParseUint(text, 10, 63) // digits only, without a sign
	n := int64(u)
	if err != nil || n < 1 || n > MaxNumber {
		return 0, 0, fmt.Errorf("%q is not auto, clock or a number from 1 to %d", text, int64(MaxNumber))
	}
	return FloorNumber, n, nil
}
