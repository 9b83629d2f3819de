package devicefaults

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask passes a request on to the real relay, and returns what it says.
type ask func() answer

// rule is how the front deals with one request, whose body was read before.
// True: it has answered; else the front passes the request on.
type rule func(w http.ResponseWriter, r *http.Request, body []byte, ask ask) bool

// front stands where devices believe their relay to be: it keeps its address
// while the relay behind it is restarted, and does what a rule says.
type front struct {
	t        testing.TB
	server   *httptest.Server
	dir      string // of the relay's data
	settings []string
	relay    *relay.Relay // nil while it is down; owned by the test
	addr     atomic.Pointer[string]
	rule     atomic.Pointer[rule]
	http     *http.Client
	requests atomic.Int64

	mu    sync.Mutex
	paths map[string]int // requests by method and path
}

// newFront starts a relay, and a front that is honest.
func newFront(t testing.TB, settings ...string) *front {
	f := &front{
		t: t, dir: t.TempDir(), settings: settings, paths: map[string]int{},
		http: &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}},
	}
	f.server = httptest.NewServer(f)
	f.start()
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
		f.stop()
	})
	return f
}

func (f *front) url() string { return f.server.URL }

func (f *front) start(more ...string) {
	f.t.Helper()
	settings := append([]string{"SLUICE_SURFACES=sync", "SLUICE_DATA=" + f.dir, "SLUICE_LOOPS=2", "SYNC_ADMIN_TOKEN=" + adminToken}, f.settings...)
	f.relay = testrelay.Start(f.t, append(settings, more...)...)
	addr := f.relay.Addr()
	f.addr.Store(&addr)
}

const adminToken = "admin-of-the-relay"

// stop takes the relay down; the front then answers with 502.
func (f *front) stop() {
	f.t.Helper()
	f.addr.Store(nil)
	f.http.CloseIdleConnections()
	if f.relay != nil {
		testrelay.Stop(f.t, f.relay)
	}
	f.relay = nil
}

// lie sets how the front behaves from now on; nil is honest.
func (f *front) lie(r rule) {
	if r == nil {
		f.rule.Store(nil)
		return
	}
	f.rule.Store(&r)
}

// count returns how many requests came since the last call.
func (f *front) count() int64 { return f.requests.Swap(0) }

// asked returns how many requests came for a method and path so far.
func (f *front) asked(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths[what]
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests.Add(1)
	f.mu.Lock()
	f.paths[r.Method+" "+r.URL.Path]++
	f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the device is gone
	}
	ask := func() answer { return f.pass(r, body) }
	if rule := f.rule.Load(); rule != nil && (*rule)(w, r, body, ask) {
		return
	}
	write(w, ask())
}

// pass has the real relay answer.
func (f *front) pass(r *http.Request, body []byte) answer {
	addr := f.addr.Load()
	if addr == nil {
		return answer{status: http.StatusBadGateway}
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+*addr+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return answer{status: http.StatusBadGateway}
	}
	req.Header = r.Header.Clone()
	res, err := f.http.Do(req)
	if err != nil {
		return answer{status: http.StatusBadGateway}
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{status: http.StatusBadGateway}
	}
	return answer{res.StatusCode, res.Header, text}
}

// write sends an answer as it is, but for its length.
func write(w http.ResponseWriter, a answer) {
	for name, values := range a.header {
		if name != "Content-Length" && name != "Connection" {
			w.Header()[name] = values
		}
	}
	if a.header.Get("Content-Length") != "" && len(a.body) == 0 { // of HEAD
		w.Header().Set("Content-Length", a.header.Get("Content-Length"))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// say answers with a status and a text.
func say(w http.ResponseWriter, status int, text string) bool {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	write(w, answer{status: status, body: []byte(text)})
	return true
}

// pulls tells whether a request is a pull, one that waits too.
func pulls(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == "/v1/events" || r.URL.Path == "/v1/events/wait")
}

// pushes tells whether a request is a push.
func pushes(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == "/v1/events" }

// page is an answer to a pull, taken apart.
type page struct {
	Events     []json.RawMessage `json:"events"`
	NextCursor string            `json:"nextCursor"`
}

func parsePage(a answer) (p page, ok bool) {
	return p, a.status == http.StatusOK && json.Unmarshal(a.body, &p) == nil
}

func (p page) bytes() []byte {
	if p.Events == nil {
		p.Events = []json.RawMessage{}
	}
	out := []byte(`{"events":[`)
	for i, e := range p.Events {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	next, err := json.Marshal(p.NextCursor)
	if err != nil {
		panic(err) // a string always can
	}
	return append(append(append(out, `],"nextCursor":`...), next...), '}')
}

func (p page) send(w http.ResponseWriter) bool { return say(w, http.StatusOK, string(p.bytes())) }

// stored is one event that the relay has, opened.
type stored struct {
	synccrypt.Payload
	synccrypt.Header
}

// opened returns all that the relay behind the front has of an owner, each
// event opened (H8).
func (f *front) opened(id *synccrypt.Identity) []stored {
	f.t.Helper()
	var all []stored
	for cursor := ""; ; {
		req := httptest.NewRequest("GET", "/v1/events?ownerId="+id.OwnerID+"&after="+cursor, nil)
		req.Header.Set("Authorization", "Bearer "+id.RelayAuth)
		a := f.pass(req, nil)
		p, ok := parsePage(a)
		if !ok {
			f.t.Fatalf("pull: %d %s", a.status, a.body)
		}
		for _, e := range p.Events {
			payload, header, _, err := id.OpenPayload(e)
			if err != nil {
				f.t.Fatalf("H8: %v: %s", err, e)
			}
			all = append(all, stored{payload, header})
		}
		if len(p.Events) == 0 || p.NextCursor == cursor {
			return all
		}
		cursor = p.NextCursor
	}
}
