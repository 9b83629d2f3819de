package device

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// house is a real relay behind a door that keeps its address when the relay is
// made anew, and that a test may watch and break.
type house struct {
	t        *testing.T
	dir      string
	settings []string
	door     *httptest.Server
	relay    *relay.Relay

	mu sync.Mutex
	// Guarded by mu.
	target *url.URL
	hook   func(w http.ResponseWriter, r *http.Request) (handled bool)
	alter  func(r *http.Response) error

	heads, puts, gets atomic.Int64 // of chunks
}

func newHouse(t *testing.T, settings ...string) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), settings: settings}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			h.mu.Lock()
			defer h.mu.Unlock()
			r.SetURL(h.target)
		},
		ModifyResponse: func(r *http.Response) error {
			h.mu.Lock()
			alter := h.alter
			h.mu.Unlock()
			if alter == nil {
				return nil
			}
			return alter(r)
		},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	h.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/blobs/") {
			map[string]*atomic.Int64{"HEAD": &h.heads, "PUT": &h.puts, "GET": &h.gets}[r.Method].Add(1)
		}
		h.mu.Lock()
		hook := h.hook
		h.mu.Unlock()
		if hook == nil || !hook(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		h.door.Close()
		testrelay.Stop(t, h.relay)
	})
	h.start()
	return h
}

func (h *house) start() {
	h.t.Helper()
	h.relay = testrelay.Start(h.t, append([]string{"SLUICE_SURFACES=sync", "SLUICE_DATA=" + h.dir, "SLUICE_LOOPS=1"}, h.settings...)...)
	u, err := url.Parse("http://" + h.relay.Addr())
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	h.target = u
	h.mu.Unlock()
}

// again stops the relay and starts it with other settings; wiped takes all it
// had.
func (h *house) again(wiped bool, settings ...string) {
	h.t.Helper()
	testrelay.Stop(h.t, h.relay)
	if wiped {
		entries, err := os.ReadDir(h.dir)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(h.dir, e.Name())); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	h.settings = settings
	h.start()
}

func (h *house) set(hook func(http.ResponseWriter, *http.Request) bool, alter func(*http.Response) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook, h.alter = hook, alter
}

// account is what the relay says of an owner; known is false for a 404, closed
// is true for a 410.
func (h *house) account(credential string) (a account, known, closed bool) {
	h.t.Helper()
	id, _, err := synccrypt.ParseCredential(credential)
	if err != nil {
		h.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), "GET", h.door.URL+"/v1/status?ownerId="+id.OwnerID, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+id.RelayAuth)
	resp, err := h.door.Client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct{ Account account }
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			h.t.Fatal(err)
		}
	}
	return body.Account, resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusGone
}

func newKey(t testing.TB) string {
	t.Helper()
	key, err := synccrypt.NewNativeKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newTestDevice makes a device with relays, which ends with the test.
func newTestDevice(t *testing.T, credential, name string, houses ...*house) *Device {
	t.Helper()
	d, err := Create(filepath.Join(t.TempDir(), "device"), credential, name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for _, h := range houses {
		if err := d.AddRelay(h.door.URL); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func openAgain(t *testing.T, d *Device) *Device {
	t.Helper()
	other, err := Open(d.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return other
}

func syncAll(t *testing.T, devices ...*Device) {
	t.Helper()
	for _, d := range devices {
		if _, err := d.Sync(t.Context(), SyncOptions{}); err != nil {
			t.Fatalf("sync of %s: %v", d.DeviceID(), err)
		}
	}
}

// bytesOf returns bytes that differ from chunk to chunk, the same ones for a
// seed.
func bytesOf(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

func attach(t *testing.T, d *Device, data []byte) synccrypt.Manifest {
	t.Helper()
	m, err := d.Attach(t.Context(), bytes.NewReader(data), "image/png", "picture", nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantBlob fetches a blob both ways.
func wantBlob(t *testing.T, d *Device, blob string, want []byte) {
	t.Helper()
	var got bytes.Buffer
	if err := d.Fetch(t.Context(), blob, &got, nil); err != nil {
		t.Fatalf("%s: %v", d.DeviceID(), err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := d.FetchFile(t.Context(), blob, path, nil); err != nil {
		t.Fatalf("%s: %v", d.DeviceID(), err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) || !bytes.Equal(file, want) {
		t.Fatalf("%s: %d and %d bytes differ from the %d that were attached", d.DeviceID(), got.Len(), len(file), len(want))
	}
	if _, err := os.Stat(path + ".part"); err == nil {
		t.Error("the .part is left")
	}
}

func putRow(t *testing.T, d *Device, table, id, row string) {
	t.Helper()
	if _, err := d.Put(devicestore.Edit{Key: devicestore.Key{Table: table, ID: id}, Data: []byte(row)}); err != nil {
		t.Fatal(err)
	}
}

func wantRow(t *testing.T, d *Device, table, id, want string) {
	t.Helper()
	r, err := d.Get(devicestore.Key{Table: table, ID: id})
	if err != nil || string(r.Data) != want {
		t.Errorf("%s: %s/%s is %q, %v; want %q", d.DeviceID(), table, id, r.Data, err, want)
	}
}

// soleRelay returns the store's view of a device's only relay.
func soleRelay(t *testing.T, d *Device) devicestore.Relay {
	t.Helper()
	relays, err := d.store.Relays()
	if err != nil || len(relays) != 1 {
		t.Fatalf("relays %v, %v", relays, err)
	}
	return relays[0]
}

func countRefusals(t *testing.T, d *Device, reason string) (n int64) {
	t.Helper()
	counts, err := d.store.Refusals()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Reason == reason {
			n += c.Count
		}
	}
	return n
}

// chunkFiles returns the names of the chunks that are here.
func chunkFiles(t *testing.T, d *Device) []string {
	t.Helper()
	entries, err := os.ReadDir(string(d.chunks()))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// copyDir copies a device's directory as a crash would leave it: the database is
// closed, or what it has not written is not wanted.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{credentialFile, nextFile, oldFile} {
		if err := os.Chmod(filepath.Join(to, name), 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return to
}

// cutAfter is a reader that ends with an error after n bytes.
func cutAfter(r io.Reader, n int64) io.Reader {
	return io.MultiReader(io.LimitReader(r, n), errorReader{})
}

type errorReader struct{}

var errCut = errors.New("cut")

func (errorReader) Read([]byte) (int, error) { return 0, errCut }
