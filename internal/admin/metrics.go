package admin

import (
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// logEvery is the time between two log lines on failing pages.
const logEvery = time.Minute

var readyDesc = prometheus.NewDesc("sluice_ready", "1 when the relay may be sent traffic, else 0.", nil, nil)

// exporter makes the metrics page and counts what goes wrong with it.
type exporter struct {
	// Immutable after construction.
	s        *Server
	registry *prometheus.Registry // of what outlives a scrape
	failures *prometheus.CounterVec
	refusals prometheus.Counter
	scrapes  promhttp.HandlerOpts

	// Atomic.
	loggedAt atomic.Int64 // unix nanoseconds of the last line on a failure
}

func newExporter(s *Server) (*exporter, error) {
	e := &exporter{s: s, registry: prometheus.NewRegistry()}
	e.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_admin_failures_total",
		Help: "Pages that could not be made, by page.",
	}, []string{"page"})
	for _, page := range []string{"metrics", "consumers"} {
		e.failures.WithLabelValues(page)
	}
	e.refusals = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_admin_refusals_total",
		Help: "Requests to the admin listener refused for their Host or Origin.",
	})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "sluice_build_info",
		Help:        "Always 1; the labels tell the build.",
		ConstLabels: prometheus.Labels{"version": clean(s.cfg.Version, maxNameBytes), "goversion": runtime.Version()},
	})
	build.Set(1)
	for _, c := range []prometheus.Collector{
		e.failures, e.refusals, build,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_admin_connections",
			Help: "Open connections of the admin listener, of at most 32.",
		}, func() float64 { return float64(s.gate.open.Load()) }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := e.registry.Register(c); err != nil {
			return nil, fmt.Errorf("admin: metrics: %w", err)
		}
	}
	e.scrapes = promhttp.HandlerOpts{
		ErrorLog:      scrapeLog{e},
		ErrorHandling: promhttp.HTTPErrorOnError,
		// Not zstd: its encoder takes megabytes for a page of some kilobytes.
		OfferedCompressions: []promhttp.Compression{promhttp.Identity, promhttp.Gzip},
	}
	return e, nil
}

// serve answers one scrape with one snapshot. The source is asked here and not
// by a collector, so that a panic of it ends this request only. Without one there are no metrics
// at all: a scrape that fails is what monitoring can alert on.
func (e *exporter) serve(w http.ResponseWriter, r *http.Request) {
	snap, err := e.s.snapshot(r.Context(), "metrics")
	if err != nil {
		writeText(w, http.StatusServiceUnavailable, "no snapshot: "+err.Error()+"\n")
		return
	}
	metrics := addValue(metricsOf(snap), readyDesc, isGauge, e.ready())
	once := prometheus.NewRegistry()
	once.MustRegister(metrics) // it describes nothing that could clash
	promhttp.HandlerFor(prometheus.Gatherers{e.registry, once}, e.scrapes).ServeHTTP(w, r)
}

func (e *exporter) ready() float64 {
	if e.s.cfg.Source.Ready() != nil {
		return 0
	}
	return 1
}

// failed counts a page that could not be made, and logs it once in a while.
func (e *exporter) failed(page string, err error) {
	e.failures.WithLabelValues(page).Inc()
	now, last := time.Now().UnixNano(), e.loggedAt.Load()
	if last != 0 && now-last < int64(logEvery) || !e.loggedAt.CompareAndSwap(last, now) {
		return
	}
	e.s.cfg.Log.Warn("admin page failed", "page", page, "error", err)
}

// scrapeLog takes the errors of gathering and writing metrics.
type scrapeLog struct{ e *exporter }

// Println implements promhttp.Logger.
func (l scrapeLog) Println(v ...any) {
	l.e.failed("metrics", fmt.Errorf("admin: %s", fmt.Sprint(v...)))
}
