package http1

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// pipeline is two POSTs around a chunked one, and a GET.
const pipeline = "POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" +
	"\r\nPOST /events?x=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
	"5\r\nhello\r\nA;x=y;z=\"q\"\r\n0123456789\r\n000\r\nX-T: 1\r\nX-U:\r\n\r\n" +
	"POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\n\r\n\r" +
	"GET /healthz HTTP/1.0\r\n\r\n"

const pipelineWant = `POST "/events" path="/events" query="" 1.1 host="a"/true length=5 keep=true expect=false ws=false Host="a" Content-Length="5" body="hello" done=true
POST "/events?x=1" path="/events" query="x=1" 1.1 host="a"/true length=-1 keep=true expect=false ws=false Host="a" Transfer-Encoding="chunked" body="hello0123456789" done=true
POST "/events" path="/events" query="" 1.1 host="a"/true length=3 keep=false expect=false ws=false Host="a" Content-Length="3" Connection="close" body="\r\n\r" done=true
GET "/healthz" path="/healthz" query="" 1.0 host=""/false length=0 keep=false expect=false ws=false body="" done=true
idle=true head=false body=false err=<nil>`

// TestSplits is C07 and H1: every cut into two pieces, every piece size, and
// every cut into three give the same requests.
func TestSplits(t *testing.T) {
	in, s := []byte(pipeline), NewScratch()
	check := func(what string, pieces ...[]byte) {
		t.Helper()
		if got := strings.Replace(transcribe(t, s, pieces...).String(), "err=http1: ", "err=", 1); got != pipelineWant {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, pipelineWant)
		}
	}
	for i := range in {
		check(fmt.Sprint("cut at ", i), in[:i], in[i:])
		check(fmt.Sprint("pieces of ", i+1), octets(in, i+1)...)
		for j := i; j < len(in); j += 7 {
			check(fmt.Sprint("cut at ", i, " and ", j), in[:i], in[i:j], in[j:])
		}
	}
}

// TestSplitPending: at every prefix the parser tells where it is.
func TestSplitPending(t *testing.T) {
	head := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	in := "\r\n" + head + "1\r\nx\r\n0\r\nT: 1\r\n\r\n"
	s := NewScratch()
	for i := range len(in) + 1 {
		var want string
		switch {
		case i <= 2 || i == len(in):
			want = "idle=true head=false body=false"
		case i < 2+len(head):
			want = "idle=false head=true body=false"
		default:
			want = "idle=false head=false body=true"
		}
		if got := transcribe(t, s, octets([]byte(in[:i]), 3)...); got.err != nil || got.pending != want {
			t.Errorf("after %q: %v, want %s", in[:i], got, want)
		}
	}
}

// TestEndWithoutBody: the end comes by a call of its own, which may have no
// input; the head stays readable until then.
func TestEndWithoutBody(t *testing.T) {
	var p Parser
	s := NewScratch()
	in := []byte(get())
	n, step, _, err := p.Feed(s, in)
	if n != len(in) || step != GotHead || err != nil || p.Idle() || p.InBody() || p.InHead() {
		t.Fatalf("%d %d %v", n, step, err)
	}
	clear(in)
	if string(p.Head().Path) != "/events" || string(p.Head().Header("host")) != "a" {
		t.Errorf("the head does not outlive its input: %s", describe(p.Head()))
	}
	if n, step, _, err = p.Feed(s, nil); n != 0 || step != GotEnd || err != nil || !p.Idle() {
		t.Fatalf("%d %d %v", n, step, err)
	}
	if n, step, _, err = p.Feed(s, nil); n != 0 || step != NeedMore || err != nil || p.Head() != nil {
		t.Fatalf("%d %d %v", n, step, err)
	}
}

