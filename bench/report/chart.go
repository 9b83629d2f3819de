package report

import (
	"math"
	"slices"
	"strings"

	"github.com/go-analyze/charts"
)

// Size of a plot in pixels; a bar chart is as high as its bars ask for.
const (
	plotWidth  = 900
	plotHeight = 480
	barHeight  = 20
)

// colors are those of targetOrder, then those of other targets. The relay's
// is the strongest, the floors are greys and blues. Shared, immutable.
var colors = []charts.Color{
	charts.ColorFromHex("#d62728"), charts.ColorFromHex("#ff7f0e"),
	charts.ColorFromHex("#444444"), charts.ColorFromHex("#9a9a9a"),
	charts.ColorFromHex("#1f4e9c"), charts.ColorFromHex("#6fa8dc"),
	charts.ColorFromHex("#2ca02c"), charts.ColorFromHex("#9467bd"), charts.ColorFromHex("#8c564b"),
	charts.ColorFromHex("#17becf"), charts.ColorFromHex("#bcbd22"), charts.ColorFromHex("#e377c2"),
}

// line is the curve of one target. A point of 0 was not measured.
type line struct {
	target string
	y      []float64
}

// lineChart has a logarithmic y axis, since rivals differ hundredfold. The
// library has no such axis: it is given logarithms, and the labels are those
// of their powers.
type lineChart struct {
	title, xTitle, yTitle string
	x                     []string
	text                  func(float64) string // of a y value
	lines                 []line
}

// add adds a line that has at least one point. The relay's lines are drawn
// last, so that no other hides them.
func (c *lineChart) add(l line) {
	if slices.Max(l.y) <= 0 {
		return
	}
	c.lines = append(c.lines, l)
	slices.SortStableFunc(c.lines, func(a, b line) int { return relayLast(a) - relayLast(b) })
}

// relayLast returns 1 for a line of the relay, else 0.
func relayLast(l line) int {
	if strings.HasPrefix(l.target, TargetSluice) {
		return 1
	}
	return 0
}

// svg draws the chart; it has at least one line.
func (c *lineChart) svg() ([]byte, error) {
	low, high := math.Inf(1), math.Inf(-1)
	values := make([][]float64, len(c.lines))
	names := make([]string, len(c.lines))
	for i, l := range c.lines {
		names[i] = l.target
		for _, y := range l.y {
			if y <= 0 {
				values[i] = append(values[i], charts.GetNullValue())
				continue
			}
			exponent := math.Log10(y)
			low, high = min(low, exponent), max(high, exponent)
			values[i] = append(values[i], exponent)
		}
	}
	// Whole decades, at least one.
	low, high = math.Floor(low), max(math.Ceil(high), math.Floor(low)+1)

	opt := charts.NewLineChartOptionWithData(values)
	opt.Theme = theme(names)
	opt.Title = charts.TitleOption{Text: c.title, FontStyle: charts.FontStyle{FontSize: 14}}
	opt.Legend = legend(names)
	opt.Padding = charts.NewBoxEqual(16)
	opt.LineStrokeWidth = 2
	for i, l := range c.lines {
		// A line that covers a floor's leaves the floor's marks to be seen.
		opt.SeriesList[i].Symbol = charts.Symbol{Shape: charts.SymbolDot, Size: 3}
		if strings.HasPrefix(l.target, TargetFloor) {
			opt.SeriesList[i].Symbol = charts.Symbol{Shape: charts.SymbolSquare, Size: 5}
		}
	}
	opt.XAxis = charts.XAxisOption{Title: c.xTitle, Labels: c.x, BoundaryGap: charts.Ptr(true)}
	opt.YAxis = []charts.YAxisOption{{
		Title: c.yTitle, Min: &low, Max: &high, LabelCount: int(high-low) + 1,
		RangeValuePaddingScale: charts.Ptr(0.0), PreferNiceIntervals: charts.Ptr(false),
		SplitLineShow:  charts.Ptr(true),
		ValueFormatter: func(exponent float64) string { return c.text(math.Pow(10, exponent)) },
	}}
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: plotWidth, Height: plotHeight})
	if err := p.LineChart(opt); err != nil {
		return nil, err
	}
	return p.Bytes()
}

// bar is one target with a value for each series. A value of 0 was not
// measured.
type bar struct {
	target string
	values []float64
}

// barChart has horizontal bars on a linear axis from zero, so that their
// lengths compare, each with its value beside it.
type barChart struct {
	title, xTitle string
	text          func(float64) string
	series        []string
	bars          []bar
}

// svg draws the chart; it has at least one bar.
func (c *barChart) svg() ([]byte, error) {
	names := make([]string, len(c.bars))
	values := make([][]float64, len(c.series))
	longest := 0.0
	// The library draws the first category at the bottom.
	for i, b := range slices.Backward(c.bars) {
		names[len(c.bars)-1-i] = b.target
		for s, v := range b.values {
			longest = max(longest, v)
			if v <= 0 {
				v = charts.GetNullValue()
			}
			values[s] = append(values[s], v)
		}
	}
	opt := charts.NewBarChartOptionWithData(values)
	opt.Horizontal = true
	for i := range opt.SeriesList {
		opt.SeriesList[i].Label = charts.SeriesLabel{Show: charts.Ptr(true), ValueFormatter: c.text}
	}
	opt.Theme = theme(nil)
	opt.Title = charts.TitleOption{Text: c.title, FontStyle: charts.FontStyle{FontSize: 14}}
	opt.Legend = charts.LegendOption{Show: charts.Ptr(false)}
	if len(c.series) > 1 {
		opt.Legend = legend(c.series)
	}
	opt.Padding = charts.NewBoxEqual(16)
	opt.CategoryAxis = charts.CategoryAxisOption{Labels: names}
	// A tenth more than the longest bar leaves room for its value.
	step, count := ticks(longest * 1.1)
	opt.ValueAxis = []charts.ValueAxisOption{{
		Title: c.xTitle, Min: charts.Ptr(0.0), Max: charts.Ptr(step * float64(count)), LabelCount: count + 1,
		RangeValuePaddingScale: charts.Ptr(0.0), PreferNiceIntervals: charts.Ptr(false), ValueFormatter: c.text,
	}}
	height := 150 + len(c.bars)*(len(c.series)*barHeight+14)
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: plotWidth, Height: height})
	if err := p.BarChart(opt); err != nil {
		return nil, err
	}
	return p.Bytes()
}

// ticks returns a round step and how many of them reach longest: 3 to 7.
func ticks(longest float64) (step float64, count int) {
	if longest <= 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(longest)))
	switch digit := longest / step; { // 1 <= digit < 10
	case digit <= 1.4:
		step /= 5
	case digit <= 3:
		step /= 2
	case digit > 6:
		step *= 2
	}
	return step, int(math.Ceil(longest / step))
}

// theme returns the light theme with the colours of the targets, or with the
// first of all colours if there are none.
func theme(targets []string) charts.ColorPalette {
	palette := charts.GetTheme(charts.ThemeLight)
	if targets == nil {
		return palette
	}
	series := make([]charts.Color, len(targets))
	others := len(targetOrder)
	for i, target := range targets {
		rank := targetRank(target)
		if rank == len(targetOrder) {
			rank = others
			others++
		}
		series[i] = colors[rank%len(colors)]
	}
	return palette.WithSeriesColors(series)
}

// legend returns the legend, below the title.
func legend(names []string) charts.LegendOption {
	return charts.LegendOption{
		SeriesNames: names,
		Offset:      charts.OffsetStr{Left: charts.PositionCenter, Top: "30"},
		Symbol:      charts.SymbolSquare,
	}
}
