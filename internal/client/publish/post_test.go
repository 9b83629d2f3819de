package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a server that keeps what it took, and answers as its script says.
type fake struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte // of all requests
	taken  []string // lines of the requests that were answered 202
}

// newFake answers with what f says about a request: number from 0, its lines.
func newFake(t *testing.T, f func(w http.ResponseWriter, number int, lines []string)) *fake {
	t.Helper()
	k := &fake{}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/events" || r.Header.Get("AEP-Version") != "0.1" ||
			r.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("request %s %v, %v", r.URL, r.Header, err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.bodies = append(k.bodies, body)
		lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		rec := httptest.NewRecorder()
		f(rec, len(k.bodies)-1, lines)
		if rec.Code == http.StatusAccepted {
			k.taken = append(k.taken, lines...)
		}
		if rec.Code == dropped {
			panic(http.ErrAbortHandler)
		}
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}))
	k.Config.ErrorLog = nil
	t.Cleanup(k.Close)
	return k
}

// dropped is a status that makes a fake drop the connection.
const dropped = 599

// numbers returns n lines "1" to "n".
func numbers(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprint(i + 1)
	}
	return lines
}

// judging answers like a relay (R70 to R72) to which bad lines are invalid.
func judging(bad func(line string) bool) func(http.ResponseWriter, int, []string) {
	return func(w http.ResponseWriter, _ int, lines []string) {
		if i := slices.IndexFunc(lines, bad); i >= 0 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid-event","line":%d,"detail":"bad %s"}`, i, lines[i])
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// P1, P3: bad lines are reported once each with their number, all others are
// sent once and in order, and many bad lines do not cost many times the whole.
func TestRefusedLines(t *testing.T) {
	const n = 2000
	for name, bad := range map[string]func(line string) bool{
		"none":  func(string) bool { return false },
		"first": func(l string) bool { return l == "1" },
		"last":  func(l string) bool { return l == fmt.Sprint(n) },
		"one":   func(l string) bool { return l == "777" },
		"some":  func(l string) bool { return strings.HasSuffix(l, "7") },
		"half":  func(l string) bool { return strings.ContainsAny(l[len(l)-1:], "13579") },
		"all":   func(string) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, judging(bad))
			var l log
			stats, err := Run(t.Context(), relayAt(t, k.URL, ""), joined(numbers(n)...), l.options())
			if err != nil {
				t.Fatal(err)
			}
			var good []string
			var wrong []int64
			for i, line := range numbers(n) {
				if bad(line) {
					wrong = append(wrong, int64(i+1))
				} else {
					good = append(good, line)
				}
			}
			if !slices.Equal(k.taken, good) {
				t.Errorf("%d lines are in, want the %d good ones in order", len(k.taken), len(good))
			}
			if got := l.lines(); !slices.Equal(got, wrong) {
				t.Errorf("refused %v, want %v", got, wrong)
			}
			if stats.Events != int64(len(good)) || stats.Refused != int64(len(wrong)) || stats.Retries != 0 {
				t.Errorf("stats %+v", stats)
			}
			sent, whole := 0, len(strings.Join(numbers(n), "\n"))
			for _, b := range k.bodies {
				sent += len(b)
			}
			if limit := 4 * whole; sent > limit {
				t.Errorf("sent %d bytes in %d requests for %d, want at most %d", sent, len(k.bodies), whole, limit)
			}
		})
	}
}