// TestBodyIsBorrowed: body octets are slices of the input, never copies.
func TestBodyIsBorrowed(t *testing.T) {
	var p Parser
	s := NewScratch()
	in := []byte(post("Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n")
	rest, found := in, false
	for {
		n, step, data, err := p.Feed(s, rest)
		if err != nil {
			t.Fatal(err)
		}
		if step == GotBody {
			found = true
			if &data[0] != &in[bytes.Index(in, []byte("abc"))] || len(data) != 3 {
				t.Errorf("%q is not a slice of the input", data)
			}
		}
		if rest = rest[n:]; step == NeedMore {
			break
		}
	}
	if !found {
		t.Error("no body")
	}
}

// TestHeadLimit is R47 and C06: a head of HeadBytes passes, one octet more is
// 431, whichever part is long and however it comes.
func TestHeadLimit(t *testing.T) {
	s := NewScratch()
	pad := func(in string, size int) string {
		return strings.Replace(in, "PAD", strings.Repeat("p", size-len(in)+3), 1)
	}
	many := func(size int) string {
		in := get(strings.TrimSuffix(strings.Repeat("a:\r\n", (size-100)/4), "\r\n"), "PAD: 1")
		return pad(in, size)
	}
	for name, build := range map[string]func(size int) string{
		"request line": func(size int) string { return pad(line("GET /?PAD HTTP/1.1"), size) },
		"one header":   func(size int) string { return pad(get("X: PAD"), size) },
		"many headers": many,
		"method":       func(size int) string { return pad(line("PAD / HTTP/1.1"), size) },
		"name":         func(size int) string { return pad(get("PAD: 1"), size) },
	} {
		for _, piece := range []int{1 << 20, 16 << 10, 1000, 7} {
			for size, want := range map[int]*Error{HeadBytes: nil, HeadBytes + 1: ErrHeadTooLarge} {
				in := build(size)
				if len(in) != size {
					t.Fatalf("%s: built %d octets, want %d", name, len(in), size)
				}
				got := transcribe(t, s, octets([]byte("\r\n"+in), piece)...)
				if got.err != want || want == nil && (len(got.requests) != 1 || !got.requests[0].done) {
					t.Errorf("%s of %d octets in pieces of %d: err %v, %d requests", name, size, piece, got.err, len(got.requests))
				}
			}
		}
	}
}

// TestScratchIsBounded: heads whose one long value stands in another place each
// time would make fasthttp keep a long buffer per place.
func TestScratchIsBounded(t *testing.T) {
	s := NewScratch()
	retained := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := retained()
	value := "V: " + strings.Repeat("v", 100<<10)
	for i := range 300 { // 30 MiB if all were kept
		lines := append(slices.Repeat([]string{"a:"}, i), value)
		if got := transcribe(t, s, []byte(get(lines...))); got.err != nil {
			t.Fatal(got.err)
		}
	}
	if after := retained(); after > before+10<<20 {
		t.Errorf("%d MiB retained", (after-before)>>20)
	}
	runtime.KeepAlive(s)
}

// TestEndlessHead: what never ends is refused after HeadBytes, not held.
func TestEndlessHead(t *testing.T) {
	var p Parser
	s := NewScratch()
	piece := []byte("X-Filler: 0123456789\r\n")
	if _, _, _, err := p.Feed(s, []byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	for fed := 0; ; fed += len(piece) {
		_, _, _, err := p.Feed(s, piece)
		if p.HeldBytes() > 2*HeadBytes {
			t.Fatalf("%d bytes held", p.HeldBytes())
		}
		if err != nil {
			if err != ErrHeadTooLarge || fed > HeadBytes || p.HeldBytes() != 0 {
				t.Errorf("%v after %d octets, %d held", err, fed, p.HeldBytes())
			}
			return
		}
	}
}

// TestMemory is H2: the parser is small, holds nothing at rest and while a body
// comes, and believes no declared size.
func TestMemory(t *testing.T) {
	if size := unsafe.Sizeof(Parser{}); size > 96 {
		t.Errorf("a parser takes %d bytes", size)
	}
	var p Parser
	s := NewScratch()
	in := []byte(post("Content-Length: 9223372036854775807"))
	for i := range in {
		if _, _, _, err := p.Feed(s, in[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if held := p.HeldBytes(); held > max(minHoldBytes, 2*i) || (held > 0) != p.InHead() {
			t.Fatalf("%d bytes held after %d octets", held, i+1)
		}
	}
	data := make([]byte, 1<<16)
	if allocs := testing.AllocsPerRun(100, func() {
		if n, step, _, err := p.Feed(s, data); n != len(data) || step != GotBody || err != nil {
			t.Fatal(n, step, err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations per piece of a body", allocs)
	}
}

// TestScratchIsShared: connections take turns on one scratch in mid-head.
func TestScratchIsShared(t *testing.T) {
	s := NewScratch()
	var parsers [5]Parser
	var seen [5]transcript
	for i := range len(pipeline) {
		for j := range parsers {
			seen[j].feed(t, &parsers[j], s, []byte(pipeline[i:i+1]))
		}
	}
	for j := range seen {
		seen[j].pending = "idle=true head=false body=false"
		if got := seen[j].String(); got != pipelineWant {
			t.Errorf("connection %d: got\n%s", j, got)
		}
	}
}

// TestUsualPostDoesNotAllocate covers a POST that arrives whole and one cut in
// its head.
func TestUsualPostDoesNotAllocate(t *testing.T) {
	var p Parser
	s := NewScratch()
	feed := func(in []byte) {
		for {
			n, step, _, err := p.Feed(s, in)
			if err != nil {
				t.Fatal(err)
			}
			if in = in[n:]; step == NeedMore {
				return
			}
		}
	}
	for _, cut := range []int{0, 100, len(usualPost) - 300} {
		if allocs := testing.AllocsPerRun(100, func() {
			feed(usualPost[:cut])
			feed(usualPost[cut:])
		}); allocs != 0 {
			t.Errorf("cut at %d: %v allocations", cut, allocs)
		}
	}
}

// TestDrippedHeadIsLinear counts: a head of 100 KB that comes octet by octet is
// copied into buffers whose sizes add up to a small multiple of its own.
func TestDrippedHeadIsLinear(t *testing.T) {
	in := []byte(get("X: " + strings.Repeat("x", 100<<10)))
	var p Parser
	s := NewScratch()
	copied, last := 0, 0
	for i := range in[:len(in)-1] {
		if _, step, _, err := p.Feed(s, in[i:i+1]); step != NeedMore || err != nil {
			t.Fatal(step, err)
		}
		if c := p.HeldBytes(); c != last {
			copied, last = copied+c, c
		}
	}
	if copied > 8*len(in) {
		t.Errorf("buffers of %d bytes in all for a head of %d", copied, len(in))
	}
	if allocs := testing.AllocsPerRun(10, func() {
		var p Parser
		for i := range in {
			p.Feed(s, in[i:i+1])
		}
	}); allocs > 40 {
		t.Errorf("%v allocations", allocs)
	}
}
