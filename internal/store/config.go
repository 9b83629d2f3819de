package store

import (
	"errors"
	"fmt"
	"time"
)

// maxFloor keeps numbers exact as JSON numbers (S29).
const maxFloor = 1 << 53

// withDefaults fills zero fields and checks the rest.
func (c Config) withDefaults() (Config, error) {
	if c.Path == "" {
		return c, errors.New("store: no path")
	}
	for _, f := range []struct {
		name  string
		value *int64
		def   int64
	}{
		{"OwnerBytes", &c.OwnerBytes, DefaultOwnerBytes},
		{"TotalBytes", &c.TotalBytes, DefaultTotalBytes},
		{"Owners", &c.Owners, DefaultOwners},
		{"PullBytes", &c.PullBytes, DefaultPullBytes},
		{"QueueBytes", &c.QueueBytes, 320 << 20},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < Unlimited {
			return c, fmt.Errorf("store: %s is negative", f.name)
		}
	}
	if c.OwnerBytes < 0 || c.PullBytes < 0 || c.QueueBytes < 0 || c.QueueCount < 0 || c.Readers < 0 {
		return c, errors.New("store: a limit that cannot be unlimited is negative")
	}
	if c.QueueCount == 0 {
		c.QueueCount = 4096
	}
	if c.GroupCount <= 0 {
		c.GroupCount = groupCount
	}
	if c.Readers == 0 {
		c.Readers = 4
	}
	if c.CompactionInterval == 0 {
		c.CompactionInterval = DefaultCompactionInterval
	}
	if c.BusyTimeout <= 0 {
		c.BusyTimeout = DefaultBusyTimeout
	}
	if c.Floor.Number < 0 || c.Floor.Number > maxFloor || c.Floor.Mode > FloorFixed {
		return c, fmt.Errorf("store: floor %d is not within 0 and 2^53", c.Floor.Number)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	switch c.Synchronous {
	case "":
		c.Synchronous = "FULL"
	case "OFF", "NORMAL", "FULL", "EXTRA":
	default:
		return c, fmt.Errorf("store: synchronous %q is not OFF, NORMAL, FULL or EXTRA", c.Synchronous)
	}
	return c, nil
}
