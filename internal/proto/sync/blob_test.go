package sync

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/syncwire"
)

func hashOf(body string) string { return syncwire.HashString(sha256.Sum256([]byte(body))) }

func blobPath(hash string) string { return "/v1/blobs/" + hash + query }

func (r *rig) put(what, body, want string) {
	r.t.Helper()
	r.wantBody(what, r.do("PUT", blobPath(hashOf(body)), tokenA, body), want)
}

const (
	storedAnswer    = `{"stored":true,"duplicate":false}`
	duplicateAnswer = `{"stored":false,"duplicate":true}`
)

// TestBlobRoundTrip: S45 and hard cases 33, 35, 36.
func TestBlobRoundTrip(t *testing.T) {
	r := newRig(t)
	large := strings.Repeat("0123456789abcdef", 1<<16) + strings.Repeat("z", 1024)
	for _, body := range []string{"", "x", large} { // 33: an empty one registers too
		r.put("new", body, storedAnswer)
		r.put("again", body, duplicateAnswer)
		hash := hashOf(body)
		res := r.do("GET", blobPath(hash), tokenA, "")
		if res.Status != 200 || !bytes.Equal(res.Body, []byte(body)) {
			t.Errorf("GET of %d bytes: %d, %d bytes", len(body), res.Status, len(res.Body))
		}
		isHead := r.do("HEAD", blobPath(hash), tokenA, "")
		for _, h := range []string{"Content-Type", "Content-Length", "ETag", "Cache-Control"} {
			if got := res.Header.Get(h); got == "" || got != isHead.Header.Get(h) {
				t.Errorf("%s is %q for GET and %q for HEAD", h, got, isHead.Header.Get(h))
			}
		}
		if isHead.Status != 200 || res.Header.Get("Content-Length") != fmt.Sprint(len(body)) ||
			res.Header.Get("Cache-Control") != "private, max-age=31536000, immutable" || res.Header.Get("ETag") != `"`+hash+`"` {
			t.Errorf("HEAD %d, GET %v", isHead.Status, res.Header)
		}
	}
	if n := r.used(); n != int64(len(large)+1) {
		t.Errorf("%d bytes", n)
	}
	missing := hashOf("missing")
	r.want("GET unknown", r.do("GET", blobPath(missing), tokenA, ""), 404, "unknown_blob")
	res := r.do("HEAD", blobPath(missing), tokenA, "")
	if res.Status != 404 || len(res.Body) != 0 {
		t.Errorf("36: HEAD unknown: %d %q", res.Status, res.Body)
	}
	other := "/v1/blobs/" + hashOf("x") + "?ownerId=other"
	r.wantBody("other owner", r.do("PUT", strings.Replace(other, hashOf("x"), hashOf("y"), 1), tokenB, "y"), storedAnswer)
	r.want("35: of another owner", r.do("GET", other, tokenB, ""), 404, "unknown_blob")
	r.want("wrong token", r.do("GET", blobPath(hashOf("x")), tokenB, ""), 401, "unauthorized")
}

// TestBlobIfNoneMatch: S45.
func TestBlobIfNoneMatch(t *testing.T) {
	r := newRig(t)
	r.put("new", "x", storedAnswer)
	hash := hashOf("x")
	for _, c := range []struct {
		field  string
		status int
	}{
		{`"` + hash + `"`, 304},
		{`"other", W/"` + hash + `"`, 304},
		{`*`, 304},
		{`"other"`, 200},
		{hash, 200},
	} {
		res := r.do("GET", blobPath(hash), tokenA, "", "If-None-Match: "+c.field)
		if res.Status != c.status || res.Status == 304 && len(res.Body) > 0 || res.Header.Get("ETag") == "" {
			t.Errorf("%s: %d %q, want %d", c.field, res.Status, res.Body, c.status)
		}
	}
	r.want("unknown", r.do("GET", blobPath(hashOf("y")), tokenA, "", "If-None-Match: *"), 404, "unknown_blob")
}

