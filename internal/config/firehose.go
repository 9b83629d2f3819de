package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	proto "github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/upstream"
)

// Bounds of the firehose's settings. A smaller frame than the least could not
// hold a commit's fields, a longer interval is a mistake in the unit.
const (
	minFrameBytes  = 1 << 10
	maxMillis      = 24 * 60 * 60 * 1000
	maxReserve     = 1 << 40
	maxUpstreams   = 1000
	maxServerBytes = 200
	maxTokenBytes  = 512
)

var (
	errServerField = errors.New("is not a header value")
	errToken       = errors.New("is not up to 512 visible ASCII characters")
	errUpstreams   = errors.New("names more than 1,000 hosts")
)

// firehose reads the settings of the firehose's contract, section 1. The tokens
// are apart, so that no formatting of the rest shows them.
func (r *reader) firehose() (c proto.Settings, publish, admin Secret) {
	c = proto.DefaultSettings()
	millis := func(env string, value time.Duration) time.Duration {
		return time.Duration(r.number(env, int(value.Milliseconds()), 1, maxMillis)) * time.Millisecond
	}
	c.ReplayFrames = r.number(EnvReplayFrames, c.ReplayFrames, 1, math.MaxInt32)
	c.ReplayBytes = r.bytes(EnvReplayBytes, c.ReplayBytes, 1)
	c.SyncInterval = millis(EnvSyncInterval, c.SyncInterval)
	mode, floor, err := proto.ParseFloor(strings.ToLower(r.text(EnvFirehoseFloor)))
	if err != nil {
		r.fail(EnvFirehoseFloor, err)
	}
	c.FloorMode, c.Floor = mode, floor
	c.Reserve = int64(r.number(EnvSeqReserve, int(c.Reserve), 1, maxReserve))
	c.MaxConsumers = r.number(EnvMaxConsumers, c.MaxConsumers, 1, math.MaxInt32)
	c.WriteTimeout = millis(EnvWriteTimeout, c.WriteTimeout)
	c.PingInterval = millis(EnvPing, c.PingInterval)
	c.MaxFrameBytes = r.number(EnvMaxFrameBytes, c.MaxFrameBytes, minFrameBytes, firehose.MaxFrameBytes)
	c.Server = r.text(EnvServerHeader)
	if len(c.Server) > maxServerBytes || strings.ContainsFunc(c.Server, func(c rune) bool { return c < ' ' || c > '~' }) {
		r.fail(EnvServerHeader, errServerField)
	}
	c.Upstreams = r.upstreams(EnvUpstreams)
	c.PersistInterval = millis(EnvCursorPersist, c.PersistInterval)
	c.Verify = r.choice(EnvVerify, proto.VerifyStructure, proto.VerifyOff)
	return c, r.bearer(EnvPublishToken), r.bearer(EnvFirehoseAdmin)
}

// bearer reads a token that can stand in an Authorization field.
func (r *reader) bearer(env string) Secret {
	token := r.text(env)
	if len(token) > maxTokenBytes || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		r.fail(env, errToken)
	}
	return NewSecret(token)
}

// upstreams reads a list of hosts, each once (F54).
func (r *reader) upstreams(env string) (list []string) {
	s := r.text(env)
	if s == "" {
		return nil
	}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		host, _, err := upstream.ParseUpstream(word)
		if err != nil {
			r.fail(env, err)
			return nil
		}
		if !seen[host] {
			seen[host] = true
			list = append(list, word)
		}
	}
	if len(list) > maxUpstreams {
		r.fail(env, errUpstreams)
	}
	return list
}

// firehoseValues returns the values of the firehose's variables in the order of
// Variables.
func (c Config) firehoseValues() []string {
	s := &c.Firehose
	floor := strconv.FormatInt(s.Floor, 10)
	switch s.FloorMode {
	case proto.FloorAuto:
		floor = "auto"
	case proto.FloorClock:
		floor = "clock"
	}
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return []string{
		strconv.Itoa(s.ReplayFrames),
		strconv.FormatInt(s.ReplayBytes, 10),
		millis(s.SyncInterval),
		floor,
		strconv.FormatInt(s.Reserve, 10),
		strconv.Itoa(s.MaxConsumers),
		millis(s.WriteTimeout),
		millis(s.PingInterval),
		strconv.Itoa(s.MaxFrameBytes),
		s.Server,
		c.FirehosePublishToken.String(),
		strings.Join(s.Upstreams, ","),
		millis(s.PersistInterval),
		s.Verify,
		c.FirehoseAdminToken.String(),
	}
}
