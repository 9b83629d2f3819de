package autobahn

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/echo"
)

// limit is the largest message that the server takes.
const limit = echo.DefaultLimitBytes

// largest is the largest message that is sent.
func largest() int {
	if testing.Short() {
		return 1 << 20
	}
	return 16 << 20
}

// content is a message of size octets that is text for opText and not UTF-8 for
// opBinary.
func content(op byte, size int) string {
	if op == opText {
		const unit = "BAsd7&jh23é"
		return repeat(unit, size-size%len(unit)) + repeat(".", size%len(unit))
	}
	return repeat("\xc0\x00\xff\xfe\x80", size)
}

// TestGroup9Messages: messages up to 16 MiB in one frame.
func TestGroup9Messages(t *testing.T) {
	for _, op := range []byte{opText, opBinary} {
		for size := 64 << 10; size <= largest(); size *= 4 {
			roundTrip(t, fmt.Sprintf("op %d, %d octets", op, size), op, size, size, 0)
		}
	}
}

// TestGroup9Fragmented: 4 MiB in fragments of 64 octets to all of it.
func TestGroup9Fragmented(t *testing.T) {
	size := min(4<<20, largest())
	for _, op := range []byte{opText, opBinary} {
		for fragment := 64; fragment <= size; fragment *= 4 {
			roundTrip(t, fmt.Sprintf("op %d, fragments of %d", op, fragment), op, size, fragment, 0)
		}
	}
}

// TestGroup9Chopped: 1 MiB in writes of 64 to 2048 octets.
func TestGroup9Chopped(t *testing.T) {
	for _, op := range []byte{opText, opBinary} {
		for chop := 64; chop <= 2048; chop *= 2 {
			roundTrip(t, fmt.Sprintf("op %d, writes of %d", op, chop), op, 1<<20, 1<<20, chop)
		}
	}
}

// TestGroup9Limit: a message as large as the limit comes back, one octet more is
// refused with 1009, in one frame and in fragments, before it has come.
func TestGroup9Limit(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 16 MiB several times")
	}
	roundTrip(t, "whole", opBinary, limit, limit, 0)
	roundTrip(t, "fragments", opBinary, limit, 1<<16+1, 0)
	c := dial(t, addr)
	go c.send(first(opBinary, content(opBinary, limit)) + more("x"))
	c.wantFailed(t, 1009)
}

// roundTrip sends one message and wants it back.
func roundTrip(t *testing.T, name string, op byte, size, fragment, chop int) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		m := messageOf(op, content(op, size))
		in := fragments(op, m.data, fragment)
		c := dial(t, addr)
		began := time.Now()
		go c.chopped(in, chop)
		c.wantItems(t, m)
		t.Logf("%d octets in %v", len(m.data), time.Since(began).Round(time.Microsecond))
		c.wantClosed(t)
	})
}

// TestGroup9RoundTrips: thousands of messages, one at a time, and the time that
// one takes.
func TestGroup9RoundTrips(t *testing.T) {
	count := 1000
	if testing.Short() {
		count = 200
	}
	for _, op := range []byte{opText, opBinary} {
		for _, size := range []int{0, 16, 64, 256, 1024, 4096, 16384} {
			t.Run(fmt.Sprintf("op %d, %d octets", op, size), func(t *testing.T) {
				m := messageOf(op, content(op, size))
				in := whole(op, m.data)
				c := dial(t, addr)
				times := make([]time.Duration, count)
				for i := range times {
					began := time.Now()
					c.send(in)
					c.wantItems(t, m)
					times[i] = time.Since(began)
				}
				slices.Sort(times)
				t.Logf("p50 %v, p99 %v, max %v", times[count/2], times[count*99/100], times[count-1])
				c.wantClosed(t)
			})
		}
	}
}

// TestGroup9Flood: 100,000 messages in flight at once come back in order.
func TestGroup9Flood(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 10_000
	}
	c := dial(t, addr)
	go func() {
		var batch []byte
		for i := range count {
			if batch = append(batch, whole(opText, fmt.Sprintf("message %d", i))...); len(batch) > 8000 {
				c.send(string(batch))
				batch = batch[:0]
			}
		}
		c.send(string(batch))
	}()
	for i := range count {
		c.wantItems(t, text(fmt.Sprintf("message %d", i)))
	}
	c.wantClosed(t)
}

// TestGroup10AutoFragments: what a client does that cuts its messages by itself,
// with pings in between.
func TestGroup10AutoFragments(t *testing.T) {
	for _, op := range []byte{opText, opBinary} {
		for _, fragment := range []int{1, 125, 126, 1300, 65535} {
			roundTrip(t, fmt.Sprintf("op %d, fragments of %d", op, fragment), op, 64<<10, fragment, 0)
			roundTrip(t, fmt.Sprintf("op %d, fragments of %d, chopped", op, fragment), op, 64<<10, fragment, 997)
		}
	}
}
