package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-relay/sluice/internal/auth"
)

// Refusals. Their texts repeat nothing that the caller sent (R15).
const (
	textHost = "This listener is bound to loopback and answers only to loopback host names.\n" +
		"Use http://localhost or the address, or tunnel to it.\n"
	textOrigin   = "This listener does not answer web pages of other origins.\n"
	textNotFound = "There is no such page. See / for those there are.\n"
	textMethod   = "This page does not take that method.\n"
)

// errNoSnapshot tells of a source that broke its contract.
var errNoSnapshot = errors.New("admin: source returned no snapshot and no error")

// page is one path of the server.
type page struct {
	methods []string
	about   string // for the index; "" for a page that is not listed
	serve   http.HandlerFunc
}

var readOnly = []string{http.MethodGet, http.MethodHead}

// makePages returns the pages by exact path. A ServeMux would redirect to
// cleaned paths and repeat the query in Location (R15).
func (s *Server) makePages() map[string]page {
	pages := map[string]page{
		"/":          {readOnly, "", s.index},
		"/metrics":   {readOnly, "metrics as Prometheus text", s.metrics.serve},
		"/readyz":    {readOnly, "200 when the relay may be sent traffic, else 503 and why", s.readyz},
		"/livez":     {readOnly, "200 as long as the process answers", s.livez},
		"/consumers": {readOnly, "the slowest consumers; ?format=json", s.consumers},
	}
	addProfiles(pages)
	return pages
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if text := s.refusal(r); text != "" {
		s.metrics.refusals.Inc()
		writeText(w, http.StatusForbidden, text)
		return
	}
	p, ok := s.pages[r.URL.Path]
	switch {
	case !ok:
		writeText(w, http.StatusNotFound, textNotFound)
	case !slices.Contains(p.methods, r.Method):
		h.Set("Allow", strings.Join(p.methods, ", "))
		writeText(w, http.StatusMethodNotAllowed, textMethod)
	default:
		p.serve(w, r)
	}
}

// refusal returns why a request is not served, or "" (R38).
func (s *Server) refusal(r *http.Request) string {
	// HTTP/1.1 without Host was refused by the server; what is left without
	// is HTTP/1.0.
	host, hasHost := []byte(r.Host), r.Host != "" || r.ProtoAtLeast(1, 1)
	err := s.guard.Check(nil, false, host, hasHost)
	for _, origin := range r.Header.Values("Origin") {
		if err == nil {
			err = s.guard.Check([]byte(origin), true, host, hasHost)
		}
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, auth.ErrHost):
		return textHost
	default:
		return textOrigin
	}
}

// snapshot gets the numbers for one request, at most snapshotCount at a time
// and within the time for one (AD2). Failures are counted and logged.
func (s *Server) snapshot(ctx context.Context, page string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.snapshot)
	defer cancel()
	snap, err := s.takeSnapshot(ctx)
	if err != nil {
		s.metrics.failed(page, err)
	}
	return snap, err
}

func (s *Server) takeSnapshot(ctx context.Context) (*Snapshot, error) {
	select {
	case s.snapshots <- struct{}{}:
		defer func() { <-s.snapshots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	snap, err := s.cfg.Source.Snapshot(ctx)
	if err == nil && snap == nil {
		err = errNoSnapshot
	}
	return snap, err
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	b.WriteString("sluice " + s.cfg.Version + "\n\n")
	writeIndex(&b, s.pages, "/")
	writeText(w, http.StatusOK, b.String())
}

// writeIndex lists the pages whose path begins with prefix and which have
// something to say about themselves.
func writeIndex(b *strings.Builder, pages map[string]page, prefix string) {
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		if p := pages[path]; p.about != "" && strings.HasPrefix(path, prefix) {
			fmt.Fprintf(tw, "%s\t%s\n", path, p.about)
		}
	}
	_ = tw.Flush() // a Builder does not fail
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.cfg.Source.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	writeText(w, http.StatusOK, "ready\n")
}

func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "live\n")
}

// writeText answers with a plain text. An error of writing means that the
// client is gone, which nobody needs to know.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
