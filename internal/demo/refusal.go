package demo

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// final tells of an answer that stays the same however often one asks.
func final(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout:
		return false
	}
	return status >= 300 && status < 500
}

// explain says what an answer means for whoever started this, with a token or
// without.
func explain(r *http.Response, token bool) error {
	text, _ := io.ReadAll(io.LimitReader(r.Body, 1024))
	detail := strings.TrimSpace(string(text))
	switch {
	case r.StatusCode == http.StatusUnauthorized && !token:
		detail = "it wants a token: set AEP_TOKEN or --token-file"
	case r.StatusCode == http.StatusUnauthorized:
		detail = "it wants another token: set AEP_TOKEN or --token-file"
	case detail == "":
		detail = "is this the address of a relay?"
	}
	return fmt.Errorf("%s: %s", r.Status, clean(detail))
}
