package admin

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

const (
	profilePrefix = "/debug/pprof/"

	// maxProfileSeconds bounds a profile that is taken over time (AD2).
	maxProfileSeconds = 300

	// maxSymbolBytes bounds the addresses in one question for symbols.
	maxSymbolBytes = 1 << 20

	// What waits is sampled only while somebody asks: one event per so many
	// nanoseconds that were waited, and one contended lock of so many.
	blockNanoseconds = 10_000
	mutexFraction    = 10

	textSampled   = "This is recorded only while it is asked for: add ?seconds=30.\n"
	textSeconds   = "seconds must be a number up to 300.\n"
	textCrossSite = "This page does not answer other web sites.\n"
)

// addProfiles adds the pages of net/http/pprof by hand: cmdline is left out,
// since flags may hold secrets, and so the package's own index is not used
// either, which lists it.
func addProfiles(pages map[string]page) {
	add := func(name string, h http.Handler, about string, methods ...string) {
		pages[profilePrefix+name] = page{append(readOnly[:2:2], methods...), about, profile(h)}
	}
	add("profile", http.HandlerFunc(pprof.Profile), "CPU; ?seconds=30")
	add("trace", http.HandlerFunc(pprof.Trace), "execution trace; ?seconds=1")
	add("symbol", http.HandlerFunc(pprof.Symbol), "names of program counters", http.MethodPost)
	add("allocs", pprof.Handler("allocs"), "all allocations so far")
	add("block", sampled("block", func(on bool) { runtime.SetBlockProfileRate(rate(on, blockNanoseconds)) }),
		"where goroutines waited; ?seconds=30")
	add("goroutine", pprof.Handler("goroutine"), "stacks of all goroutines; ?debug=2")
	add("heap", pprof.Handler("heap"), "live allocations; ?gc=1 collects first")
	add("mutex", sampled("mutex", func(on bool) { runtime.SetMutexProfileFraction(rate(on, mutexFraction)) }),
		"holders of contended locks; ?seconds=30")
	add("threadcreate", pprof.Handler("threadcreate"), "where threads were made")

	index := func(w http.ResponseWriter, _ *http.Request) {
		var b strings.Builder
		b.WriteString("go tool pprof http://<this address>" + profilePrefix + "profile\n\n")
		writeIndex(&b, pages, profilePrefix)
		writeText(w, http.StatusOK, b.String())
	}
	pages[profilePrefix] = page{readOnly, "", index}
	pages[strings.TrimSuffix(profilePrefix, "/")] = page{readOnly, "profiles", index}
}

// profile guards a page that costs something to make. A web site cannot read
// the answer, but it could ask for it, so it is not given one: browsers say
// where a request comes from (Fetch Metadata, Sec-Fetch-Site).
func profile(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			writeText(w, http.StatusForbidden, textCrossSite)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxSymbolBytes)
		if text := r.URL.Query().Get("seconds"); text != "" {
			// Not "seconds > max": that lets a NaN pass.
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds >= 0 && seconds <= maxProfileSeconds) {
				writeText(w, http.StatusBadRequest, textSeconds)
				return
			}
		}
		// The package extends the write deadline by itself.
		h.ServeHTTP(w, r)
	}
}

// sampled is the page of a profile that the runtime records only on request:
// turn switches that on and off. Several may ask at once.
func sampled(name string, turn func(on bool)) http.Handler {
	var mu sync.Mutex
	asking := 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		asking += by
		turn(asking > 0)
	}
	h := pprof.Handler(name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := r.URL.Query().Get("seconds"); s == "" || s == "0" {
			writeText(w, http.StatusBadRequest, textSampled)
			return
		}
		count(1)
		defer count(-1)
		h.ServeHTTP(w, r)
	})
}

func rate(on bool, v int) int {
	if on {
		return v
	}
	return 0
}
