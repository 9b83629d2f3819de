package aep

import (
	"sync"
	"time"
)

// linesPerSecond bounds the log lines that clients can cause.
const linesPerSecond = 20

// lineLimit lets at most linesPerSecond lines through in each second. Any
// goroutine.
type lineLimit struct {
	mu sync.Mutex
	// Guarded by mu.
	second  int64
	count   int
	skipped int64
}

// allow tells whether a line may be written at now, and how many were left out
// since the last one.
func (l *lineLimit) allow(now time.Time) (skipped int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second {
		l.second, l.count = s, 0
	}
	if l.count >= linesPerSecond {
		l.skipped++
		return 0, false
	}
	l.count++
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}
