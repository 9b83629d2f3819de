package http1

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testDate = AppendDate(nil, time.Date(2026, 1, 2, 3, 4, 5, 999, time.FixedZone("", 3600)))

var responses = []struct {
	name     string
	response Response
	noDate   bool
}{
	{name: "R31 not found", response: Response{Status: 404, KeepAlive: true}},
	{name: "R50 body", response: Response{Status: 200, Fields: []Field{{"Content-Type", "application/json"}}, Body: []byte(`{"ok":true}`), KeepAlive: true}},
	{name: "no date", response: Response{Status: 202, KeepAlive: true}, noDate: true},
	{name: "C12 close", response: Response{Status: 202}},
	{name: "C12 1.0 keep-alive", response: Response{Status: 200, KeepAlive: true, HTTP10: true}},
	{name: "C12 1.0 close", response: Response{Status: 200, HTTP10: true}},
	{name: "R36 preflight", response: Response{Status: 204, Fields: []Field{{"Access-Control-Max-Age", "86400"}}, KeepAlive: true, Body: []byte("none")}},
	{name: "304", response: Response{Status: 304, Body: []byte("none"), KeepAlive: true}},
	{name: "R302 upgrade", response: Response{Status: 101, Fields: []Field{{"Upgrade", "websocket"}, {"Connection", "Upgrade"}, {"Sec-WebSocket-Accept", "x"}}}},
	{name: "HEAD", response: Response{Status: 200, Body: []byte("12345"), NoBody: true, KeepAlive: true}},
	{name: "R271 stream", response: Response{Status: 200, Fields: []Field{{"Content-Type", "text/event-stream"}, {"Connection", "keep-alive"}}, Stream: true, Chunked: true, KeepAlive: true}},
	{name: "R271 stream to 1.0", response: Response{Status: 200, Fields: []Field{{"Content-Type", "text/event-stream"}}, Stream: true, Chunked: true, HTTP10: true, KeepAlive: true}},
	{name: "stream until close", response: Response{Status: 200, Stream: true, KeepAlive: true}},
	{name: "chunked without stream", response: Response{Status: 200, Chunked: true, Body: []byte("x"), KeepAlive: true}},
	{name: "H4 splitting", response: Response{Status: 200, Fields: []Field{{"X", "a\r\nSet-Cookie: b\r\n\r\n<html>\x00\x7f"}, {"Bad\r\nName", "v"}, {"Bad: name", "v"}, {"", "v"}, {"Y", "\xc3\xa9\t"}}, KeepAlive: true}},
	{name: "framing fields", response: Response{Status: 200, Fields: []Field{{"content-length", "9"}, {"Transfer-Encoding", "chunked"}}, Body: []byte("x"), KeepAlive: true}},
	{name: "unknown status", response: Response{Status: 799, KeepAlive: true}},
	{name: "no status", response: Response{KeepAlive: true}},
}

// TestResponsesGolden compares with testdata/responses.txt: a name and the
// octets as a Go string a line.
func TestResponsesGolden(t *testing.T) {
	const file = "testdata/responses.txt"
	var got bytes.Buffer
	for _, c := range responses {
		date := testDate
		if c.noDate {
			date = nil
		}
		fmt.Fprintf(&got, "%s\t%q\n", c.name, AppendResponse(nil, &c.response, date))
	}
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("line %d of %s differs: got\n%s", i+1, file, got.String())
		}
	}
}

// TestResponsesAreRead lets net/http read what is written: the body ends where
// it should and nothing follows it.
func TestResponsesAreRead(t *testing.T) {
	for _, c := range responses {
		method := "GET"
		if c.response.NoBody {
			method = "HEAD"
		}
		wire := AppendResponse([]byte(nil), &c.response, testDate)
		want := string(c.response.Body)
		switch s := c.response.Status; {
		case c.response.Stream:
			want = "streamed"
			if c.response.Chunked && !c.response.HTTP10 {
				wire = append(AppendChunk(AppendChunk(wire, []byte("stre")), []byte("amed")), LastChunk...)
			} else {
				wire = append(wire, want...)
			}
		case c.response.NoBody || s == 101 || s == 204 || s == 304:
			want = ""
		}
		r := bufio.NewReader(bytes.NewReader(wire))
		got, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var body []byte
		if got.StatusCode != 101 { // net/http gives the connection as its body
			if body, err = io.ReadAll(got.Body); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		got.Body.Close()
		untilClose := c.response.Stream && (!c.response.Chunked || c.response.HTTP10)
		if string(body) != want || r.Buffered() > 0 ||
			got.Close != (untilClose || !c.response.KeepAlive) && got.StatusCode != 101 {
			t.Errorf("%s: body %q, want %q; %d octets after it; close %v", c.name, body, want, r.Buffered(), got.Close)
		}
	}
}

// TestNoFieldSplits is H4: no octet in a name or value makes a line of its own.
func TestNoFieldSplits(t *testing.T) {
	for c := range 256 {
		r := Response{Status: 200, KeepAlive: true, Fields: []Field{
			{"X", string([]byte{'a', byte(c), 'b'})},
			{string([]byte{'X', byte(c)}), "v"},
		}}
		wire := AppendResponse(nil, &r, []byte{'d', byte(c)})
		if strings.Count(string(wire), "\n") > 6 || strings.Count(string(wire), "\r") != strings.Count(string(wire), "\n") {
			t.Errorf("octet %#x: %q", c, wire)
		}
	}
}

func TestDate(t *testing.T) {
	if got := string(testDate); got != "Fri, 02 Jan 2026 02:04:05 GMT" {
		t.Error(got)
	}
}

func TestChunkOverhead(t *testing.T) {
	if got := AppendChunk(nil, nil); len(got) != 0 || ChunkOverhead(0) != 0 || ChunkOverhead(-1) != 0 {
		t.Errorf("an empty chunk ends the body: %q", got)
	}
	for size := 1; size < 70000; size = size*5/4 + 1 {
		for _, size := range []int{size, 1 << 4, 1<<4 - 1, 1 << 8, 1<<8 - 1, 1 << 16, 1<<16 - 1} {
			data := bytes.Repeat([]byte("x"), size)
			got := AppendChunk([]byte("a"), data)
			if want := fmt.Sprintf("a%x\r\n%s\r\n", size, data); string(got) != want || ChunkOverhead(size) != len(got)-1-size {
				t.Errorf("%d octets: overhead %d, told %d", size, len(got)-1-size, ChunkOverhead(size))
			}
		}
	}
}

func TestResponseDoesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 4096)
	r := &responses[1].response
	now := time.Now()
	if allocs := testing.AllocsPerRun(100, func() {
		dst = AppendResponse(dst[:0], r, testDate)
		dst = AppendChunk(dst, r.Body)
		dst = AppendDate(dst, now)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkAppendResponse(b *testing.B) {
	b.ReportAllocs()
	dst := make([]byte, 0, 4096)
	for b.Loop() {
		dst = AppendResponse(dst[:0], &responses[1].response, testDate)
	}
}
