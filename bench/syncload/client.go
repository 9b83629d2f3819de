package syncload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// answerTime bounds the wait for one answer.
const answerTime = 90 * time.Second

// device is one connection with one request in flight. Its requests are written
// and its answers read without net/http's goroutines, which would take more of
// the machine than the relay does. Owned by one goroutine.
type device struct {
	conn  net.Conn
	in    *bufio.Reader
	out   []byte
	owner string
}

// dial opens a connection of an owner. from is the last octet of its own address
// in 127.0.0.0/8, so that one port range does not bound all devices.
func dial(ctx context.Context, addr, owner string, from int) (*device, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+from%250))}}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &device{conn: c, in: bufio.NewReaderSize(c, 4<<10), owner: owner}, nil
}

func (d *device) close() { _ = d.conn.Close() }

// send writes a request.
func (d *device) send(method, path string, body []byte) error {
	d.out = append(d.out[:0], method+" "+path+" HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "+d.owner+"\r\nContent-Length: "...)
	d.out = strconv.AppendInt(d.out, int64(len(body)), 10)
	d.out = append(d.out, "\r\n\r\n"...)
	d.out = append(d.out, body...)
	_, err := d.conn.Write(d.out)
	return err
}

// errStatus tells of an answer that was not expected.
var errStatus = errors.New("syncload: unexpected answer")

// receive reads an answer with one of the statuses and returns its body in buf.
func (d *device) receive(buf []byte, want ...int) ([]byte, error) {
	if err := d.conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return buf, err
	}
	res, err := http.ReadResponse(d.in, nil)
	if err != nil {
		return buf, err
	}
	b := bytes.NewBuffer(buf[:0])
	if _, err := io.Copy(b, res.Body); err != nil {
		return b.Bytes(), err
	}
	for _, status := range want {
		if res.StatusCode == status {
			return b.Bytes(), nil
		}
	}
	return b.Bytes(), fmt.Errorf("%w: %d %.200s", errStatus, res.StatusCode, b)
}

// do sends a request and reads its answer, which must be 200.
func (d *device) do(method, path string, body, buf []byte) ([]byte, error) {
	if err := d.send(method, path, body); err != nil {
		return buf, err
	}
	return d.receive(buf, http.StatusOK)
}

// pushBody appends the body of a push of count events of about size bytes, with
// ids from first on.
func pushBody(dst []byte, owner string, first, count, size int) []byte {
	dst = append(dst, `{"ownerId":"`+owner+`","events":[`...)
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"version":1,"ownerId":"`+owner+`","eventId":"`...)
		dst = strconv.AppendInt(dst, int64(1_000_000_000+first+i), 10)
		dst = append(dst, `","deviceId":"bench","createdAt":"2026-01-01T00:00:00.000Z","nonce":"AAAAAAAAAAAAAAAA","ciphertext":"`...)
		for range max(1, size-170) {
			dst = append(dst, 'x')
		}
		dst = append(dst, `"}`...)
	}
	return append(dst, `]}`...)
}
