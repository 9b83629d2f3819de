package firehoseclients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"testing"

	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

const (
	publishToken  = "publish"
	subscribePath = "/xrpc/com.atproto.sync.subscribeRepos"
)

// source is a relay whose numbers begin at a given one, and what publishes to it.
// Owned by the test.
type source struct {
	t     *testing.T
	relay *relay.Relay
	addr  string
	next  int64 // number of the next frame
}

// startSource starts a relay with its state in a directory of the test.
func startSource(t *testing.T, floor int64) *source {
	t.Helper()
	return startIn(t, t.TempDir(), testrelay.FixedPort(t), floor)
}

// startIn starts a relay on a directory and a port.
func startIn(t *testing.T, dir, port string, floor int64) *source {
	t.Helper()
	clients.Modules(t) // before anything is started
	r := testrelay.Start(
		t, "SLUICE_SURFACES=firehose", "SLUICE_DATA="+dir, "AEP_PORT="+port,
		"FIREHOSE_PUBLISH_TOKEN="+publishToken, "FIREHOSE_SEQ_FLOOR="+strconv.FormatInt(floor, 10),
	)
	t.Cleanup(func() { testrelay.Stop(t, r) })
	return &source{t: t, relay: r, addr: r.Addr(), next: floor}
}

func (s *source) url() string { return "ws://" + s.addr }

// post sends a frame to be published (F52).
func (s *source) post(frame []byte) (status int, answer []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "POST", "http://"+s.addr+"/firehose/publish", bytes.NewReader(frame))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+publishToken)
	req.Header.Set("Content-Type", "application/vnd.ipld.dag-cbor")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if answer, err = io.ReadAll(res.Body); err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, answer
}

// publish publishes a frame, and returns its number, which must be the next.
func (s *source) publish(frame []byte) int64 {
	s.t.Helper()
	status, text := s.post(frame)
	var answer struct{ Seq int64 }
	if err := json.Unmarshal(text, &answer); err != nil || status != http.StatusOK || answer.Seq != s.next {
		s.t.Fatalf("F52: %d %s, want the number %d", status, text, s.next)
	}
	s.next++
	return answer.Seq
}

// sent is a vector that was published.
type sent struct {
	vector
	seq int64
}

// publishAll publishes vectors.
func (s *source) publishAll(list []vector) (all []sent) {
	s.t.Helper()
	for _, v := range list {
		all = append(all, sent{v, s.publish(unhex(s.t, v.Hex))})
	}
	return all
}

// same reports a difference between a message and what is due.
func same(t *testing.T, name string, got, want map[string]any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Fatalf("%s: got\n%s\nwant\n%s", name, g, w)
	}
}
