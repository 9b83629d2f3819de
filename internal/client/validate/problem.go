package validate

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sluice-relay/sluice/codec/aep"
)

// Problem is what is wrong with one line.
type Problem struct {
	File string `json:"file"`
	// Line counts from 1, Column in bytes from 1; 0 if the whole line is meant.
	Line   int64 `json:"line"`
	Column int   `json:"column,omitempty"`
	// Rule is the broken rule of the relay's contract, such as R102.
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Warning tells that a relay takes the event nevertheless.
	Warning bool `json:"warning,omitempty"`
}

// String returns FILE:LINE: RULE: reason, with the column after the line if
// there is one. It is not escaped for a terminal.
func (p Problem) String() string {
	place := p.File + ":" + strconv.FormatInt(p.Line, 10)
	if p.Column > 0 {
		place += ":" + strconv.Itoa(p.Column)
	}
	kind := ""
	if p.Warning {
		kind = "warning: "
	}
	return fmt.Sprintf("%s: %s%s: %s", place, kind, p.Rule, p.Reason)
}

// arrayHint tells what to do with an array of events.
const arrayHint = ": this is an array; write its elements one a line (jq -c '.[]')"

// explain fills rule, reason and column of a refusal. text is what was
// refused.
func (p *Problem) explain(err error, text []byte) {
	if syntax, ok := errors.AsType[*aep.SyntaxError](err); ok {
		p.Rule, p.Reason = "R70", "not JSON: "+syntax.Reason
		if syntax.Reason == reasonDepth {
			p.Rule = "R80"
		}
		p.Column = syntax.Offset + 1
		return
	}
	if broken, ok := errors.AsType[*aep.EnvelopeError](err); ok {
		p.Rule, p.Reason = broken.Rule, broken.Detail
		if broken.Rule == "R100" && len(text) > 0 && text[0] == '[' {
			p.Reason += arrayHint
		}
		return
	}
	p.Rule, p.Reason = "R70", err.Error()
}

// reasonDepth is the reason of a text that is nested too deep.
var reasonDepth = func() string {
	var s aep.Scanner
	deep := make([]byte, 1001)
	for i := range deep {
		deep[i] = '['
	}
	syntax, _ := errors.AsType[*aep.SyntaxError](s.Scan(deep))
	return syntax.Reason
}()