// TestBlobFaults: hard cases 30 and 32, and the order of S16.
func TestBlobFaults(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxBlobBytes = 1000 })
	good := hashOf("x")
	spare := good[:42] + string(good[42]+1)
	chunked := func(token, body string) string {
		return head("PUT", blobPath(hashOf(body)), token, "Transfer-Encoding: chunked") +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	r.want("30: spare bits", r.do("PUT", blobPath(spare), tokenA, "x"), 400, "bad_hash")
	r.want("padded", r.do("PUT", blobPath(good+"="), tokenA, "x"), 400, "bad_hash")
	r.want("other body", r.do("PUT", blobPath(good), tokenA, "y"), 400, "hash_mismatch")
	r.want("32: one too many, chunked", r.raw("PUT", chunked(tokenA, strings.Repeat("x", 1001))), 413, "blob_too_large")
	r.want("one too many", r.do("PUT", blobPath(good), tokenA, strings.Repeat("x", 1001)), 413, "blob_too_large")
	r.want("coded", r.do("PUT", blobPath(good), tokenA, "x", "Content-Encoding: gzip"), 400, "bad_request")
	r.want("no owner", r.do("PUT", "/v1/blobs/"+good, tokenA, "x"), 400, "bad_request")
	r.want("two owners", r.do("PUT", blobPath(good)+"&ownerId=b", tokenA, "x"), 400, "bad_request")
	r.unknown("faults register nobody")
	r.wantBody("at the limit, chunked", r.raw("PUT", chunked(tokenA, strings.Repeat("x", 1000))), storedAnswer)
	r.wantBody("identity", r.do("PUT", blobPath(good), tokenA, "x", "Content-Encoding: identity"), storedAnswer)
	r.want("wrong token first", r.raw("PUT", chunked(tokenB, strings.Repeat("x", 1001))), 401, "unauthorized")
	r.want("wrong token, other body", r.do("PUT", blobPath(good), tokenB, "y"), 401, "unauthorized")

	off := newRig(t, func(c *Config) { c.WritesDisabled = true })
	off.want("kill switch", off.do("PUT", blobPath(good), tokenA, "x"), 503, "writes_disabled")
	off.unknown("kill switch")
}

// TestBlobEarly: hard case 31, with and without a body that comes all the same;
// and a size told in the head is refused before the body (S46).
func TestBlobEarly(t *testing.T) {
	r := newRig(t)
	r.put("new", "x", storedAnswer)
	declared := func(hash string) string {
		return head("PUT", blobPath(hash), tokenA, "Content-Length: 1073741824")
	}
	r.wantBody("31", r.raw("PUT", declared(hashOf("x"))), duplicateAnswer)
	r.wantBody("31, with 2 MiB", r.raw("PUT", declared(hashOf("x"))+strings.Repeat("y", 2<<20)), duplicateAnswer)
	r.want("too large, no body", r.raw("PUT", declared(hashOf("y"))), 413, "blob_too_large")
	for range 20 {
		r.want("too large, with 2 MiB", r.raw("PUT", declared(hashOf("y"))+strings.Repeat("y", 2<<20)), 413, "blob_too_large")
	}
	expect := head("PUT", blobPath(hashOf("y")), tokenA, "Content-Length: 1", "Expect: 100-continue")
	c := r.dial()
	_ = c.SendString(expect)
	if res, err := c.ReadResponse("PUT", patience); err != nil || res.Status != 100 {
		t.Fatalf("Expect: %v %+v", err, res)
	}
	_ = c.SendString("y")
	r.wantBody("Expect", r.read(c, "PUT"), storedAnswer)
	// What is there, or too large, is told before the client is asked to send.
	r.wantBody("Expect, stored", r.raw("PUT", expect), duplicateAnswer)
	r.want("Expect, too large", r.raw("PUT", strings.Replace(declared(hashOf("z")), "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1)), 413, "blob_too_large")
}

// TestBlobAborted: hard case 34, at each stage of the early question.
func TestBlobAborted(t *testing.T) {
	r := newRig(t)
	release := r.gate.hold()
	for range 3 {
		c := r.dial()
		_ = c.SendString(head("PUT", blobPath(hashOf("xy")), tokenA, "Content-Length: 2") + "x")
		_ = c.Reset()
	}
	r.eventually("gone", func() bool { return r.server.Conns() == 0 })
	release()
	r.unknown("aborted")
	c := r.dial()
	_ = c.SendString(head("PUT", blobPath(hashOf("xy")), tokenA, "Content-Length: 2") + "x")
	_ = c.Reset()
	r.eventually("gone", func() bool { return r.server.Conns() == 0 })
	r.unknown("aborted")
}
