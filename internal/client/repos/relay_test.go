package repos

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// settings are those of a relay with a firehose, on a port and a directory of
// its own.
func settings(tb testing.TB) (url string, list []string) {
	tb.Helper()
	port := testrelay.FixedPort(tb)
	return "ws://127.0.0.1:" + port, []string{
		"SLUICE_SURFACES=firehose", "FIREHOSE_PUBLISH_TOKEN=t", "AEP_HOST=127.0.0.1", "AEP_PORT=" + port,
		"SLUICE_DATA=" + tb.TempDir(),
	}
}

// publishTo publishes frames to a real relay and returns their numbers.
func publishTo(tb testing.TB, url string, frames ...[]byte) []int64 {
	tb.Helper()
	var p published
	o := p.options(tb, Address(url))
	o.pause = client.Pause // a relay that starts is waited for
	if _, err := Publish(tb.Context(), NewSplitter(bytes.NewReader(bytes.Join(frames, nil))), o); err != nil {
		tb.Fatal(err)
	}
	return p.seqs
}

// The contract's frames go through a relay and come out again: as they were but
// for their numbers (F52, F61). F20, F21, F4: a cursor and kinds are honoured.
func TestThroughARelay(t *testing.T) {
	url, set := settings(t)
	r := testrelay.Start(t, append(set, "FIREHOSE_SEQ_FLOOR=1")...)
	defer testrelay.Stop(t, r)
	var in [][]byte
	var kinds []string
	var scanner firehose.Scanner
	var f firehose.Frame
	for _, v := range readVectors(t).Frames {
		if frame := unhex(t, v.Hex); scanner.Scan(frame, &f) == nil && f.Kind() <= firehose.KindAccount {
			in, kinds = append(in, frame), append(kinds, firehose.KindName(f.Kind()))
		}
	}
	seqs := publishTo(t, url, in...)
	follow := func(o Options) *collector {
		c := newCollector()
		o.Relay = at(t, url)
		if err := startFollow(t, o, c).wait(t); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := follow(Options{HasCursor: true, Count: int64(len(in))})
	var lines []string
	for i, kind := range kinds {
		lines = append(lines, fmt.Sprintf("%s %d", kind, i+1))
	}
	want(t, c, lines...)
	frames, _, _ := readAll(NewSplitter(bytes.NewReader(c.raw.Bytes())))
	for i, frame := range frames {
		if err := scanner.Scan(in[i], &f); err != nil {
			t.Fatal(err)
		}
		if same, err := f.Append(nil, int64(i)+1); err != nil || !bytes.Equal(same, frame) || seqs[i] != int64(i)+1 {
			t.Errorf("frame %d, number %d: %v, got %x", i+1, seqs[i], err, frame)
		}
	}
	c = follow(Options{HasCursor: true, Cursor: 3, Count: 2, Exclude: []string{"commit", "identity"}})
	lines = slices.DeleteFunc(lines[3:], func(line string) bool {
		return strings.HasPrefix(line, "commit") || strings.HasPrefix(line, "identity")
	})
	want(t, c, lines[:2]...)

	c = newCollector()
	err := startFollow(t, Options{Relay: at(t, url), HasCursor: true, Cursor: 99}, c).wait(t)
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Name != firehose.FutureCursor {
		t.Errorf("hard case 5: %v", err)
	}
	var p published
	_, err = Publish(t.Context(), NewSplitter(strings.NewReader("\xa0\xa0")), p.options(t, Address(url)))
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Status != 400 || refusal.Name != "InvalidRequest" {
		t.Errorf("F52: %v", err)
	}
}

// Hard case 42 and F27: an orderly restart is a gap in the connection and none
// in the numbers. Hard case 8: after a kill the cursor is outdated, and what is
// published then has numbers above.
func TestRestarts(t *testing.T) {
	url, set := settings(t)
	r := testrelay.Start(t, set...)
	c := newCollector()
	first := publishTo(t, url, identity(t, 1))
	f := startFollow(t, Options{Relay: at(t, url), HasCursor: true, Count: 3}, c)
	c.await(t, fmt.Sprintf("identity %d", first[0]))
	testrelay.Stop(t, r)
	c.await(t, "# connection lost: ")

	p := testrelay.SpawnKilled(t, set...)
	c.await(t, fmt.Sprintf("# connected, after number %d", first[0]))
	second := publishTo(t, url, identity(t, 1))
	c.await(t, fmt.Sprintf("identity %d", second[0]))
	if strings.Contains(c.lines(), "cursor are gone") {
		t.Errorf("F27: an orderly restart is told as a gap:\n%s", c.lines())
	}
	p.Kill()

	testrelay.SpawnKilled(t, set...)
	c.await(t, fmt.Sprintf("# connected, after number %d", second[0]))
	c.await(t, "# frames after the cursor are gone: OutdatedCursor")
	third := publishTo(t, url, identity(t, 1))
	if err := f.wait(t); err != nil {
		t.Error(err)
	}
	c.await(t, fmt.Sprintf("identity %d", third[0]))
	if first[0] >= second[0] || second[0] >= third[0] {
		t.Errorf("numbers %v, %v, %v", first, second, third)
	}
}
