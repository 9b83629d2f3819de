package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestJitter(t *testing.T) {
	const first, longest = time.Second, 30 * time.Second
	for tries := range 100 {
		full := min(first<<min(tries, 10), longest)
		for range 20 {
			if d := Jitter(tries, first, longest); d < full/2 || d > full {
				t.Errorf("try %d waits %v, want %v to %v", tries, d, full/2, full)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "86400": MaxRetryAfter, "99999999999999999999": MaxRetryAfter,
		"Thu, 01 Jan 2026 00:00:09 GMT": 9 * time.Second, "Thu, 01 Jan 2025 00:00:09 GMT": 0,
		"Fri, 02 Jan 2026 00:00:00 GMT": MaxRetryAfter,
	} {
		if got := RetryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestPause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := Pause(ctx, time.Microsecond); err != nil {
		t.Error(err)
	}
	cancel()
	if err := Pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
