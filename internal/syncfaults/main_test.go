package syncfaults

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/store"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

var seedFlag = flag.Uint64("syncfaults.seed", 0, "seed of what is random, 0 for a new one")

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 30 * time.Second

// program is the real binary, built once.
var program string

func TestMain(m *testing.M) { os.Exit(testrelay.MainWithProgram(m, &program)) }

// newRand returns a generator whose seed the test logs.
func newRand(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d, repeat with -syncfaults.seed", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

const adminToken = "admin"

// start runs the program on a data directory.
func start(t *testing.T, dir string, settings ...string) *faults.Process {
	t.Helper()
	p, err := faults.Start(program, []string{"serve"}, append([]string{
		"SLUICE_SURFACES=aep,sync", "SLUICE_DATA=" + dir, "SYNC_ADMIN_TOKEN=" + adminToken, "MAX_OWNERS=0",
	}, settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// startFails starts the program on a data directory that must stop it, with exit
// code 1, and returns what it says.
func startFails(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(program, "serve", "--port", "0", "--admin", "off", "--data", dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the relay started, or failed otherwise: %v\n%s", err, out)
	}
	return string(out)
}

// checkStore holds the database of a relay that is not running to S49, and if
// file is set to what SQLite itself can check.
func checkStore(t *testing.T, dir string, file bool) {
	t.Helper()
	in, err := store.OpenReadOnly(filepath.Join(dir, "sync.db"))
	if errors.Is(err, store.ErrNoStore) {
		return // it was killed before it stored anything
	}
	if err != nil {
		t.Fatalf("K5: %v", err)
	}
	broken, err := in.Check(t.Context(), file)
	if err != nil || len(broken) > 0 {
		t.Errorf("K5: %v, %v", broken, err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// errLost tells that no answer came: whether the request took effect is open.
var errLost = errors.New("no answer")

// api is a client of one run of the relay.
type api struct {
	base string
	http *http.Client
}

func newAPI(addr string) *api {
	return &api{"http://" + addr, &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}, Timeout: patience,
	}}
}

func (a *api) close() { a.http.CloseIdleConnections() }

// do sends a request. The error is errLost or nil.
func (a *api) do(method, path, token string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequest(method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := a.http.Do(req)
	if err != nil {
		return 0, nil, errLost
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, errLost
	}
	return res.StatusCode, answer, nil
}

func tokenOf(owner string) string { return "token-of-" + owner }

// event is an envelope; stream may be "".
func event(owner, id, stream, text string) string {
	if stream != "" {
		stream = `"streamId":"` + stream + `",`
	}
	return `{"version":1,"ownerId":"` + owner + `","eventId":"` + id + `",` + stream +
		`"deviceId":"d","createdAt":"t","nonce":"n","ciphertext":"` + text + `"}`
}

func (a *api) push(owner string, events ...string) (int, []byte, error) {
	return a.do("POST", "/v1/events", tokenOf(owner), []byte(`{"ownerId":"`+owner+`","events":[`+strings.Join(events, ",")+`]}`))
}

// dropStream has every event of a stream deleted (S40).
func (a *api) dropStream(owner, stream string) (int, []byte, error) {
	return a.do("POST", "/v1/streams/compact", tokenOf(owner), []byte(`{"ownerId":"`+owner+`","streamIds":["`+stream+`"]}`))
}

// pulled is what an owner has: the envelopes by their ids, and the last cursor.
type pulled struct {
	envelopes map[string]string
	cursor    string
	numbers   map[string]string // the cursor after a page -> the id of its last event
}

// pull reads all that an owner has behind a cursor. status is that of the page
// which was no 200, or 200.
func (a *api) pull(owner, after string) (got pulled, status int, err error) {
	return a.pullPages(owner, after, 1000)
}

// pullPages is pull with pages of so many events.
func (a *api) pullPages(owner, after string, limit int) (got pulled, status int, err error) {
	got = pulled{envelopes: map[string]string{}, cursor: after, numbers: map[string]string{}}
	path := "/v1/events?ownerId=" + owner + "&limit=" + strconv.Itoa(limit) + "&after="
	for {
		status, body, err := a.do("GET", path+got.cursor, tokenOf(owner), nil)
		if err != nil || status != http.StatusOK {
			return got, status, err
		}
		var page struct {
			Events     []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return got, status, err
		}
		for _, e := range page.Events {
			var id struct{ EventID string }
			if err := json.Unmarshal(e, &id); err != nil {
				return got, status, err
			}
			got.envelopes[id.EventID] = string(e)
			got.numbers[page.NextCursor] = id.EventID
		}
		if page.NextCursor == got.cursor || len(page.Events) == 0 {
			return got, status, nil
		}
		got.cursor = page.NextCursor
	}
}
