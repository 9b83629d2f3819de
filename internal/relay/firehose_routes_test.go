package relay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	publishRoute = "/firehose/publish"
	statusRoute  = "/xrpc/com.atproto.sync.getRepoStatus?did="

	publishSecret = "publish-SECRET123"
	adminSecret   = "admin-SECRET123"
)

// sizedIdentity is an #identity with a field as long as it takes to be of size
// bytes, or as short as it can be; the number in it is not looked at (F52).
func sizedIdentity(t *testing.T, size int) string {
	t.Helper()
	i := firehose.Identity{DID: "did:web:a.example", Time: "2026-01-01T00:00:00Z"}
	message, err := i.Append(nil, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if size == 0 {
		return string(message)
	}
	// An unknown field behind the others, which is kept: a4 for a3, a key that
	// sorts last and a text with a head of three bytes.
	at := bytes.IndexByte(message[1:], 0xa3) + 1
	message[at] = 0xa4
	key := "\x66unkown\x79"
	n := size - len(message) - len(key) - 2
	return string(message) + key + string([]byte{byte(n >> 8), byte(n)}) + strings.Repeat("x", n)
}

// bearing is a request with a token and a body.
func (f *fixture) bearing(method, path, token, body string, headers ...string) string {
	if token != "" {
		headers = append(headers, "Authorization: "+token)
	}
	return f.request(method, path, append(headers, fmt.Sprintf("Content-Length: %d", len(body)))...) + body
}

// wantXRPCError compares an answer with an error of XRPC, and F8.
func wantXRPCError(t *testing.T, what string, r *relaytest.Response, status int, name, server string) {
	t.Helper()
	var e struct{ Error, Message string }
	if err := json.Unmarshal(r.Body, &e); err != nil || r.Status != status || e.Error != name || e.Message == "" {
		t.Errorf("%s: %d %q, want %d %s", what, r.Status, r.Body, status, name)
	}
	if got := r.Header.Get("Server"); got != server {
		t.Errorf("F8: %s: server %q, want %q", what, got, server)
	}
}

// F52: who may publish what, and that nothing that is refused takes a number.
func TestFirehosePublish(t *testing.T) {
	const most = 2000
	f := startRelay(t, map[string]string{
		"SLUICE_SURFACES": "firehose", "FIREHOSE_PUBLISH_TOKEN": publishSecret,
		"FIREHOSE_MAX_FRAME_BYTES": fmt.Sprint(most), "FIREHOSE_SEQ_FLOOR": "1",
	})
	right, frame := "Bearer "+publishSecret, sizedIdentity(t, 0)
	dagCBOR := "Content-Type: application/vnd.ipld.dag-cbor"
	taken := int64(0)
	accepted := func(what, request string) {
		t.Helper()
		taken++
		if r := f.do(t, "POST", request); r.Status != 200 || string(r.Body) != fmt.Sprintf(`{"seq":%d}`, taken) {
			t.Errorf("%s: %d %q, want number %d", what, r.Status, r.Body, taken)
		}
	}
	refused := func(what string, status int, name, request string) {
		t.Helper()
		wantXRPCError(t, "F52: "+what, f.do(t, "POST", request), status, name, "sluice")
	}
	chunked := func(body string) string {
		return f.request("POST", publishRoute, "Authorization: "+right, "Transfer-Encoding: chunked") +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	accepted("F52", f.bearing("POST", publishRoute, right, frame, dagCBOR))
	accepted("no content type", f.bearing("POST", publishRoute, "bearer  "+publishSecret, frame))
	accepted("the longest", f.bearing("POST", publishRoute, right, sizedIdentity(t, most), dagCBOR))
	accepted("chunked", chunked(frame))

	broken := f.bearing("POST", publishRoute, right, "\xff", dagCBOR)
	refused("no CBOR", 400, "InvalidRequest", broken)
	if r := f.do(t, "POST", broken); strings.Contains(string(r.Body), "connection") {
		t.Errorf("F52: a publisher is told what readers of other hosts do: %q", r.Body)
	}
	refused("no token", 401, "AuthenticationRequired", f.bearing("POST", publishRoute, "", frame, dagCBOR))
	refused("another scheme", 401, "AuthenticationRequired", f.bearing("POST", publishRoute, "Basic "+publishSecret, frame))
	refused("a token that is longer", 401, "AuthenticationRequired", f.bearing("POST", publishRoute, right+"4", frame))
	refused("a token that is shorter", 401, "AuthenticationRequired", f.bearing("POST", publishRoute, right[:len(right)-1], frame))
	refused("content type", 400, "InvalidRequest", f.bearing("POST", publishRoute, right, frame, "Content-Type: application/json"))
	refused("nothing", 400, "InvalidRequest", f.bearing("POST", publishRoute, right, ""))
	refused("cut short", 400, "InvalidRequest", f.bearing("POST", publishRoute, right, frame[:len(frame)-1]))
	refused("a byte more", 400, "InvalidRequest", f.bearing("POST", publishRoute, right, frame+"\x00"))
	info := firehose.Info{Name: firehose.OutdatedCursor}
	refused("a kind without a number", 400, "InvalidRequest", f.bearing("POST", publishRoute, right, string(info.Append(nil))))
	refused("too big", 413, "FrameTooBig", f.bearing("POST", publishRoute, right, sizedIdentity(t, most+1)))
	refused("too big in chunks", 413, "FrameTooBig", chunked(sizedIdentity(t, most+1)))
	refused("a method", 405, "InvalidRequest", f.bearing("PUT", publishRoute, right, frame))
	f.awaitSnapshot(t, "budget given back", func(s *admin.Snapshot) bool { return s.HeldBytes == 0 })
	accepted("after all that", f.bearing("POST", publishRoute, right, frame))
	f.awaitSnapshot(t, "numbers", func(s *admin.Snapshot) bool { return s.Firehose.Published == taken && s.Firehose.LastSeq == taken })
}

// F70: the routes of upstream mode, their tokens and their faults. F8: the
// server names itself a relay.
func TestFirehoseOperator(t *testing.T) {
	host := httptest.NewServer(http.NotFoundHandler())
	defer host.Close()
	name := host.Listener.Addr().String()
	f := startRelay(t, map[string]string{
		"SLUICE_SURFACES": "firehose", "FIREHOSE_UPSTREAMS": "ws://" + name, "FIREHOSE_ADMIN_TOKEN": adminSecret,
		"FIREHOSE_PUBLISH_TOKEN": publishSecret,
	})
	const server = "sluice (atproto-relay)"
	right := "Bearer " + adminSecret
	const hosts, accounts = "/admin/firehose/host", "/admin/firehose/account"
	post := func(path, token, body string) *relaytest.Response {
		t.Helper()
		return f.do(t, "POST", f.bearing("POST", path, token, body))
	}
	status := func(did string) *relaytest.Response {
		t.Helper()
		return f.do(t, "GET", f.request("GET", statusRoute+did))
	}
	for path, body := range map[string]string{
		hosts: `{"hostname":"a.example","action":"ban"}`, accounts: `{"did":"did:web:a.example","action":"takedown"}`,
	} {
		for _, token := range []string{"", "Bearer " + publishSecret, right + "4", "Basic " + adminSecret} {
			wantXRPCError(t, path, post(path, token, body), 401, "AuthenticationRequired", server)
		}
		wantXRPCError(t, path, f.do(t, "GET", f.request("GET", path, "Authorization: "+right)), 405, "InvalidRequest", server)
		for _, bad := range []string{"", "{", "[]", "null", "{}", strings.Replace(body, `n"`, `_"`, 1)} {
			wantXRPCError(t, path+" "+bad, post(path, right, bad), 400, "InvalidRequest", server)
		}
		long := `{"x":"` + strings.Repeat("x", 16<<10) + `",` + body[1:]
		wantXRPCError(t, path+" too long", post(path, right, long), 413, "InvalidRequest", server)
		chunks := f.request("POST", path, "Authorization: "+right, "Transfer-Encoding: chunked") +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(long), long)
		wantXRPCError(t, path+" too long in chunks", f.do(t, "POST", chunks), 413, "InvalidRequest", server)
	}
	wantXRPCError(t, "unknown", status("did:web:a.example"), 400, "RepoNotFound", server)
	wantXRPCError(t, "no DID", status("x"), 400, "InvalidRequest", server)
	wantXRPCError(t, "none", status(""), 400, "InvalidRequest", server)

	done := func(path, body string) {
		t.Helper()
		if r := post(path, right, body); r.Status != 200 {
			t.Errorf("%s %s: %d %q", path, body, r.Status, r.Body)
		}
	}
	done(accounts, `{"did":"did:web:a.example","action":"takedown"}`)
	if r := status("did:web:a.example"); r.Status != 200 || string(r.Body) != `{"did":"did:web:a.example","active":false,"status":"takendown"}` {
		t.Errorf("F70: %d %q", r.Status, r.Body)
	}
	done(accounts, `{"did":"did:web:a.example","action":"restore"}`)
	if r := status("did:web:a.example"); r.Status != 200 || string(r.Body) != `{"did":"did:web:a.example","active":true}` {
		t.Errorf("F70: %d %q", r.Status, r.Body)
	}
	wantXRPCError(t, "restore", post(accounts, right, `{"did":"did:web:b.example","action":"restore"}`), 400, "RepoNotFound", server)
	done(hosts, `{"hostname":"a.example","action":"ban"}`)
	wantXRPCError(t, "banned", post(hosts, right, `{"hostname":"a.example","action":"connect"}`), 400, "HostBanned", server)
	wantXRPCError(t, "unban", post(hosts, right, `{"hostname":"b.example","action":"unban"}`), 400, "HostNotFound", server)
	done(hosts, `{"hostname":"`+name+`","action":"disconnect"}`)
}

// F70: _health tells of a store that does not answer, and F28 of a number that
// cannot be recorded.
func TestFirehoseHealth(t *testing.T) {
	data := t.TempDir()
	f := &fixture{log: &relaytest.LogBuffer{}} // errors are logged here
	r, err := relay.New(testConfig(t, map[string]string{
		"SLUICE_SURFACES": "firehose", "FIREHOSE_PUBLISH_TOKEN": publishSecret, "FIREHOSE_SEQ_RESERVE": "1", "SLUICE_DATA": data,
	}), slog.New(slog.NewTextHandler(f.log, nil)), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	f.relay, f.addr = r, r.Addr()
	defer func() { _ = f.shutdown() }() // the state is gone
	health := func(status int, body string) {
		t.Helper()
		if r := f.do(t, "GET", f.request("GET", "/xrpc/_health")); r.Status != status || string(r.Body) != body {
			t.Errorf("F70: health is %d %q, want %d %q", r.Status, r.Body, status, body)
		}
	}
	publish := f.bearing("POST", publishRoute, "Bearer "+publishSecret, sizedIdentity(t, 0))
	health(200, `{"status":"ok"}`)
	if r := f.do(t, "POST", publish); r.Status != 200 {
		t.Fatalf("%d %q", r.Status, r.Body)
	}
	health(200, `{"status":"ok"}`)
	if err := os.Rename(filepath.Join(data, relay.FirehoseFile), filepath.Join(data, "away")); err != nil {
		t.Fatal(err)
	}
	health(500, `{"status":"error"}`)
	for range 2 { // one number may be reserved ahead
		if r := f.do(t, "POST", publish); r.Status == 503 {
			wantXRPCError(t, "F28", r, 503, "NotListening", "sluice")
			if r.Header.Get("Retry-After") != "1" {
				t.Errorf("F52: %q", r.Head)
			}
			return
		}
	}
	t.Error("F28: published without a record")
}
