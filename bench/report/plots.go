package report

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Files that WritePlots writes.
const (
	PlotLatency    = "latency.svg"
	PlotThroughput = "throughput.svg"
	PlotCPU        = "cpu.svg"
	PlotMemory     = "memory.svg"
)

// plot is a drawing that the report has data for.
type plot struct {
	file, title string
	draw        func() ([]byte, error)
}

// WritePlots draws what the report has data for into SVG files in dir, which
// must exist, and returns their paths. A plot without data is left out. Files
// appear whole or not at all.
func WritePlots(dir string, r *Report) ([]string, error) {
	var files []string
	for _, p := range plotsOf(r) {
		image, err := p.draw()
		if err != nil {
			return files, fmt.Errorf("report: draw %s: %w", p.file, err)
		}
		file := filepath.Join(dir, p.file)
		if err := replaceFile(file, image); err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

// plotsOf returns the plots that the report has data for.
func plotsOf(r *Report) []plot {
	var plots []plot
	for _, of := range []func(*Report) (plot, bool){latencyPlot, throughputPlot, cpuPlot, memoryPlot} {
		if p, ok := of(r); ok {
			plots = append(plots, p)
		}
	}
	return plots
}

// oneInFlight are the scenarios that the plots of one event in flight may
// show, the best first: a short suite has only some. Shared, immutable.
var oneInFlight = []struct{ scenario, consumers string }{
	{FanoutWS10kOne, "10,000"}, {FanoutWS5kOne, "5,000"}, {FanoutWS1kOne, "1,000"}, {FanoutWS19kOne, "19,000"},
}

// latencyPlot shows the percentiles of the latency of each target.
func latencyPlot(r *Report) (plot, bool) {
	measures := []Measure{P50, P90, P99, P999, Max}
	for _, s := range oneInFlight {
		c := lineChart{
			title:  "Latency, one event to " + s.consumers + " WebSocket consumers",
			xTitle: "percentile of deliveries", yTitle: "time from the intended sending (log scale)",
			text: textNanos,
		}
		for _, m := range measures {
			c.x = append(c.x, m.Name)
		}
		for _, target := range targetsOf(r, s.scenario) {
			l := line{target: target}
			for _, m := range measures {
				l.y = append(l.y, medianOrZero(r, s.scenario, target, m))
			}
			c.add(l)
		}
		if len(c.lines) > 0 {
			return plot{PlotLatency, c.title, c.svg}, true
		}
	}
	return plot{}, false
}

// throughputPlot shows the saturated deliveries per second of each target by
// the number of consumers.
func throughputPlot(r *Report) (plot, bool) {
	c := lineChart{
		title:  "Throughput, saturating in batches of 32",
		xTitle: "WebSocket consumers", yTitle: "deliveries per second (log scale)",
		text: textCount,
	}
	scenarios := []string{FanoutWS1kSat, FanoutWS5kSat, FanoutWS10kSat, FanoutWS19kSat}
	labels := []string{"1,000", "5,000", "10,000", "19,000"}
	var targets []string
	var ran []string
	for i, scenario := range scenarios {
		if of := targetsOf(r, scenario); len(of) > 0 {
			targets = append(targets, of...)
			ran, c.x = append(ran, scenario), append(c.x, labels[i])
		}
	}
	slices.SortFunc(targets, compareTargets)
	for _, target := range slices.Compact(targets) {
		l := line{target: target}
		for _, scenario := range ran {
			l.y = append(l.y, medianOrZero(r, scenario, target, DeliveriesPerSecond))
		}
		c.add(l)
	}
	return plot{PlotThroughput, c.title, c.svg}, len(c.lines) > 0
}

// cpuPlot shows the CPU per delivery of each target as a multiple of the
// floor's.
func cpuPlot(r *Report) (plot, bool) {
	for _, s := range oneInFlight {
		c := barChart{
			title:  "Server CPU per delivery, one event to " + s.consumers + " WebSocket consumers",
			xTitle: "multiple of the write(2) floor", text: textRatio,
			series: []string{s.scenario},
		}
		floor := Key{s.scenario, TargetFloor}
		for _, target := range targetsOf(r, s.scenario) {
			if ratio, err := Ratio(r.Results, Key{s.scenario, target}, floor, CPUPerDelivery); err == nil {
				c.bars = append(c.bars, bar{target, []float64{ratio.Median}})
			}
		}
		if len(c.bars) > 0 {
			return plot{PlotCPU, c.title, c.svg}, true
		}
	}
	return plot{}, false
}

// memoryPlot shows the memory of an idle connection of each kind.
func memoryPlot(r *Report) (plot, bool) {
	c := barChart{
		title:  "Server memory per idle connection, 10,000 connections",
		xTitle: "resident bytes per connection", text: textBytes,
	}
	var scenarios, targets []string
	for _, s := range []struct{ scenario, name string }{
		{IdleWS10k, "WebSocket"}, {IdleSSE10k, "SSE"},
	} {
		any := false
		for _, target := range targetsOf(r, s.scenario) {
			if medianOrZero(r, s.scenario, target, IdleBytesPerConn) > 0 {
				any, targets = true, append(targets, target)
			}
		}
		if any {
			scenarios, c.series = append(scenarios, s.scenario), append(c.series, s.name)
		}
	}
	slices.SortFunc(targets, compareTargets)
	for _, target := range slices.Compact(targets) {
		b := bar{target: target}
		for _, scenario := range scenarios {
			b.values = append(b.values, medianOrZero(r, scenario, target, IdleBytesPerConn))
		}
		c.bars = append(c.bars, b)
	}
	return plot{PlotMemory, c.title, c.svg}, len(c.bars) > 0
}

// medianOrZero returns the median, 0 if it was not measured.
func medianOrZero(r *Report, scenario, target string, m Measure) float64 {
	s, err := Median(r.Results, scenario, target, m)
	if err != nil {
		return 0
	}
	return s.Median
}
