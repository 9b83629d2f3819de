//go:build unix

package aep

import (
	"errors"
	"syscall"
	"testing"
)

// TestScanTooLong: offsets stay in 32 bits. The text is never touched, so it
// is mapped without memory behind it.
func TestScanTooLong(t *testing.T) {
	text, err := syscall.Mmap(-1, 0, maxTextBytes+1, syscall.PROT_READ,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skipf("no address space: %v", err)
	}
	defer func() {
		if err := syscall.Munmap(text); err != nil {
			t.Error(err)
		}
	}()
	var s Scanner
	var broken *SyntaxError
	if err := s.Scan(text); !errors.As(err, &broken) || broken.Reason != "text is too long" {
		t.Errorf("got %v", err)
	}
}
