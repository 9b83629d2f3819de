//go:build linux

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

var emitRateFlag = flag.Int("emit.events", 0, "events of TestEmitRate; 0 skips it")

const (
	rateSessions = 10
	rateBytes    = 300 // of an event
	rateLines    = 100 // of a request of the load client, over 4 connections, as the bench suite has it
	rateConns    = 4
)

// rateEvent appends event i, of rateBytes, and LF.
func rateEvent(dst []byte, i int) []byte {
	at := len(dst)
	dst = fmt.Appendf(dst, `{"aep":"0.1","id":"bench-%010d","type":"message.delta","time":"2026-01-01T00:00:00Z",`+
		`"source":"urn:bench","agent":"b","severity":"notice","session":"s%05d","seq":%d,"data":{"text":"`,
		i, i%rateSessions, 1_000_000+i/rateSessions)
	for len(dst)-at < rateBytes-3 {
		dst = append(dst, 'x')
	}
	return append(dst, "\"}}\n"...)
}

// TestEmitRate measures emit beside the bench's ingest client on one relay, in
// turns, and wants 70 % of its rate:
//
//	go test ./cmd/sluice -run TestEmitRate -v -emit.events 1000000
//
// Both have their bytes ready: emit reads a file, the load client a slice. Each
// round has new events, so that none is a duplicate.
func TestEmitRate(t *testing.T) {
	events := *emitRateFlag
	if events == 0 {
		t.Skip("measures for a minute; see -emit.events")
	}
	events -= events % rateLines
	p := startProcess(t, "")
	const rounds = 3
	var ingest, emit time.Duration
	for round := range rounds {
		var text []byte
		for i := range events {
			text = rateEvent(text, 2*round*events+i)
		}
		size := len(text) / events * rateLines
		head := "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAEP-Version: 0.1\r\n" +
			"Content-Type: application/x-ndjson\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n"
		out, err := load.Ingest(context.Background(), load.IngestLoad{
			Addr: p.addr, Conns: rateConns, Requests: events / rateLines,
			Body: func(dst []byte, request int) []byte {
				return append(append(dst, head...), text[request*size:(request+1)*size]...)
			},
		})
		if err != nil || out.Failed != 0 {
			t.Fatalf("ingest: %d failed, %v", out.Failed, err)
		}
		ingest += out.Wall

		text = text[:0]
		for i := range events {
			text = rateEvent(text, (2*round+1)*events+i)
		}
		path := filepath.Join(t.TempDir(), "events.ndjson")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		a := app{lookup: func(string) (string, bool) { return "", false }, stdout: &stderr, stderr: &stderr}
		begun := time.Now()
		if err := a.emitCommand().Run(context.Background(), []string{"emit", "--url", "http://" + p.addr, path}); err != nil {
			t.Fatalf("emit: %v, %s", err, stderr.String())
		}
		took := time.Since(begun)
		emit += took
		if want := fmt.Sprintf("%d events in, 0 refused", events); !strings.Contains(stderr.String(), want) {
			t.Errorf("emit says %q, want %q", stderr.String(), want)
		}
		t.Logf("round %d: ingest %.0f events/s, emit %.0f events/s", round,
			float64(events)/out.Wall.Seconds(), float64(events)/took.Seconds())
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	ratio := float64(ingest) / float64(emit)
	t.Logf("emit has %.0f %% of the rate of the ingest client", 100*ratio)
	if ratio < 0.7 {
		t.Errorf("emit has %.0f %% of the rate of the ingest client, want 70 %%", 100*ratio)
	}
}
