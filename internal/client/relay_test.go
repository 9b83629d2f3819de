package client

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	f := func(address, base string, local bool) {
		t.Helper()
		r, err := New(address, "")
		if err != nil {
			t.Errorf("%q: %v", address, err)
			return
		}
		if got := r.URL("/stream", url.Values{"live": {"0"}}); got != base+"/stream?live=0" || r.Local() != local {
			t.Errorf("%q: %s, local %v; want %s, %v", address, got, r.Local(), base, local)
		}
	}
	f("", DefaultURL, true)
	f("http://relay.example:8787", "http://relay.example:8787", false)
	f("https://relay.example/sluice/", "https://relay.example/sluice", false)
	f("relay.example:8787", "http://relay.example:8787", false)
	f("127.0.0.9:1", "http://127.0.0.9:1", true)
	f("http://[::1]:8787/", "http://[::1]:8787", true)
	f("localhost", "http://localhost", true)
	f("unix:/run/relay", "http://localhost", true)

	for _, bad := range []string{
		"ftp://relay", "http://", "http://u:secret@relay", "http://relay?x=secret", "http://relay#secret",
		"http://?x=secret", "http://u:secret@relay:port?x=secret", "http://re lay", ":",
	} {
		_, err := New(bad, "")
		if !errors.Is(err, ErrURL) {
			t.Errorf("%q: %v", bad, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the secret: %v", bad, err)
		}
	}
}

// Each request carries the version and, as a header, the token; over a Unix
// socket too.
func TestRequests(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.String()+" "+r.Header.Get("AEP-Version")+" "+r.Header.Get("Authorization"))
	})
	tcp := httptest.NewServer(echo)
	defer tcp.Close()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: echo}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()

	for _, address := range []string{tcp.URL, "unix:" + socket} {
		for token, want := range map[string]string{"": "/x?a=b 0.1 ", "t": "/x?a=b 0.1 Bearer t"} {
			r, err := New(address, token)
			if err != nil {
				t.Fatal(err)
			}
			req, err := r.Request(t.Context(), "GET", "/x", url.Values{"a": {"b"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.HTTP.Do(req)
			if err != nil {
				t.Fatalf("%s: %v", r, err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != want {
				t.Errorf("%s: %q, want %q", r, body, want)
			}
			if got := r.Header().Get("Authorization"); (got == "") != (token == "") {
				t.Errorf("handshake with token %q: %q", token, got)
			}
			r.HTTP.CloseIdleConnections()
		}
	}
}
