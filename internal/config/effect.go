package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-relay/sluice/internal/limit"
)

// ErrNoEffect tells of a setting that another one takes all effect from. It
// stops the start, since whoever set it believes that it protects (C54).
var ErrNoEffect = errors.New("has no effect")

// checkEffect fails for settings that cannot have an effect.
func (c Config) checkEffect(r *reader) {
	refuse := func(env, why string) { r.fail(env, fmt.Errorf("%w: %s", ErrNoEffect, why)) }
	trustsUnix := slices.Contains(c.TrustedProxies, limit.UnixPeer)
	noAddress := "peers on a Unix socket have no address; " + EnvProxies + "=unix takes it from their X-Forwarded-For"
	switch {
	case c.MaxConns > 0 && c.MaxConnsPerIP > c.MaxConns:
		refuse(EnvConnsPerIP, fmt.Sprintf("%d is more than the %d connections of %s", c.MaxConnsPerIP, c.MaxConns, EnvMaxConns))
	case c.MaxConnsPerIP > 0 && c.Unix() && !trustsUnix:
		refuse(EnvConnsPerIP, noAddress)
	case c.IngestRate > 0 && c.Unix() && !trustsUnix:
		refuse(EnvIngestRate, noAddress)
	case c.IngestRate > 0 && c.IngestBurst == 0:
		r.fail(EnvIngestBurst, fmt.Errorf("\"0\" is %w: at least 1 with %s", ErrRange, EnvIngestRate))
	case c.IngestRate == 0 && c.IngestBurst > 0:
		refuse(EnvIngestBurst, EnvIngestRate+" sets no limit")
	case len(c.TrustedProxies) > 0 && c.Unix() && !trustsUnix:
		refuse(EnvProxies, "every peer is on a Unix socket, and unix is not in the list")
	case trustsUnix && !c.Unix():
		refuse(EnvProxies, "unix is in the list, and no peer is on a Unix socket")
	}
}
