package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteMarkdown writes the whole report as GitHub Markdown: machine, goals,
// a table for each group of scenarios, the plots that [WritePlots] makes of
// the same report (linked as files beside the Markdown), notes and settings.
// The error is the writer's.
func WriteMarkdown(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Benchmark report\n\n")
	writeHead(b, r)
	writeGoals(b, r)
	for _, g := range groupsOf(r) {
		writeGroup(b, r, g)
	}
	writePlotLinks(b, r)
	writeNotes(b, r)
	return b.Flush()
}

// WriteHeadline writes the goals alone, as a short table for the project's
// README. The error is the writer's.
func WriteHeadline(w io.Writer, r *Report) error {
	b := bufio.NewWriter(w)
	t := table{heads: []string{"Scenario", "Measure", "Reach", "Measured", "Verdict"}}
	for _, v := range Judge(r) {
		t.add(v.Goal.Name, v.Goal.Measure, v.Goal.Reach, dash(v.Reading.Text), v.Text)
	}
	t.write(b)
	fmt.Fprintf(b, "\n%s suite, medians; %s.\n", title(inline(r.Suite)), inline(r.Machine.String()))
	return b.Flush()
}

// writeHead says what ran, where and when.
func writeHead(w io.Writer, r *Report) {
	t := table{heads: []string{"", ""}}
	t.add("Suite", inline(r.Suite))
	t.add("Revision", code(r.Revision))
	t.add("Started", r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	t.add("Took", r.Took.Round(time.Second).String())
	t.add("Machine", inline(r.Machine.String()))
	t.write(w)
	fmt.Fprint(w, "\nValues are medians over the rounds, ratios the medians of the ratios of equal rounds, "+
		"with the smallest and the largest in brackets. Latency counts from the intended time of sending. "+
		"CPU is the server process's, user and system.\n\n")
}

// writeGoals holds each goal against the numbers.
func writeGoals(w io.Writer, r *Report) {
	verdicts := Judge(r)
	var count [3]int
	t := table{heads: []string{"Scenario", "Measure", "Reach", "Measured", "Verdict"}}
	for _, v := range verdicts {
		count[v.Outcome]++
		verdict := v.Text
		if v.Outcome == Missed {
			verdict = "**" + verdict + "**"
		}
		t.add(v.Goal.Name, v.Goal.Measure, v.Goal.Reach, dash(v.Reading.Spread), verdict)
	}
	fmt.Fprintf(w, "## Goals\n\n%d of %d reached, %d missed, %d not measured.\n\n",
		count[Reached], len(verdicts), count[Missed], count[NotMeasured])
	t.write(w)
	fmt.Fprintln(w)
}

// writeGroup writes the table of some scenarios.
func writeGroup(w io.Writer, r *Report, g group) {
	fmt.Fprintf(w, "## %s\n\n", g.title)
	if g.about != "" {
		fmt.Fprintf(w, "%s\n\n", g.about)
	}
	for _, scenario := range g.scenarios {
		fmt.Fprintf(w, "- %s: %s\n", code(scenario), about(r, scenario))
	}
	fmt.Fprintln(w)
	t, wrong := groupTable(r, g)
	if wrong {
		fmt.Fprint(w, "> [!WARNING]\n> Not every event arrived once, in order and intact: see the last columns.\n\n")
	}
	if len(t.rows) > 0 {
		t.write(w)
		fmt.Fprintln(w)
	}
	writeSkipped(w, r, g)
}

// about describes a scenario by its title and what the results say of it.
func about(r *Report, scenario string) string {
	for i := range r.Results {
		x := &r.Results[i]
		if x.Scenario != scenario || x.Skipped {
			continue
		}
		var parts []string
		if x.Consumers > 0 {
			parts = append(parts, thousands(int64(x.Consumers))+" consumers")
		}
		if x.SizeBytes > 0 {
			parts = append(parts, thousands(int64(x.SizeBytes))+" B")
		}
		if x.Window > 0 {
			parts = append(parts, thousands(int64(x.Window))+" in flight")
		}
		if x.Rate > 0 {
			parts = append(parts, textNumber(x.Rate)+" events/s offered")
		}
		if len(parts) == 0 {
			return inline(x.Title)
		}
		return strings.TrimSpace(inline(x.Title) + " (" + strings.Join(parts, ", ") + ")")
	}
	return "did not run"
}

// writeSkipped lists what the group lacks, and why.
func writeSkipped(w io.Writer, r *Report, g group) {
	seen := map[string]bool{}
	for _, scenario := range g.scenarios {
		for i := range r.Results {
			x := &r.Results[i]
			line := fmt.Sprintf("- not run: %s in %s: %s\n", code(x.Target), code(scenario), inline(x.Note))
			if x.Scenario == scenario && x.Skipped && !seen[line] {
				seen[line] = true
				fmt.Fprint(w, line)
			}
		}
	}
	if len(seen) > 0 {
		fmt.Fprintln(w)
	}
}

// writePlotLinks shows the plots that the report has data for.
func writePlotLinks(w io.Writer, r *Report) {
	plots := plotsOf(r)
	if len(plots) == 0 {
		return
	}
	fmt.Fprint(w, "## Plots\n\n")
	for _, p := range plots {
		fmt.Fprintf(w, "![%s](%s)\n\n", p.title, p.file)
	}
}

// writeNotes lists the settings of the targets and the numbers that have no
// column.
func writeNotes(w io.Writer, r *Report) {
	var lines []string
	for _, target := range targetsOf(r, "") {
		lines = append(lines, noteLines(r, target)...)
	}
	for _, scenario := range scenariosOf(r) {
		for _, target := range targetsOf(r, scenario) {
			if line := extraLine(r, Key{scenario, target}); line != "" {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "## Notes and settings\n\n%s", strings.Join(lines, ""))
}

// title returns the text with its first letter in upper case.
func title(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
