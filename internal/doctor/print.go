package doctor

import (
	"fmt"
	"strings"
)

// Line returns a finding for people: a line, and one more with the advice if
// there is any. Color marks the verdict for a terminal.
func (f Finding) Line(color bool) string {
	verdict := fmt.Sprintf("%-4s", f.Verdict)
	if sgr := map[Verdict]string{OK: "32", Warn: "33", Fail: "31", Skip: "2"}[f.Verdict]; color && sgr != "" {
		verdict = "\x1b[" + sgr + "m" + verdict + "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-11s  %s\n", verdict, f.Check, f.Seen)
	if f.Advice != "" {
		fmt.Fprintf(&b, "%19s-> %s\n", "", f.Advice)
	}
	return b.String()
}

// Summary returns what all findings come to.
func (r Report) Summary() string {
	switch {
	case r.Failures > 0:
		return fmt.Sprintf("%d of %d checks failed, %d warnings", r.Failures, len(r.Findings), r.Warnings)
	case r.Warnings > 0:
		return fmt.Sprintf("nothing failed, %d warnings", r.Warnings)
	}
	return "all is well"
}
