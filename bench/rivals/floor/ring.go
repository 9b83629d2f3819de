package floor

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUringUnavailable says that the kernel, its settings or a seccomp profile
// do not offer io_uring with what the floor needs.
var ErrUringUnavailable = errors.New("io_uring is not available")

const (
	// ringEntries is how many SENDs one io_uring_enter(2) takes.
	ringEntries = 256

	// From linux/io_uring.h.
	setupCoopTaskrun  = 1 << 8
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	enterGetEvents    = 1 << 0
	opNop             = 0
	opSend            = 26
	offsetSQ          = 0
	offsetCQ          = 0x8000000
	offsetSQEs        = 0x10000000
)

// submission is struct io_uring_sqe, 64 bytes.
type submission struct {
	opcode   uint8
	flags    uint8
	priority uint16
	fd       int32
	offset   uint64
	address  uint64
	length   uint32
	msgFlags uint32
	userData uint64
	_        [3]uint64
}

// completion is struct io_uring_cqe, 16 bytes.
type completion struct {
	userData uint64
	result   int32
	flags    uint32
}

// setupParams is struct io_uring_params, 120 bytes.
type setupParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle uint32
	features, wqFD                                         uint32
	_                                                      [3]uint32
	sq                                                     sqOffsets
	cq                                                     cqOffsets
}

type sqOffsets struct {
	head, tail, mask, entries, flags, dropped, array, _ uint32
	_                                                   uint64
}

type cqOffsets struct {
	head, tail, mask, entries, overflow, cqes, flags, _ uint32
	_                                                   uint64
}

// ring is one io_uring. Only the thread that made it may use it.
type ring struct {
	fd             int
	maps           [][]byte
	sqTail         *uint32
	sqMask         uint32
	cqHead, cqTail *uint32
	cqMask         uint32
	submissions    []submission
	completions    []completion
	filled         uint32 // submissions prepared since the last flush
}

// newRing makes a ring and proves by one NOP that it works. Every error is an
// ErrUringUnavailable.
func newRing() (*ring, error) {
	p := setupParams{flags: setupCoopTaskrun | setupSingleIssuer | setupDeferTaskrun}
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, ringEntries,
		uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("%w: io_uring_setup: %w", ErrUringUnavailable, errno)
	}
	r := &ring{fd: int(fd)}
	err := r.mapAll(&p)
	if err == nil {
		err = r.probe()
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("%w: %w", ErrUringUnavailable, err)
	}
	return r, nil
}

// mapAll maps the two queues and the submissions.
func (r *ring) mapAll(p *setupParams) error {
	sq, err := r.mapOne(offsetSQ, int(p.sq.array+p.sqEntries*4))
	if err != nil {
		return err
	}
	cq, err := r.mapOne(offsetCQ, int(p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(completion{}))))
	if err != nil {
		return err
	}
	entries, err := r.mapOne(offsetSQEs, int(p.sqEntries)*int(unsafe.Sizeof(submission{})))
	if err != nil {
		return err
	}
	r.sqTail, r.sqMask = word(sq, p.sq.tail), *word(sq, p.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = word(cq, p.cq.head), word(cq, p.cq.tail), *word(cq, p.cq.mask)
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&entries[0])), p.sqEntries)
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&cq[p.cq.cqes])), p.cqEntries)
	// Each place of the queue stands for the submission of the same place.
	for i, places := 0, unsafe.Slice(word(sq, p.sq.array), p.sqEntries); i < len(places); i++ {
		places[i] = uint32(i)
	}
	return nil
}

func (r *ring) mapOne(offset int64, size int) ([]byte, error) {
	b, err := unix.Mmap(r.fd, offset, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("mmap of the ring: %w", err)
	}
	r.maps = append(r.maps, b)
	return b, nil
}

// word is the 32-bit word at an offset that the kernel gave.
func word(b []byte, offset uint32) *uint32 {
	return (*uint32)(unsafe.Pointer(&b[offset]))
}

// probe runs a NOP, since a profile may allow the setup but not the entering.
func (r *ring) probe() error {
	r.prepare(submission{opcode: opNop})
	return r.flush(func(uint64, int32) {})
}

// prepare adds a submission. At most ringEntries fit before a flush.
func (r *ring) prepare(s submission) {
	r.submissions[(*r.sqTail+r.filled)&r.sqMask] = s
	r.filled++
}

// flush submits what is prepared, waits for all of it and reports each result
// in the order of completion. After an error the ring is of no use.
func (r *ring) flush(done func(userData uint64, result int32)) error {
	open, left := r.filled, r.filled
	r.filled = 0
	atomic.StoreUint32(r.sqTail, *r.sqTail+open)
	for open > 0 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd),
			uintptr(left), uintptr(open), enterGetEvents, 0, 0)
		switch errno {
		case 0:
			left -= uint32(n)
		case unix.EINTR, unix.EAGAIN, unix.EBUSY:
		default:
			return fmt.Errorf("io_uring_enter: %w", errno)
		}
		head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
		for ; head != tail; head++ {
			c := &r.completions[head&r.cqMask]
			done(c.userData, c.result)
			open--
		}
		atomic.StoreUint32(r.cqHead, head)
	}
	return nil
}

// close frees the ring. Nothing is in flight then, since flush waits.
func (r *ring) close() {
	for _, b := range r.maps {
		_ = unix.Munmap(b)
	}
	_ = unix.Close(r.fd)
}
