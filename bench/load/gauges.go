//go:build linux

package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time, user and system, that all threads of a process
// have used since it began, in the kernel's resolution of 1 ns. Any goroutine.
func CPUTime(pid int) (time.Duration, error) {
	// The id of a process's CPU clock, as clock_getcpuclockid(3) makes it: the
	// complement of the pid, and 2 for "scheduler time".
	const cpuClockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|cpuClockSched, &ts); err != nil {
		return 0, fmt.Errorf("load: CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// RSSBytes returns the resident memory of a process (VmRSS of proc(5)). Any
// goroutine.
func RSSBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	for line := range bytes.Lines(text) {
		value, found := bytes.CutPrefix(line, []byte("VmRSS:"))
		if !found {
			continue
		}
		number, isKB := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB"))
		kB, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || !isKB {
			break
		}
		return kB << 10, nil
	}
	return 0, fmt.Errorf("load: no VmRSS of process %d", pid)
}
