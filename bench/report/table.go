package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// table is a Markdown table. The first left columns are aligned left, the
// others right; 0 stands for all left.
type table struct {
	heads []string
	rows  [][]string
	left  int
}

// add adds a row; its cells are escaped when written.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table.
func (t *table) write(w io.Writer) {
	fmt.Fprintf(w, "| %s |\n|", strings.Join(t.heads, " | "))
	for i := range t.heads {
		if t.left > 0 && i >= t.left {
			fmt.Fprint(w, " ---: |")
		} else {
			fmt.Fprint(w, " --- |")
		}
	}
	fmt.Fprintln(w)
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(inline(cell), "|", `\|`)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

// column is one column of a group's table. An empty cell means no value; a
// column without any is left out.
type column struct {
	head string
	cell func(Key) string
}

// groupTable returns the table of a group, with a row for each scenario and
// target, and whether it has faults that Result.Wrong counts.
func groupTable(r *Report, g group) (t table, wrong bool) {
	columns := groupColumns(r, g)
	var keys []Key
	for _, scenario := range g.scenarios {
		for _, target := range targetsOf(r, scenario) {
			keys = append(keys, Key{scenario, target})
		}
	}
	t = table{heads: []string{"Scenario", "Target"}, left: 2}
	for _, key := range keys {
		t.add(code(key.Scenario), key.Target)
		wrong = wrong || faults(r, []Key{key}) != ""
	}
	for _, c := range columns {
		cells := make([]string, len(keys))
		for i, key := range keys {
			cells[i] = c.cell(key)
		}
		if strings.Join(cells, "") == "" {
			continue
		}
		t.heads = append(t.heads, c.head)
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], dash(cells[i]))
		}
	}
	return t, wrong
}

// groupColumns returns all columns that a group may have.
func groupColumns(r *Report, g group) []column {
	value := func(head string, m Measure) column {
		return column{head, func(k Key) string {
			s, err := Median(r.Results, k.Scenario, k.Target, m)
			if err != nil {
				return ""
			}
			return m.Text(s.Median)
		}}
	}
	ratio := func(head string, m Measure) column {
		return column{head, func(k Key) string {
			s, err := Ratio(r.Results, k, Key{k.Scenario, g.floor}, m)
			if err != nil || k.Target == g.floor {
				return ""
			}
			return textSpread(s, textRatio)
		}}
	}
	columns := []column{value("Deliveries/s", DeliveriesPerSecond)}
	if g.perEvent {
		columns = append([]column{value("Events/s", EventsPerSecond)}, columns...)
	}
	if g.floor != "" {
		columns = append(columns, ratio("rate / "+g.floor, DeliveriesPerSecond))
	}
	columns = append(columns,
		value("Achieved", Achieved),
		value("p50", P50), value("p99", P99), value("p99.9", P999), value("max", Max))
	if g.perEvent {
		columns = append(columns, value("CPU per event", CPUPerEvent))
	}
	columns = append(columns, value("CPU per delivery", CPUPerDelivery))
	if g.floor != "" {
		columns = append(columns, ratio("CPU / "+g.floor, CPUPerDelivery))
	}
	columns = append(columns,
		value("Allocs per delivery", AllocsPerDelivery), value("Memory per connection", IdleBytesPerConn),
		value("Peak RSS", PeakRSS), value("Health check p99", ProbeP99),
		column{"Rounds", func(k Key) string { return roundCount(r, k) }})
	return append(columns, faultCells(r)...)
}

// roundCount returns how often the key was measured.
func roundCount(r *Report, key Key) string {
	n := int64(0)
	for i := range r.Results {
		if x := &r.Results[i]; x.Scenario == key.Scenario && x.Target == key.Target && !x.Skipped {
			n++
		}
	}
	return thousands(n)
}

// faultCells has a column for each kind of fault, with the sum over the
// rounds; no fault is an empty cell.
func faultCells(r *Report) []column {
	var columns []column
	for _, f := range faultColumns {
		columns = append(columns, column{"**" + strings.ToUpper(f.name) + "**", func(key Key) string {
			var n int64
			for i := range r.Results {
				if x := &r.Results[i]; x.Scenario == key.Scenario && x.Target == key.Target {
					n += *f.of(x)
				}
			}
			if n == 0 {
				return ""
			}
			return "**" + thousands(n) + "**"
		}})
	}
	return columns
}

// noteLines lists the distinct notes of a target, each with the scenarios it
// is for unless it is for all.
func noteLines(r *Report, target string) []string {
	var order []string
	scenarios := map[string][]string{}
	all := map[string]bool{}
	for i := range r.Results {
		x := &r.Results[i]
		if x.Target != target || x.Skipped {
			continue
		}
		all[x.Scenario] = true
		if x.Note == "" {
			continue
		}
		if _, seen := scenarios[x.Note]; !seen {
			order = append(order, x.Note)
		}
		if !slices.Contains(scenarios[x.Note], x.Scenario) {
			scenarios[x.Note] = append(scenarios[x.Note], x.Scenario)
		}
	}
	var lines []string
	for _, note := range order {
		where := ""
		if len(scenarios[note]) < len(all) {
			where = " in `" + strings.Join(scenarios[note], "`, `") + "`"
		}
		lines = append(lines, fmt.Sprintf("- %s%s: %s\n", code(target), where, inline(note)))
	}
	return lines
}

// extraLine lists the further numbers of a key, "" if there are none.
func extraLine(r *Report, key Key) string {
	names := map[string]bool{}
	for i := range r.Results {
		if x := &r.Results[i]; x.Scenario == key.Scenario && x.Target == key.Target {
			for name := range x.Extra {
				names[name] = true
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if s, err := Median(r.Results, key.Scenario, key.Target, extra(name)); err == nil {
			parts = append(parts, inline(name)+" "+textNumber(s.Median))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("- %s, %s: %s\n", code(key.Scenario), code(key.Target), strings.Join(parts, ", "))
}

// scenariosOf returns the scenarios of the report in the order of its tables.
func scenariosOf(r *Report) []string {
	var names []string
	for _, g := range groupsOf(r) {
		names = append(names, g.scenarios...)
	}
	return names
}

// inline puts a text on one line.
func inline(text string) string { return strings.Join(strings.Fields(text), " ") }

// code shows a name as code.
func code(name string) string { return "`" + strings.ReplaceAll(inline(name), "`", "'") + "`" }

// dash stands for an empty cell.
func dash(cell string) string {
	if cell == "" {
		return "-"
	}
	return cell
}
