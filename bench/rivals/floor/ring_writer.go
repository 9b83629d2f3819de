package floor

import (
	"log"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringWriter writes by SENDs, ringEntries of them an io_uring_enter(2). Nothing
// waits in the kernel: MSG_DONTWAIT makes a full socket answer at once, and the
// rest goes to the backlog as with write(2).
type ringWriter struct {
	thread *thread
	ring   *ring
	sent   [ringEntries]*consumer // in flight, by user data
}

func (w *ringWriter) all(group []*consumer, frames []byte) {
	count := 0
	for _, c := range group {
		if c.size > 0 {
			w.thread.owe(c, frames)
			continue
		}
		w.sent[count] = c
		w.ring.prepare(submission{
			opcode:   opSend,
			fd:       int32(c.fd),
			address:  uint64(uintptr(unsafe.Pointer(unsafe.SliceData(frames)))),
			length:   uint32(len(frames)),
			msgFlags: unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT,
			userData: uint64(count),
		})
		if count++; count == ringEntries {
			w.flush(count, frames)
			count = 0
		}
	}
	if count > 0 {
		w.flush(count, frames)
	}
}

// flush sends to the first count of w.sent and takes the outcomes. frames stay
// alive to the end of it, and Go's heap does not move.
func (w *ringWriter) flush(count int, frames []byte) {
	err := w.ring.flush(func(userData uint64, result int32) {
		n := int(result)
		if n == len(frames) {
			return
		}
		var errno syscall.Errno
		if n < 0 {
			n, errno = 0, syscall.Errno(-result)
		}
		w.thread.short(w.sent[userData], frames, n, errno)
	})
	runtime.KeepAlive(frames)
	if err != nil {
		// A ring that worked at the start has no reason to fail; what was sent
		// is not known, so that no connection can go on untorn.
		log.Printf("floor: %v", err)
		for _, c := range w.sent[:count] {
			w.thread.breakOff(c)
		}
	}
}
