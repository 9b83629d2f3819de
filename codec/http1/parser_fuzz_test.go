package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"testing"
)

// FuzzParser proves H1, that no input makes the parser panic, hang or hold more
// than its bound, and that where net/http accepts the same request as well, it
// reads the same: a relay must not see other requests than its neighbours.
func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		pipeline, get(), string(usualPost),
		line("GET http://x.example:80/a?b HTTP/1.1"), line("OPTIONS * HTTP/1.1"), line("GET //a/b HTTP/1.1"),
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		host("[::1]:80"), host("a%20b"), line("GET http://%80 HTTP/1.1"),
		post("Content-Length: 2") + "xyGET",
		post("Content-Length: 6", "Transfer-Encoding: chunked") + "0\r\n\r\n",
		post("Transfer-Encoding: chunked") + "1;a=b\r\nx\r\n0\r\nT: t\r\n\r\n",
		post("Transfer-Encoding: chunked") + "1;\x01\r\n0\r\n0\r\n\r\n",
		post("Expect: 100-continue", "Content-Length: 0007") + "1234567",
		get("Upgrade: websocket", "Connection: upgrade", "Trailer: X"),
	} {
		f.Add([]byte(seed), []byte{1, 30, 2})
		f.Add([]byte(seed), []byte{})
	}
	s := NewScratch()
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		if len(in) > HeadBytes+1000 {
			return
		}
		whole := transcribe(t, s, in)
		pieces := octets(in, 1)
		if len(cuts) > 0 {
			pieces = cutBy(in, cuts)
		}
		if split := transcribe(t, s, pieces...); split.String() != whole.String() {
			t.Fatalf("%q: whole\n%v\nsplit %v\n%v", in, whole, cuts, split)
		}
		if len(whole.requests) > 0 {
			refused := whole.err != nil && len(whole.requests) == 1
			compareWithNetHTTP(t, s, in, whole.requests[0], refused)
		}
	})
}

// cutBy splits in into pieces with the sizes in cuts, over and over.
func cutBy(in, cuts []byte) (pieces [][]byte) {
	for i := 0; len(in) > 0; i++ {
		n := min(int(cuts[i%len(cuts)]), len(in))
		if n == 0 && i%len(cuts) == len(cuts)-1 {
			n = len(in) // cuts may be all zero
		}
		pieces, in = append(pieces, in[:n]), in[n:]
	}
	return pieces
}

// compareWithNetHTTP reads the first request of in with net/http. What only one
// side accepts is no matter here: refused tells that the parser took the head,
// and not all of the body, as with a control character in a chunk's extension.
func compareWithNetHTTP(t *testing.T, s *Scratch, in []byte, got request, refused bool) {
	t.Helper()
	for bytes.HasPrefix(in, []byte("\r\n")) {
		in = in[2:]
	}
	var p Parser
	if _, step, _, err := p.Feed(s, in); err != nil || step != GotHead {
		t.Fatalf("%q: no head any more: %v", in, err)
	}
	h := p.Head()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
	if err != nil {
		return
	}
	defer r.Body.Close()
	if r.Method != string(h.Method) || r.RequestURI != string(h.Target) || r.ProtoMinor != int(h.Minor) ||
		r.ContentLength != h.ContentLength || !sameHost(r.Host, string(h.Host)) {
		t.Errorf("%q: %s; net/http: %s %q 1.%d host=%q length=%d",
			in, describe(h), r.Method, r.RequestURI, r.ProtoMinor, r.Host, r.ContentLength)
	}
	for name, values := range r.Header {
		if h.HeaderCount(name) != len(values) || string(h.Header(name)) != values[0] {
			t.Errorf("%q: header %s is %q, %d times; net/http: %q", in, name, h.Header(name), h.HeaderCount(name), values)
		}
	}
	compareBody(t, in, r, got, refused)
}

// sameHost reports whether net/http has read the host that was sent. It
// decodes what is percent-encoded, in a target of absolute form only.
func sameHost(read, sent string) bool {
	decoded, err := url.PathUnescape(sent)
	return read == sent || err == nil && read == decoded
}

func compareBody(t *testing.T, in []byte, r *http.Request, got request, refused bool) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err == nil && got.done && !bytes.Equal(body, got.body) || err == nil && !got.done && !refused {
		t.Errorf("%q: body %q, done %v; net/http: %q", in, got.body, got.done, body)
	}
}
