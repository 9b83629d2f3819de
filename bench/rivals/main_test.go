package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/bench/rivals/floor"
)

func isFloor(name string) bool { return strings.HasPrefix(name, "floor") }

// post posts lines as NDJSON.
func post(t *testing.T, addr string, lines []string, want int) {
	t.Helper()
	body := strings.NewReader(strings.Join(lines, "\n") + "\n")
	r, err := http.Post("http://"+addr+"/events", "application/x-ndjson", body)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	answer, _ := io.ReadAll(r.Body)
	if r.StatusCode != want || want == 202 && len(answer) > 0 {
		t.Errorf("status %d %q, want %d", r.StatusCode, answer, want)
	}
}

// TestIngestStatus checks the answers of POST /events.
func TestIngestStatus(t *testing.T) {
	list := events(3, 300, "s0")
	cases := []struct {
		name  string
		lines []string
		want  int
	}{
		{"a valid batch is accepted", list, 202},
		{"a bad line refuses the batch", []string{list[0], `{"id":`}, 400},
		{"bad JSON in a member that is not read", []string{`{"id":"1","type":"t","time":"t","session":"s","data":{]}`}, 400},
		{"no id", []string{`{"type":"t","time":"t","session":"s"}`}, 400},
		{"an empty body", nil, 202},
	}
	forEachRival(t, func(t *testing.T, name, addr string) {
		for _, c := range cases {
			want := c.want
			if isFloor(name) {
				want = 404
			}
			t.Run(c.name, func(t *testing.T) { post(t, addr, c.lines, want) })
		}
	})
}

// TestNotAWebSocket checks that a plain request to /ws ends with an error.
func TestNotAWebSocket(t *testing.T) {
	forEachRival(t, func(t *testing.T, _, addr string) {
		for _, path := range []string{"/ws", "/pub", "/nothing"} {
			r, err := http.Get("http://" + addr + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
			if r.StatusCode < 400 {
				t.Errorf("%s: status %d", path, r.StatusCode)
			}
		}
	})
}

// TestRun checks the command line up to a serving process and its end.
func TestRun(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"gobwas", "-addr", addr}, io.Discard) }()
	for {
		select {
		case err := <-ended:
			t.Fatalf("ended at once: %v", err)
		default:
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestExitCodes checks the codes of wrong arguments and missing io_uring.
func TestExitCodes(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"nobody", "-addr", "127.0.0.1:0"},
		{"gobwas"},
		{"gobwas", "-addr", "x", "y"},
		{"gobwas", "-nothing"},
		{"floor", "-addr", "127.0.0.1:0", "-loops", "0"},
	} {
		err := run(t.Context(), args, io.Discard)
		if code := exitCode(err); err == nil || code != exitUsage {
			t.Errorf("%q: %v, code %d, want %d", args, err, code, exitUsage)
		}
	}
	if code := exitCode(fmt.Errorf("start: %w", floor.ErrUringUnavailable)); code != exitNoUring {
		t.Errorf("no io_uring: code %d, want %d", code, exitNoUring)
	}
	if code := exitCode(errors.New("no port")); code != exitFailure {
		t.Errorf("failure: code %d, want %d", code, exitFailure)
	}
}

// TestList checks that each rival is in the list.
func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"list"}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(rivals) {
		t.Fatalf("%d lines, want %d", len(lines), len(rivals))
	}
	for i, r := range rivals {
		if name, _, _ := strings.Cut(lines[i], " "); name != r.name {
			t.Errorf("line %d names %q, want %q", i, name, r.name)
		}
	}
}