// --strict: what comes before the first bad line is in, nothing behind it.
func TestStrict(t *testing.T) {
	k := newFake(t, judging(func(l string) bool { return l == "30" || l == "60" }))
	var l log
	o := l.options()
	o.Strict = true
	stats, err := Run(t.Context(), relayAt(t, k.URL, ""), joined(numbers(100)...), o)
	if !errors.Is(err, ErrRefusedLine) || !strings.Contains(err.Error(), "line 30") {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(k.taken, numbers(29)) || stats.Events != 29 || !slices.Equal(l.lines(), []int64{30}) {
		t.Errorf("%d in, %+v, refused %v", len(k.taken), stats, l.lines())
	}
}

// R72: invalid-json beats invalid-event, so a line before the one that was
// named first may be bad too.
func TestJSONBeatsEvent(t *testing.T) {
	k := newFake(t, func(w http.ResponseWriter, _ int, lines []string) {
		i := slices.Index(lines, "80")
		kind := "invalid-json"
		if i < 0 {
			i, kind = slices.Index(lines, "10"), "invalid-event"
		}
		if i < 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q,"line":%d,"detail":"x"}`, kind, i)
	})
	var l log
	stats, err := Run(t.Context(), relayAt(t, k.URL, ""), joined(numbers(100)...), l.options())
	if err != nil || stats.Events != 98 || !slices.Equal(l.lines(), []int64{80, 10}) {
		t.Errorf("%+v, %v, refused %v", stats, err, l.lines())
	}
	k = newFake(t, func(w http.ResponseWriter, _ int, lines []string) {
		w.WriteHeader(map[bool]int{true: 400, false: 202}[slices.Contains(lines, "50")])
		_, _ = io.WriteString(w, `{"error":"invalid-json","detail":"no line"}`)
	})
	l = log{}
	stats, err = Run(t.Context(), relayAt(t, k.URL, ""), joined(numbers(100)...), l.options())
	if err != nil || stats.Events != 99 || !slices.Equal(l.lines(), []int64{50}) {
		t.Errorf("an answer that names no line: %+v, %v, refused %v", stats, err, l.lines())
	}
}

// R70 checks 4 and 6: what is too much is cut, and the limits are kept.
func TestTooMuch(t *testing.T) {
	f := func(name string, limit func(lines []string, bytes int) string, o Options, refused ...int64) {
		t.Helper()
		tooMuch := 0
		k := newFake(t, func(w http.ResponseWriter, _ int, lines []string) {
			if said := limit(lines, len(strings.Join(lines, "\n"))+1); said != "" {
				tooMuch++
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				_, _ = io.WriteString(w, said)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		})
		var l log
		lo := l.options()
		o.Refused, o.Linger = lo.Refused, lo.Linger
		lines := numbers(1000)
		lines[499] = strings.Repeat("9", 200)
		stats, err := Run(t.Context(), relayAt(t, k.URL, ""), joined(lines...), o)
		if err != nil || stats.Events != int64(1000-len(refused)) || !slices.Equal(l.lines(), refused) {
			t.Errorf("%s: %+v, %v, refused %v", name, stats, err, l.lines())
		}
		if tooMuch > 40 {
			t.Errorf("%s: %d requests were too much", name, tooMuch)
		}
	}
	f("lines", func(lines []string, _ int) string {
		if len(lines) > 30 {
			return `{"error":"too-many-events","max":30,"count":0}`
		}
		return ""
	}, Options{})
	f("bytes", func(_ []string, n int) string {
		if n > 150 {
			return `{"error":"payload-too-large","max_bytes":150}`
		}
		return ""
	}, Options{}, 500)
	f("a proxy that says nothing", func(_ []string, n int) string {
		if n > 1000 {
			return "<html>too large</html>"
		}
		return ""
	}, Options{})
	f("a line that is not even sent", func([]string, int) string { return "" }, Options{LineBytes: 100}, 500)
}

// P1: the same bytes again after a lost connection, 5xx and 429, no sooner than
// the relay asked for; then it goes on.
func TestRetries(t *testing.T) {
	var at []time.Time
	k := newFake(t, func(w http.ResponseWriter, number int, _ []string) {
		at = append(at, time.Now())
		switch number {
		case 1:
			w.WriteHeader(dropped)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		case 3:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	var l log
	o := l.options()
	o.BatchLines = 10
	stats, err := Run(t.Context(), relayAt(t, k.URL, ""), joined(numbers(30)...), o)
	if err != nil || stats.Events != 30 || stats.Requests != 6 || stats.Retries != 3 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if !slices.Equal(k.taken, numbers(30)) {
		t.Errorf("taken %q", k.taken)
	}
	for i := 2; i <= 4; i++ {
		if !bytes.Equal(k.bodies[i], k.bodies[1]) {
			t.Errorf("request %d is %q, not the same as before", i, k.bodies[i])
		}
	}
	if wait := at[4].Sub(at[3]); wait < time.Second {
		t.Errorf("came back after %v, was asked for 1 s", wait)
	}
	if len(l.notices) != 2 || !strings.Contains(l.notices[0], "trying again") || !strings.Contains(l.notices[1], "takes events again") {
		t.Errorf("an outage is told once, and its end: %q", l.notices)
	}
	if l.progress != int64(len(strings.Join(numbers(30), "\n"))+1) {
		t.Errorf("progress of %d bytes", l.progress)
	}
}

// What another try would not change ends it, and so does the timeout.
func TestEndsEarly(t *testing.T) {
	for status, part := range map[int]string{401: "AEP_TOKEN", 404: "at this address", 307: "not followed"} {
		k := newFake(t, func(w http.ResponseWriter, _ int, _ []string) { w.WriteHeader(status) })
		_, err := Run(t.Context(), relayAt(t, k.URL, ""), joined("1"), Options{})
		if !errors.Is(err, ErrFinal) || !strings.Contains(err.Error(), part) || len(k.bodies) != 1 {
			t.Errorf("%d: %v after %d requests", status, err, len(k.bodies))
		}
	}
	k := newFake(t, func(w http.ResponseWriter, _ int, _ []string) { w.WriteHeader(http.StatusServiceUnavailable) })
	stats, err := Run(t.Context(), relayAt(t, k.URL, ""), joined("1"), Options{Timeout: 300 * time.Millisecond})
	if !errors.Is(err, ErrGaveUp) || stats.Events != 0 || stats.Retries == 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	tlsServer := httptest.NewTLSServer(http.NotFoundHandler())
	defer tlsServer.Close()
	tlsServer.Config.ErrorLog = nil
	for _, address := range []string{tlsServer.URL, "https" + strings.TrimPrefix(k.URL, "http")} {
		if _, err := Run(t.Context(), relayAt(t, address, ""), joined("1"), Options{Timeout: patience}); !errors.Is(err, ErrFinal) {
			t.Errorf("%s: %v", address, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Notice: func(string) { cancel() }}
	if _, err := Run(ctx, relayAt(t, k.URL, ""), joined("1"), o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while trying again: %v", err)
	}
}

// Stop ends an input that would go on, and what was read is in.
func TestStop(t *testing.T) {
	k := newFake(t, func(w http.ResponseWriter, _ int, _ []string) { w.WriteHeader(http.StatusAccepted) })
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		stats, err := Run(t.Context(), relayAt(t, k.URL, ""), r, Options{Linger: time.Hour, Stop: stop})
		if err == nil && stats.Events != 2 {
			err = fmt.Errorf("%+v", stats)
		}
		done <- err
	}()
	if _, err := io.WriteString(w, "1\n2\nunfinished"); err != nil {
		t.Fatal(err)
	}
	// A second write returns only when the first was taken in whole.
	if _, err := io.WriteString(w, " line"); err != nil {
		t.Fatal(err)
	}
	close(stop)
	select {
	case err := <-done:
		if err != nil || !slices.Equal(k.taken, numbers(2)) {
			t.Errorf("%v, taken %q", err, k.taken)
		}
	case <-time.After(patience):
		t.Error("does not end")
	}
}

// An input that fails is an error, behind what was read of it.
func TestInputFails(t *testing.T) {
	k := newFake(t, func(w http.ResponseWriter, _ int, _ []string) { w.WriteHeader(http.StatusAccepted) })
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, "1\n")
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	stats, err := Run(t.Context(), relayAt(t, k.URL, ""), r, Options{})
	if !errors.Is(err, ErrInput) || !errors.Is(err, io.ErrUnexpectedEOF) || stats.Events != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// A body that is taken back while a request may still read it gives no more.
func TestLoan(t *testing.T) {
	l := &loan{bytes: []byte("abcdef")}
	r := l.reader()
	p := make([]byte, 4)
	if n, err := r.Read(p); n != 4 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	l.end()
	if n, err := r.Read(p); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d, %v", n, err)
	}
}
