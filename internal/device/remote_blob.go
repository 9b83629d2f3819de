package device

import (
	"bytes"
	"context"
	"errors"
	"net/http"
)

const reasonBadChunk = "bad_chunk"

func blobPath(hash string) string { return "/v1/blobs/" + hash }

// headBlob tells whether the relay has a chunk (S45). It has none of an owner
// that it does not know.
func (r *remote) headBlob(ctx context.Context, hash string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, shortTime)
	defer cancel()
	resp, err := r.do(ctx, http.MethodHead, blobPath(hash), r.owner(), nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, r.refusal(resp)
}

// putBlob stores a chunk at the relay. The bytes are borrowed until return.
func (r *remote) putBlob(ctx context.Context, hash string, sealed []byte) error {
	ctx, cancel := context.WithTimeout(ctx, longTime)
	defer cancel()
	resp, err := r.do(ctx, http.MethodPut, blobPath(hash), r.owner(), bytes.NewReader(sealed))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return r.refusal(resp)
	}
	_, err = readBounded(resp, maxAnswerBytes)
	return err
}

// getBlob returns what the relay has under a hash, unverified and bounded: the
// *fault of what is longer than any chunk is bad_chunk.
func (r *remote) getBlob(ctx context.Context, hash string) ([]byte, error) {
	sealed, err := r.call(ctx, longTime, http.MethodGet, blobPath(hash), r.owner(), nil, maxSealedBytes)
	if f, ok := errors.AsType[*fault](err); ok {
		return nil, &fault{reasonBadChunk, f.detail}
	}
	return sealed, err
}
