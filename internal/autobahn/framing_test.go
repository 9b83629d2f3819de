package autobahn

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// TestGroup1Framing: messages of each form of the length come back as they are,
// however they are chopped.
func TestGroup1Framing(t *testing.T) {
	for _, op := range []byte{opText, opBinary} {
		for _, size := range []int{0, 1, 125, 126, 127, 128, 65534, 65535, 65536, 65537} {
			message := messageOf(op, repeat("*!- ", size))
			if op == opBinary {
				message.data = repeat("\xfe\x00\xff\x80", size)
			}
			t.Run(fmt.Sprintf("%.6v of %d", message, size), func(t *testing.T) {
				c := dial(t, addr)
				in := whole(op, message.data)
				for _, chop := range chops(len(in)) {
					c.chopped(in, chop)
					c.wantItems(t, message)
				}
				c.wantClosed(t)
			})
		}
	}
}

// chops are the sizes of pieces that a frame of n octets is sent in: all for a
// short one.
func chops(n int) []int {
	if n > 1000 {
		list := []int{0, 2, 13, 997, 1300, 4096, n - 1}
		if !testing.Short() {
			list = append(list, 1)
		}
		return list
	}
	list := make([]int, n+1)
	for i := range list {
		list[i] = i
	}
	return list
}

// TestGroup1Pipelined: many messages in one write come back in order.
func TestGroup1Pipelined(t *testing.T) {
	var d dialogue
	d.name = "100 messages"
	for i := range 100 {
		m := text(fmt.Sprint("message ", i))
		if i%3 == 0 {
			m = binaryOf(fmt.Sprint("\x80\xff ", i))
		}
		d.send = append(d.send, whole(m.op, m.data))
		d.want = append(d.want, m)
	}
	play(t, d)
}

// TestGroup1Faults: a length that is not minimal or has its highest bit set, a
// frame without a mask and one over the limit fail the connection as soon as
// the header is there (RFC 6455 sections 5.1, 5.2 and 10.4).
func TestGroup1Faults(t *testing.T) {
	length64 := func(n uint64) string {
		return string(binary.BigEndian.AppendUint64([]byte{fin | opText, 0x80 | 127}, n))
	}
	for _, c := range []struct {
		name, send string
		code       int
	}{
		{"no mask, empty", "\x81\x00", 1002},
		{"no mask", "\x81\x05hello", 1002},
		{"no mask on a ping", "\x89\x00", 1002},
		{"125 in 16 bits", "\x81\xfe\x00\x7d", 1002},
		{"0 in 16 bits", "\x82\xfe\x00\x00", 1002},
		{"65535 in 64 bits", length64(65535), 1002},
		{"0 in 64 bits", length64(0), 1002},
		{"highest bit", length64(1 << 63), 1002},
		{"all bits", length64(1<<64 - 1), 1002},
		{"over the limit", length64(limit + 1), 1009},
		{"far over the limit", length64(1<<63 - 1), 1009},
	} {
		play(t, dialogue{c.name, []string{c.send}, []item{closing(c.code)}, false})
		play(t, dialogue{c.name + " after a message", []string{whole(opText, "ok"), c.send}, []item{text("ok"), closing(c.code)}, false})
	}
}

// TestGroup2Pings: a ping is answered with its payload, pongs with nothing.
func TestGroup2Pings(t *testing.T) {
	longest := repeat("\xfe", 125)
	full := string([]byte{0x00, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0x00, 0xff})
	tooLong := "\x89\xfe\x00\x7e" + masked(repeat("\xfe", 126))
	for _, d := range []dialogue{
		{"empty", []string{ping("")}, []item{pong("")}, false},
		{"text", []string{ping("Hello, world!")}, []item{pong("Hello, world!")}, false},
		{"not UTF-8", []string{ping(full)}, []item{pong(full)}, false},
		{"125 octets", []string{ping(longest)}, []item{pong(longest)}, false},
		{"126 octets", []string{tooLong}, []item{closing(1002)}, false},
		{"126 octets, header only", []string{tooLong[:4]}, []item{closing(1002)}, false},
		{"pong of 126 octets", []string{"\x8a" + tooLong[1:]}, []item{closing(1002)}, false},
		{"pong unasked", []string{whole(opPong, "")}, nil, false},
		{"pong unasked, with payload", []string{whole(opPong, "unsolicited")}, nil, false},
		{"pong unasked, then ping", []string{whole(opPong, "unsolicited"), ping("p")}, []item{pong("p")}, false},
		{"between messages", []string{whole(opText, "a"), ping("p"), whole(opText, "b")}, []item{text("a"), pong("p"), text("b")}, false},
		tenPings(),
	} {
		play(t, d)
	}
}

// tenPings expects ten pongs in the order of the pings.
func tenPings() dialogue {
	d := dialogue{name: "ten pings"}
	for i := range 10 {
		payload := fmt.Sprintf("payload-%d", i)
		d.send = append(d.send, ping(payload))
		d.want = append(d.want, pong(payload))
	}
	return d
}

// TestGroup3ReservedBits: any reserved bit fails the connection, in any frame
// and place; what came before is answered, what comes after is not.
func TestGroup3ReservedBits(t *testing.T) {
	for bits := byte(1); bits < 8; bits++ {
		for _, f := range []struct {
			name string
			op   byte
		}{{"text", opText}, {"binary", opBinary}, {"ping", opPing}, {"pong", opPong}, {"close", opClose}} {
			name := fmt.Sprintf("bits %03b on %s", bits, f.name)
			for _, payload := range []string{"", "Hello, world!"} {
				bad := frame(fin|bits<<4|f.op, payload)
				play(t, dialogue{name + fmt.Sprintf(" of %d", len(payload)), []string{bad}, []item{closing(1002)}, false})
				play(t, dialogue{
					name + " behind a message",
					[]string{whole(opText, "Hello"), bad, ping("never")},
					[]item{text("Hello"), closing(1002)},
					false,
				})
				play(t, dialogue{
					name + " between fragments",
					[]string{first(opText, "Hello"), bad, last("never"), ping("never")},
					[]item{closing(1002)},
					false,
				})
			}
		}
		play(t, dialogue{
			fmt.Sprintf("bits %03b on a continuation", bits),
			[]string{first(opText, "a"), frame(fin|bits<<4, "b")},
			[]item{closing(1002)},
			false,
		})
	}
}

// TestGroup4ReservedOpcodes: an opcode without a meaning fails the connection.
func TestGroup4ReservedOpcodes(t *testing.T) {
	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		for _, payload := range []string{"", "reserved opcode payload"} {
			name := fmt.Sprintf("opcode %d of %d", op, len(payload))
			bad := whole(op, payload)
			play(t, dialogue{name, []string{bad}, []item{closing(1002)}, false})
			play(t, dialogue{
				name + " behind a message",
				[]string{whole(opText, "Hello"), bad, ping("never")},
				[]item{text("Hello"), closing(1002)},
				false,
			})
			play(t, dialogue{
				name + " between fragments",
				[]string{first(opText, "Hello"), bad, last("never")},
				[]item{closing(1002)},
				false,
			})
			play(t, dialogue{name + " not final", []string{frame(op, payload)}, []item{closing(1002)}, false})
		}
	}
}
