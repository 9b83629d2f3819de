package syncmodel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Hard cases about blob chunks.

// dial opens a raw connection to the relay.
func (s *site) dial() *net.TCPConn {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", *s.addr.Load(), patience)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(patience))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// head is a request's head without Content-Length.
func (a *account) head(method, path string, fields ...string) string {
	lines := append([]string{
		method + " " + path + " HTTP/1.1", "Host: relay", "Authorization: Bearer " + a.token,
	}, fields...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// raw sends bytes and reads one answer. A failed write is none of its business:
// the answer may come before all was written.
func (a *account) raw(method, request string) answer {
	a.t.Helper()
	conn := a.dial()
	defer func() { _ = conn.Close() }()
	sent := make(chan struct{})
	go func() {
		_, _ = io.WriteString(conn, request)
		close(sent)
	}()
	got, err := readAnswer(conn, method)
	if err != nil {
		a.t.Fatalf("%s: %v", strings.SplitN(request, "\r\n", 2)[0], err)
	}
	_ = conn.Close()
	<-sent
	return got
}

func readAnswer(conn net.Conn, method string) (answer, error) {
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text)}, errors.Join(err, res.Body.Close())
}

const newChunk = `{"stored":true,"duplicate":false}`

func TestHardCase30SpareBits(t *testing.T) {
	a := newSite(t).account("o")
	hash := hashOf("x")
	spare := hash[:42] + string(hash[42]+1)
	for _, method := range []string{"PUT", "GET"} {
		wantCode(t, method, a.do(method, a.blobPath(spare), a.token, ""), 400, "bad_hash")
	}
	if res := a.do("HEAD", a.blobPath(spare), a.token, ""); res.status != 400 || res.body != "" {
		t.Errorf("HEAD: %d %q", res.status, res.body)
	}
	a.unknown("spare bits")
	wantBody(t, "canonical", a.put("x"), newChunk)
}

func TestHardCase31DuplicateOfOneGiB(t *testing.T) {
	a := newSite(t).account("o")
	_ = a.put("x")
	head := a.head("PUT", a.blobPath(hashOf("x")), "Content-Length: 1073741824")
	const duplicate = `{"stored":false,"duplicate":true}`
	wantBody(t, "no body", a.raw("PUT", head), duplicate)
	for range 10 {
		wantBody(t, "some of it", a.raw("PUT", head+strings.Repeat("y", 2<<20)), duplicate)
		wantCode(t, "S46: a new hash", a.raw("PUT", a.head("PUT", a.blobPath(hashOf("y")), "Content-Length: 1073741824")+
			strings.Repeat("y", 2<<20)), 413, "blob_too_large")
	}
}

func TestHardCase32ChunkedTooLong(t *testing.T) {
	const most = 1<<20 + 1024
	a := newSite(t).account("o")
	chunked := func(body string) string {
		return a.head("PUT", a.blobPath(hashOf(body)), "Transfer-Encoding: chunked") +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	wantCode(t, "one too many", a.raw("PUT", chunked(strings.Repeat("x", most+1))), 413, "blob_too_large")
	a.unknown("one too many")
	wantBody(t, "at the limit", a.raw("PUT", chunked(strings.Repeat("x", most))), newChunk)
	if st := a.status(); st.UsedBytes != most {
		t.Errorf("%d bytes are charged", st.UsedBytes)
	}
}

func TestHardCase33EmptyChunk(t *testing.T) {
	a := newSite(t).account("o")
	const hash = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
	wantBody(t, "PUT", a.do("PUT", a.blobPath(hash), a.token, ""), newChunk)
	res := a.do("GET", a.blobPath(hash), a.token, "")
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "Content-Length": "0", "ETag": `"` + hash + `"`,
		"Cache-Control": "private, max-age=31536000, immutable",
	} {
		if res.status != 200 || res.body != "" || res.header.Get(name) != want {
			t.Errorf("GET: %d %q, %s is %q", res.status, res.body, name, res.header.Get(name))
		}
	}
	if res := a.do("GET", a.blobPath(hash), a.token, "", "If-None-Match", `"`+hash+`"`); res.status != 304 {
		t.Errorf("If-None-Match: %d", res.status)
	}
}

func TestHardCase34AbortedUpload(t *testing.T) {
	s := newSite(t)
	a := s.account("o")
	body := strings.Repeat("x", 200_000)
	for i, head := range []string{
		a.head("PUT", a.blobPath(hashOf(body)), "Content-Length: 200000"),
		a.head("PUT", a.blobPath(hashOf(body)), "Transfer-Encoding: chunked") + "30d40\r\n",
	} {
		conn := s.dial()
		if _, err := io.WriteString(conn, head+body[:100_000]); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // a reset, of which the relay may not have heard yet
			_ = conn.SetLinger(0)
			_ = conn.Close()
			continue
		}
		_ = conn.CloseWrite()
		if _, err := io.ReadAll(conn); err != nil { // until the relay has closed it too
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	a.unknown("aborted")
	wantBody(t, "whole", a.put(body), newChunk)
	if st := a.status(); st.UsedBytes != 200_000 {
		t.Errorf("%d bytes are charged", st.UsedBytes)
	}
}

func TestHardCase35ChunkOfAnother(t *testing.T) {
	s := newSite(t)
	a, b := s.account("a"), s.account("b")
	_ = a.put("secret")
	b.pushed(0, 0)
	wantCode(t, "GET", b.do("GET", b.blobPath(hashOf("secret")), b.token, ""), 404, "unknown_blob")
	wantCode(t, "GET as the other", b.do("GET", a.blobPath(hashOf("secret")), b.token, ""), 401, "unauthorized")
	wantBody(t, "PUT is no duplicate", b.put("secret"), newChunk)
	if st := b.status(); st.UsedBytes != 6 {
		t.Errorf("S45: %d bytes are charged", st.UsedBytes)
	}
	if res := b.do("GET", b.blobPath(hashOf("secret")), b.token, ""); res.body != "secret" {
		t.Errorf("GET: %d %s", res.status, res.body)
	}
}

func TestHardCase36HeadUnknown(t *testing.T) {
	a := newSite(t).account("o")
	_ = a.put("x")
	res := a.raw("HEAD", a.head("HEAD", a.blobPath(hashOf("y")), "Connection: close"))
	if res.status != 404 || res.body != "" {
		t.Errorf("HEAD: %d %q", res.status, res.body)
	}
	// Nothing follows the head: the next answer on the connection is whole.
	conn := a.dial()
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, a.head("HEAD", a.blobPath(hashOf("y")))+a.head("HEAD", a.blobPath(hashOf("x")), "Connection: close"))
	text, err := io.ReadAll(conn)
	parts := strings.Split(string(text), "\r\n\r\n")
	if err != nil || len(parts) != 3 || parts[2] != "" || !strings.HasPrefix(parts[0], "HTTP/1.1 404 ") ||
		!strings.HasPrefix(parts[1], "HTTP/1.1 200 ") || !strings.Contains(parts[1], "\r\nContent-Length: 1\r\n") {
		t.Errorf("HEAD twice: %q, %v", text, err)
	}
}
