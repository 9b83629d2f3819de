// Package report is what a run of the bench suite leaves behind: the results
// as JSON, and what is made of them: statistics, the goals with a verdict
// each, Markdown, plots and the comparison of two runs.
//
// It owns the meaning of a number (units, medians, ratios), the names of the
// scenarios and targets that the goals refer to, and the shape of the file.
// It never starts a server, never measures anything, and never decides what
// is run: package bench/scenario does, and package bench/load counts.
//
//	r, err := report.ReadFile("bench/baseline/report.json")
//	report.WriteMarkdown(w, r) // machine, goals, one table a group, plots
//	report.WriteHeadline(w, r) // the goals alone, for the README
//	report.WritePlots(dir, r)  // SVG files, named as the Markdown links them
//	report.Compare(old, r)     // ratio per scenario and target
//
// # Statistics
//
// A [Result] is one repetition ("round") of one scenario against one target;
// the same round of all targets ran next to each other, so that what slows
// the machine for a while slows all of them. Hence:
//
//   - B1: a value is the median over the rounds ([Median]); goals and ratios
//     are shown with their smallest and largest as well.
//   - B2: a ratio of two targets is the median of the ratios of equal rounds,
//     never the ratio of two medians ([Ratio]). Rounds that only one of them
//     has are left out.
//   - B3: nothing is filled in. What a report does not hold is
//     [ErrNotMeasured] with the reason, and a goal that needs it is never
//     reached.
//   - B4: a goal is missed, whatever its number, if the relay lost, repeated,
//     disordered or corrupted events in one of the scenarios it rests on.
//   - B5: of several values in one goal the worst decides.
//
// # Units
//
// Times are time.Duration and nanoseconds in JSON, sizes are bytes, rates are
// per second. KB and MB are decimal in what people read.
//
// # Threads
//
// All functions may be called by any goroutine; none keeps or changes a
// report it was given. A [Report] has no lock: whoever changes one, owns it.
package report
