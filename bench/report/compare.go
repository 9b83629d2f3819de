package report

import (
	"fmt"
	"slices"
	"strings"
)

// compared are the measures that Compare shows. Shared, immutable.
var compared = []Measure{PerSecond, CPUEach, P99, AllocsPerDelivery, IdleBytesPerConn}

// Compare returns a Markdown table with what each scenario and target did in
// the old report, in the new one, and the ratio new/old of the medians. "~"
// marks ratios whose ranges over the rounds overlap: no significant change.
// Rounds of two runs did not run next to each other, so that the state of the
// machine is in the ratio; the text says so when the machines differ.
func Compare(old, now *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "old: %s, %s\nnew: %s, %s\n\n",
		code(old.Revision), inline(old.Machine.String()), code(now.Revision), inline(now.Machine.String()))
	if old.Machine != now.Machine {
		b.WriteString("The machines differ: read the ratios to the floor in the reports instead.\n\n")
	}
	b.WriteString("Medians, old to new, and new/old. ~ marks ranges over the rounds that overlap: no significant change.\n\n")
	keys, onlyOld, onlyNew := pairs(old, now)
	t := table{heads: []string{"Scenario", "Target"}, left: 2}
	for _, key := range keys {
		t.add(key.Scenario, key.Target)
	}
	for _, m := range compared {
		t.compareColumn(m, keys, old, now)
	}
	t.write(&b)
	for _, only := range []struct {
		name string
		keys []Key
	}{{"old", onlyOld}, {"new", onlyNew}} {
		if len(only.keys) > 0 {
			fmt.Fprintf(&b, "\nOnly in the %s report: %s\n", only.name, join(only.keys))
		}
	}
	for _, key := range keys {
		if wrong := faults(now, []Key{key}); wrong != "" {
			fmt.Fprintf(&b, "\n**%s: %s (new report)**\n", key.Target, wrong)
		}
	}
	return b.String()
}

// compareColumn adds the column of one measure, unless no row has it.
func (t *table) compareColumn(m Measure, keys []Key, old, now *Report) {
	cells := make([]string, len(keys))
	for i, key := range keys {
		was, err := Median(old.Results, key.Scenario, key.Target, m)
		if err != nil {
			continue
		}
		is, err := Median(now.Results, key.Scenario, key.Target, m)
		if err != nil {
			continue
		}
		cells[i] = m.Text(was.Median) + " to " + m.Text(is.Median)
		if was.Median > 0 {
			cells[i] += ": " + textRatio(is.Median/was.Median)
		}
		if was.overlaps(is) {
			cells[i] += " ~"
		}
	}
	if strings.Join(cells, "") == "" {
		return
	}
	t.heads = append(t.heads, m.Name)
	for i := range t.rows {
		t.rows[i] = append(t.rows[i], dash(cells[i]))
	}
}

// pairs returns what both reports measured, and what only one of them did, in
// the order of the report.
func pairs(old, now *Report) (both, onlyOld, onlyNew []Key) {
	was, is := keysOf(old), keysOf(now)
	for _, key := range was {
		if slices.Contains(is, key) {
			both = append(both, key)
		} else {
			onlyOld = append(onlyOld, key)
		}
	}
	for _, key := range is {
		if !slices.Contains(was, key) {
			onlyNew = append(onlyNew, key)
		}
	}
	return both, onlyOld, onlyNew
}

// keysOf returns what the report measured, in order.
func keysOf(r *Report) []Key {
	var keys []Key
	for _, scenario := range scenariosOf(r) {
		for _, target := range targetsOf(r, scenario) {
			keys = append(keys, Key{scenario, target})
		}
	}
	return keys
}

// join lists keys.
func join(keys []Key) string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = key.String()
	}
	return strings.Join(texts, ", ")
}
