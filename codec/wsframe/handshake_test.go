package wsframe

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/gobwas/ws"
)

// rfcRequest is the opening handshake of RFC 6455, section 1.3.
func rfcRequest() *UpgradeRequest {
	return &UpgradeRequest{
		Method: []byte("GET"), Minor: 1,
		Upgrade: []byte("websocket"), Connection: []byte("Upgrade"),
		Key: []byte("dGhlIHNhbXBsZSBub25jZQ=="), Version: []byte("13"),
		Protocols: []byte("chat, superchat"),
	}
}

func TestR301HandshakeErrors(t *testing.T) {
	f := func(name string, change func(q *UpgradeRequest), want *HandshakeError) {
		t.Helper()
		q := rfcRequest()
		change(q)
		err := q.Check()
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	set := func(field func(q *UpgradeRequest) *[]byte, value string) func(q *UpgradeRequest) {
		return func(q *UpgradeRequest) { *field(q) = []byte(value) }
	}
	method := func(q *UpgradeRequest) *[]byte { return &q.Method }
	upgrade := func(q *UpgradeRequest) *[]byte { return &q.Upgrade }
	connection := func(q *UpgradeRequest) *[]byte { return &q.Connection }
	key := func(q *UpgradeRequest) *[]byte { return &q.Key }
	version := func(q *UpgradeRequest) *[]byte { return &q.Version }
	protocols := func(q *UpgradeRequest) *[]byte { return &q.Protocols }

	f("RFC 6455, 1.3", func(*UpgradeRequest) {}, nil)
	f("letter case", set(upgrade, "WebSocket"), nil)
	f("upgrade list", set(upgrade, "h2c, websocket"), nil)
	f("connection list", set(connection, "keep-alive,\t UPGRADE ,x"), nil)
	f("no subprotocol", set(protocols, ""), nil)
	f("empty list elements", set(protocols, " ,, chat"), nil)

	f("R31 no upgrade", set(upgrade, ""), ErrNotUpgrade)
	f("R31 connection does not name it", set(connection, "keep-alive, upgraded"), ErrNotUpgrade)
	f("R301 POST", set(method, "POST"), ErrUpgradeMethod)
	f("R301 lower case method", set(method, "get"), ErrUpgradeMethod)
	f("R300 HTTP/1.0", func(q *UpgradeRequest) { q.Minor = 0 }, ErrUpgradeHTTP)
	f("h2c", set(upgrade, "h2c"), ErrUpgradeProtocol)
	f("websocket with a version", set(upgrade, "websocket/13"), ErrUpgradeProtocol)

	for name, value := range map[string]string{
		"missing": "", "15 bytes": "dGhlIHNhbXBsZSBub25j", "17 bytes": "dGhlIHNhbXBsZSBub25jZWE=",
		"18 bytes": "dGhlIHNhbXBsZSBub25jZWFh", "no padding": "dGhlIHNhbXBsZSBub25jZQ", "URL alphabet": "dGhlIHNhbXBsZSBub2-_ZQ==",
		"line ends": "dGhlIHNhbXBsZSBub25j\r\n\r\n", "twice": "dGhlIHNhbXBsZSBub25jZQ==, dGhlIHNhbXBsZSBub25jZQ==",
		"not base64": "dGhlIHNhbXBsZSBub25j!Q==",
	} {
		f("R301 key: "+name, set(key, value), ErrUpgradeKey)
	}
	for _, value := range []string{"", "12", "8", "013", "13, 8", "13 ", "14"} {
		f("R301 version "+value, set(version, value), ErrUpgradeVersion)
	}
	for _, value := range []string{"a b", "chat/1", "caf\xc3\xa9", "a\"", "x\r\nEvil: 1, y"} {
		f("R302 subprotocol "+value, set(protocols, value), ErrUpgradeSubprotocol)
	}
	// Several faults at once: the order of R301.
	f("order", func(q *UpgradeRequest) { q.Method, q.Key, q.Version = nil, nil, nil }, ErrUpgradeMethod)
	f("order", func(q *UpgradeRequest) { q.Key, q.Version = nil, nil }, ErrUpgradeKey)
}

func TestR301Answers(t *testing.T) {
	f := func(err *HandshakeError, status int, name, value string) {
		t.Helper()
		gotName, gotValue := err.Header()
		if err.Status() != status || gotName != name || gotValue != value || err.Error() == "" {
			t.Errorf("%v: %d %q %q", err, err.Status(), gotName, gotValue)
		}
	}
	f(ErrNotUpgrade, 404, "", "")
	f(ErrUpgradeMethod, 405, "Allow", "GET")
	f(ErrUpgradeHTTP, 400, "", "")
	f(ErrUpgradeProtocol, 400, "", "")
	f(ErrUpgradeKey, 400, "", "")
	f(ErrUpgradeVersion, 400, "Sec-WebSocket-Version", "13")
	f(ErrUpgradeSubprotocol, 400, "", "")
}

func TestR302FirstSubprotocol(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "chat": "chat", "chat, superchat": "chat", "a.b-c_d!~1,x": "a.b-c_d!~1",
		" , ,\tz": "z", "a b, c": "", "x\x00": "", "\xff": "", ",,": "",
	} {
		if got := FirstSubprotocol([]byte(value)); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestAppendSwitching(t *testing.T) {
	const answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
	key := []byte("dGhlIHNhbXBsZSBub25jZQ==")
	for protocol, want := range map[string]string{
		"":           answer + "\r\n",
		"chat":       answer + "Sec-WebSocket-Protocol: chat\r\n\r\n",
		"x\r\nEvil:": answer + "\r\n",
	} {
		if got := AppendSwitching([]byte("<"), key, protocol); string(got) != "<"+want {
			t.Errorf("%q: %q", protocol, got)
		}
	}
	dst := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { dst = AppendSwitching(dst[:0], key, "chat") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHandshakeWithLibraryClient lets the client of gobwas/ws judge the answer.
func TestHandshakeWithLibraryClient(t *testing.T) {
	client, server := net.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- answerOnce(server)
	}()
	dialer := ws.Dialer{Protocols: []string{"chat", "superchat"}}
	_, hs, err := dialer.Upgrade(client, &url.URL{Scheme: "ws", Host: "localhost", Path: "/socket"})
	if err != nil || hs.Protocol != "chat" || len(hs.Extensions) != 0 {
		t.Errorf("%+v, %v", hs, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = client.Close()
}

// answerOnce reads one request head and answers it.
func answerOnce(conn net.Conn) error {
	head := make([]byte, 0, 4096)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		n, err := conn.Read(head[len(head):cap(head)])
		if err != nil {
			return err
		}
		head = head[:len(head)+n]
	}
	q := &UpgradeRequest{Method: []byte("GET"), Minor: 1}
	for line := range strings.SplitSeq(string(head), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch strings.ToLower(name) {
		case "upgrade":
			q.Upgrade = []byte(value)
		case "connection":
			q.Connection = []byte(value)
		case "sec-websocket-key":
			q.Key = []byte(value)
		case "sec-websocket-version":
			q.Version = []byte(value)
		case "sec-websocket-protocol":
			q.Protocols = []byte(value)
		}
	}
	if err := q.Check(); err != nil {
		return err
	}
	_, err := conn.Write(AppendSwitching(nil, q.Key, FirstSubprotocol(q.Protocols)))
	return err
}
