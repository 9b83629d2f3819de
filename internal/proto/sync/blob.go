package sync

import (
	"bytes"
	"crypto/sha256"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

// withHash checks the hash of a chunk's path and takes the owner, or answers 400
// (S45).
func (s *Surface) withHash(rq *request) bool {
	if !syncwire.ValidHash(rq.tail) {
		s.refuseHead(rq.x, rq.isHead, syncwire.BadHash, "the hash is not 43 base64url characters in their canonical spelling")
		return false
	}
	return s.withOwner(rq)
}

// blobFields are the header fields of a chunk (S45).
func blobFields(hash string) []http1.Field {
	return []http1.Field{
		originField, exposeField,
		{Name: "Content-Type", Value: "application/octet-stream"},
		{Name: "ETag", Value: `"` + hash + `"`},
		{Name: "Cache-Control", Value: "private, max-age=31536000, immutable"},
	}
}

// getBlob implements GET and HEAD of a chunk.
func (s *Surface) getBlob(rq *request) {
	if !s.withHash(rq) {
		return
	}
	auth, hash, isHead := rq.auth, rq.tail, rq.isHead
	if isHead || matches(rq.head.Values("If-None-Match"), hash) {
		s.job(rq.x, func() func(*serve.Exchange) {
			n, err := s.store.BlobSize(auth, hash)
			return func(x *serve.Exchange) { s.answerSize(x, isHead, hash, n, err) }
		})
		return
	}
	s.job(rq.x, func() func(*serve.Exchange) {
		body, err := s.store.Blob(auth, hash)
		return func(x *serve.Exchange) {
			if err != nil {
				s.fail(x, false, err)
				return
			}
			s.lend(x, &http1.Response{Status: 200, Fields: blobFields(hash), Body: body, KeepAlive: true})
		}
	})
}

// answerSize answers HEAD, and a GET whose client has the chunk already.
func (s *Surface) answerSize(x *serve.Exchange, isHead bool, hash string, n int64, err error) {
	switch {
	case err != nil:
		s.fail(x, isHead, err)
	case !isHead:
		x.Respond(&http1.Response{Status: 304, Fields: blobFields(hash), KeepAlive: true})
	default:
		x.Respond(&http1.Response{
			Status: 200, Fields: blobFields(hash), Body: s.blankBody(n), NoBody: true, KeepAlive: true,
		})
	}
}

// blankBody is a body of n octets of which only the length counts.
func (s *Surface) blankBody(n int64) []byte {
	if n > int64(len(s.blank)) { // stored under a higher limit
		return make([]byte, n)
	}
	return s.blank[:n]
}

// matches tells whether one of the entity tags is the chunk's (RFC 9110 section
// 13.1.2): they are compared weakly, and * is any.
func matches(values [][]byte, hash string) bool {
	for _, v := range values {
		for len(v) > 0 {
			var tag []byte
			tag, v, _ = bytes.Cut(v, []byte(","))
			tag = bytes.TrimPrefix(bytes.TrimSpace(tag), []byte("W/"))
			if string(tag) == "*" || len(tag) == len(hash)+2 && tag[0] == '"' && string(tag[1:len(tag)-1]) == hash && tag[len(tag)-1] == '"' {
				return true
			}
		}
	}
	return false
}

// upload is the body of PUT of a chunk (S45). While it comes the store is asked
// who the client is and whether the chunk is there already, which answers before
// anything is said about the body. It implements serve.Body. Owned by the loop.
type upload struct {
	intake
	auth     store.Auth
	hash     string
	tooLarge bool
	coded    bool // it has a Content-Encoding
	body     []byte

	admitted bool // the client may store it, and it is not there
	ended    bool // all of the body is there
	storing  bool // a job or the store has the body
}

// putBlob implements PUT of a chunk as far as the head goes.
func (s *Surface) putBlob(rq *request) {
	if !s.withHash(rq) {
		return
	}
	b := &upload{
		auth: rq.auth, hash: rq.tail,
		tooLarge: rq.head.ContentLength > s.cfg.MaxBlobBytes, coded: isCoded(rq.head),
	}
	b.begin(s, rq.x)
	rq.x.AwaitBody(b) // a client that asks may be told that the chunk is there
	auth, hash := b.auth, b.hash
	s.job(rq.x, func() func(*serve.Exchange) {
		duplicate, err := s.store.AdmitBlob(auth, hash)
		return func(*serve.Exchange) { b.onAdmit(duplicate, err) }
	})
}

// isCoded tells whether a body is encoded in any way but identity.
func isCoded(h *http1.Head) bool {
	for _, v := range h.Values("Content-Encoding") {
		if !bytes.EqualFold(v, []byte("identity")) {
			return true
		}
	}
	return false
}

// onAdmit goes through the checks in the order of S16.
func (b *upload) onAdmit(duplicate bool, err error) {
	switch s := b.s; {
	case err != nil:
		b.drop()
		s.fail(b.x, false, err)
	case s.cfg.WritesDisabled:
		b.drop()
		s.refuseDisabled(b.x)
	case duplicate:
		b.drop()
		respond(b.x, syncwire.AppendBlobStored(nil, false))
	default:
		b.admitted = true
		b.goOn()
	}
}

// goOn does what can be done with what is there of an admitted body.
func (b *upload) goOn() {
	switch {
	case !b.admitted || b.storing:
	case b.tooLarge:
		b.drop()
		b.s.refuse(b.x, syncwire.BlobTooLarge, "the chunk is too large")
	case b.coded:
		b.drop()
		b.s.refuse(b.x, syncwire.BadRequest, "a chunk has no content encoding")
	case b.ended:
		b.verify()
	default:
		b.x.Continue()
	}
}

// Data implements serve.Body.
func (b *upload) Data(_ *serve.Exchange, p []byte) {
	b.got += int64(len(p))
	switch {
	case b.tooLarge || b.coded:
		return // the answer to whether it is there comes first
	case b.got > b.s.cfg.MaxBlobBytes:
		b.tooLarge = true
		b.drop()
		b.goOn()
	case !b.take(int64(len(p))):
		b.drop()
		b.s.tooBusy(b.x)
	default:
		b.body = append(b.body, p...)
	}
}

// End implements serve.Body.
func (b *upload) End(*serve.Exchange) {
	b.ended = true
	b.goOn()
}

// verify compares the hash off the loop, and then stores the chunk.
func (b *upload) verify() {
	b.storing = true
	s, auth, hash, body, l := b.s, b.auth, b.hash, b.body, b.w.Loop()
	s.job(b.x, func() func(*serve.Exchange) {
		if syncwire.HashString(sha256.Sum256(body)) != hash {
			return func(x *serve.Exchange) {
				s.refuse(x, syncwire.HashMismatch, "the body has another SHA-256 than the path says")
			}
		}
		s.store.PutBlobAsync(auth, hash, body, func(stored bool, err error) {
			post(l, func() { s.answerStored(b.x, stored, err) })
		})
		return func(*serve.Exchange) {}
	})
}

// answerStored answers an upload, if that is still wanted. Loop only.
func (s *Surface) answerStored(x *serve.Exchange, stored bool, err error) {
	switch {
	case !x.Alive():
	case err != nil:
		s.fail(x, false, err)
	default:
		respond(x, syncwire.AppendBlobStored(nil, stored))
	}
}

// drop gives the memory of the body back.
func (b *upload) drop() {
	b.body = nil
	b.give(b.taken)
}

// Done implements serve.Body. What the store has of the body it keeps alive.
func (b *upload) Done() {
	b.drop()
}
