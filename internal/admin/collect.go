package admin

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxReasons bounds the values of the label reason (AD3).
	maxReasons = 32
	// maxReasonBytes bounds one value.
	maxReasonBytes = 40
	// otherReason is where reasons go that are no fixed names, or too many.
	otherReason = "other"
)

// The label names. They have values that the relay chooses; hosts are named by
// the operator.
var (
	labelLoop   = []string{"loop"}
	labelReason = []string{"reason"}
)

// scrape is a prometheus.Collector of metrics that exist already. The registry
// collects in goroutines of its own, where a panic would end the process; so
// all work is done before, by the handler.
type scrape []prometheus.Metric

// Describe says nothing: the registry then checks what is collected.
func (m scrape) Describe(chan<- *prometheus.Desc) {}

// Collect hands out the metrics.
func (m scrape) Collect(ch chan<- prometheus.Metric) {
	for _, metric := range m {
		ch <- metric
	}
}

// metricsOf returns the metrics of a snapshot. One that cannot be made, since
// its histogram is malformed, is a metric that makes the scrape fail.
func metricsOf(s *Snapshot) scrape {
	var out scrape
	out = addScalars(out, relayScalars, s, nil)
	out = addDistributions(out, relayDistributions, s, nil)
	out = addReasons(out, relayReasons, s)
	if s.Sync != nil {
		out = addScalars(out, syncScalars, s.Sync, nil)
		out = addReasons(out, syncReasons, s.Sync)
	}
	if s.AEPWS != nil {
		out = addScalars(out, aepwsScalars, s.AEPWS, nil)
		out = addReasons(out, aepwsReasons, s.AEPWS)
	}
	if s.Firehose != nil {
		out = addFirehose(out, s.Firehose)
	}
	for i := range s.Loops {
		l := &s.Loops[i]
		out = addScalars(out, loopScalars, l, labelLoop, strconv.Itoa(l.ID))
		out = addDistributions(out, loopDistributions, l, labelLoop, strconv.Itoa(l.ID))
	}
	return out
}

func addScalars[T any](out scrape, list []scalar[T], from *T, labels []string, values ...string) scrape {
	for i := range list {
		m := &list[i]
		out = addValue(out, prometheus.NewDesc(m.name, m.help, labels, nil), m.counter, m.value(from), values...)
	}
	return out
}

func addValue(out scrape, desc *prometheus.Desc, counter bool, v float64, values ...string) scrape {
	kind := prometheus.GaugeValue
	if counter {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(desc, kind, v, values...)
	return addMade(out, desc, m, err)
}

func addReasons[T any](out scrape, list []byReason[T], from *T) scrape {
	for _, m := range list {
		desc := prometheus.NewDesc(m.name, m.help, labelReason, nil)
		counts := boundReasons(m.values(from))
		for _, reason := range slices.Sorted(maps.Keys(counts)) {
			out = addValue(out, desc, isCounter, float64(counts[reason]), reason)
		}
	}
	return out
}

func addDistributions[T any](out scrape, list []distribution[T], from *T, labels []string, values ...string) scrape {
	for i := range list {
		desc := prometheus.NewDesc(list[i].name, list[i].help, labels, nil)
		h := list[i].value(from)
		if err := h.validate(); err != nil {
			out = addMade(out, desc, nil, err)
			continue
		}
		count, buckets := h.cumulative()
		m, err := prometheus.NewConstHistogram(desc, count, h.Sum, buckets, values...)
		out = addMade(out, desc, m, err)
	}
	return out
}

// addMade adds a metric, or the reason why there is none.
func addMade(out scrape, desc *prometheus.Desc, m prometheus.Metric, err error) scrape {
	if err != nil {
		m = prometheus.NewInvalidMetric(desc, err)
	}
	return append(out, m)
}

// boundReasons keeps reasons that are fixed names, at most maxReasons, and adds
// up the rest under otherReason: a source that put a client's text among them
// must not make a series of it (AD3).
func boundReasons(counts map[string]int64) map[string]int64 {
	out := make(map[string]int64, len(counts))
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		name := reason
		if !isReason(name) || len(out) >= maxReasons-1 {
			name = otherReason
		}
		out[name] += counts[reason]
	}
	return out
}

// isReason reports whether a text is a name as Snapshot documents it.
func isReason(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return text != "" && len(text) <= maxReasonBytes
}
