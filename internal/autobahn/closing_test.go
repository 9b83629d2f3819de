package autobahn

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/echo"
)

// TestGroup7Close: a Close is answered with a Close of the same code, after it
// nothing counts, and the server ends the connection.
func TestGroup7Close(t *testing.T) {
	normal := []item{closing(1000)}
	for _, d := range []dialogue{
		{"after a message", []string{whole(opText, "Hello"), closeFrame(1000, "")}, []item{text("Hello"), normal[0]}, false},
		{"two", []string{closeFrame(1000, ""), closeFrame(1001, "")}, normal, true},
		{"then ping", []string{closeFrame(1000, ""), ping("never")}, normal, true},
		{"then message", []string{closeFrame(1000, ""), whole(opText, "never")}, normal, true},
		{"then a broken frame", []string{closeFrame(1000, ""), frame(0xff, "never")}, normal, true},
		{"then much", []string{closeFrame(1000, ""), whole(opText, repeat("never ", 256<<10))}, normal, true},
		{"inside a message", []string{first(opText, "Hello"), closeFrame(1000, ""), last("never")}, normal, true},
		{"empty", []string{closeFrame(0, "")}, []item{closing(0)}, false},
		{"one octet", []string{whole(opClose, "a")}, []item{closing(1002)}, false},
		{"reason", []string{closeFrame(1000, "Hello World!")}, normal, false},
		{"reason of 123 octets", []string{closeFrame(1000, repeat("*", 123))}, normal, false},
		{"reason with all widths", []string{closeFrame(1000, "aµ€𐍈")}, normal, false},
		{"reason of 124 octets", []string{closeFrame(1000, repeat("*", 124))}, []item{closing(1002)}, false},
		{"reason of 65536 octets", []string{closeFrame(1000, repeat("*", 65536))}, []item{closing(1002)}, true},
		{
			"reason not UTF-8",
			[]string{closeFrame(1000, "κόσμε\xed\xa0\x80edited")},
			[]item{closing(1007)},
			false,
		},
		{"reason cut off", []string{closeFrame(1000, "κόσμ\xce")}, []item{closing(1007)}, false},
		{"bad code and bad reason", []string{closeFrame(1005, "\xff")}, []item{closing(1002)}, false},
	} {
		play(t, d)
	}
}

// TestGroup7Codes: the codes that may be sent come back, each other number is a
// fault (RFC 6455 section 7.4).
func TestGroup7Codes(t *testing.T) {
	codes := []int{
		1, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1016,
		1100, 1999, 2000, 2999, 3000, 3999, 4000, 4999, 5000, 32768, 65535,
	}
	for _, code := range codes {
		want := closing(code)
		if !mayBeSent(code) {
			want = closing(1002)
		}
		for _, reason := range []string{"", "reason"} {
			play(t, dialogue{fmt.Sprintf("%d %s", code, reason), []string{closeFrame(code, reason)}, []item{want}, false})
		}
	}
	play(t, dialogue{"0", []string{whole(opClose, "\x00\x00")}, []item{closing(1002)}, false})
}

// TestGroup7BehindMessage: a message of 256 KiB, a Close and a ping in one write:
// the echo may be left out or come whole, then the Close comes, and no pong.
func TestGroup7BehindMessage(t *testing.T) {
	message := repeat("BAsd7&jh23", 256<<10)
	for _, op := range []byte{opText, opBinary} {
		c := dial(t, addr)
		go c.send(whole(op, message) + closeFrame(1000, "") + ping("never"))
		got, err := c.items(2)
		if n := len(got); n == 2 && got[0] == messageOf(op, message) {
			got = got[1:]
		}
		if err != nil || !equalItems(got, []item{closing(1000)}) {
			t.Errorf("got %v (%v)", got, err)
		}
	}
}

// TestGroup7ServerCloses: the server ends the TCP connection in time (V4), and
// gives its end of it up also if the client never does: at once after a closing
// handshake, else after it has given the client time to read why.
func TestGroup7ServerCloses(t *testing.T) {
	s, err := echo.New(echo.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	// end returns how long the server took to end a connection, and to forget
	// it if that is to be at once.
	end := func(code int, in string, forget bool) time.Duration {
		c := dial(t, s.Addr())
		c.send(in)
		c.wantItems(t, closing(code))
		began := time.Now()
		if err := c.ended(); err != nil {
			t.Errorf("%d: %v", code, err)
		}
		if forget && !eventually(patience, func() bool { return s.Conns() == 0 }) {
			t.Errorf("%d: the connection is still open", code)
		}
		return time.Since(began)
	}
	for _, f := range []struct {
		code int
		in   string
	}{
		{1000, closeFrame(1000, "")},
		{0, closeFrame(0, "")},
		{1002, last("orphan")},
		{1007, whole(opText, "\xff")},
		{1009, "\x82\xff\x7f\x00\x00\x00\x00\x00\x00\x00"},
	} {
		fastest := patience
		for tries := 0; tries < 10 && fastest > dropTime; tries++ { // a busy machine is no fault
			fastest = min(fastest, end(f.code, f.in, f.code <= 1000))
		}
		if fastest > dropTime {
			t.Errorf("%d: the server took %v to end the connection, want %v", f.code, fastest, dropTime)
		}
	}
	if !eventually(patience, func() bool { return s.Conns() == 0 }) {
		t.Errorf("%d connections are open whose clients never close", s.Conns())
	}
}
