package aep

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Ceiling is the capture level that a subscription asks not to exceed. The
// zero value is NoCeiling. Ceilings are comparable with ==.
type Ceiling uint8

// NoCeiling lets every event pass as it is.
const NoCeiling Ceiling = 0

// CeilingAt returns the ceiling that stands at a level. Any goroutine.
func CeilingAt(l Level) Ceiling { return Ceiling(l) + 1 }

// Level returns the level of the ceiling, and false for NoCeiling.
func (c Ceiling) Level() (Level, bool) {
	if c == NoCeiling {
		return 0, false
	}
	return Level(c - 1), true
}

// String returns the wire name of the level, or "" for NoCeiling.
func (c Ceiling) String() string {
	if l, ok := c.Level(); ok {
		return l.String()
	}
	return ""
}

// ResultLevel says what becomes of an event at level event under a ceiling
// (R242). If rewrite is false the event is delivered as it was received;
// otherwise as AppendDownlevel makes it for the level to, which is LevelNone or
// LevelMetadata. An event at LevelNone that wrongly has data is rewritten under
// a ceiling of none. Any goroutine.
func ResultLevel(event Level, hasData bool, ceiling Ceiling) (to Level, rewrite bool) {
	limit, ok := ceiling.Level()
	switch {
	case !ok:
		return event, false
	case limit == LevelNone:
		return LevelNone, event > LevelNone || hasData
	case event <= limit:
		return event, false
	}
	// A relay cannot mint the claim "redacted".
	return LevelMetadata, true
}

// fieldRule says what becomes of a payload member at level metadata.
type fieldRule uint8

const (
	fieldKeep    fieldRule = iota
	fieldDrop              // its level is redacted or full (R246)
	fieldPrompt            // replaced by a made sentence (R249)
	fieldLabel             // replaced by the id of its element (R250)
	fieldNumbers           // keeps numbers and booleans only (R251)
)

var fieldRules = map[string]fieldRule{
	"metadata":             fieldKeep,
	"redacted":             fieldDrop,
	"full":                 fieldDrop,
	"synthesized-prompt":   fieldPrompt,
	"id-of-element":        fieldLabel,
	"numbers-and-booleans": fieldNumbers,
}

// fieldTable is the payload schema of one type: paths in ascending order, and
// the rule of each.
type fieldTable struct {
	paths []string
	rules []fieldRule
}

//go:embed capture-fields.json
var captureFieldsText []byte

// captureFields has one table for each type with a payload schema (R245).
var captureFields = mustCaptureFields(captureFieldsText)

// mustCaptureFields compiles the embedded data; it panics only if the data the
// package is built with is broken, which no input can bring about.
func mustCaptureFields(text []byte) map[string]*fieldTable {
	var file struct {
		Types map[string]map[string]string `json:"types"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		panic(fmt.Sprintf("aep: capture-fields.json: %v", err))
	}
	tables := make(map[string]*fieldTable, len(file.Types))
	for typ, fields := range file.Types {
		table := &fieldTable{}
		for path := range fields {
			table.paths = append(table.paths, path)
		}
		slices.Sort(table.paths)
		for _, path := range table.paths {
			rule, ok := fieldRules[fields[path]]
			if !ok {
				panic("aep: capture-fields.json: " + typ + " " + path)
			}
			table.rules = append(table.rules, rule)
		}
		tables[typ] = table
	}
	return tables
}

// fieldRange is a place in a payload: the paths of a table that begin with the
// path walked so far, whose length is length. Since paths are joined strings
// (R246), a member literally named "error.message" is found as well.
type fieldRange struct {
	table  *fieldTable
	lo, hi int
	length int
}

// root returns the range of the payload itself.
func (t *fieldTable) root() fieldRange {
	return fieldRange{table: t, hi: len(t.paths)}
}

// member returns the range of the member with a decoded name, which is
// borrowed until return.
func (r fieldRange) member(name string) fieldRange {
	if r.length == 0 {
		return r.step("", name)
	}
	return r.step(".", name)
}

// element returns the range of the elements of an array.
func (r fieldRange) element() fieldRange { return r.step("[]", "") }

func (r fieldRange) step(separator, name string) fieldRange {
	paths := r.table.paths
	from, lo, hi := r.length, r.lo, r.hi
	for lo < hi {
		middle := int(uint(lo+hi) >> 1)
		if lessPair(paths[middle][from:], separator, name) {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	next := fieldRange{r.table, lo, lo, from + len(separator) + len(name)}
	for next.hi < r.hi && len(paths[next.hi]) >= next.length &&
		paths[next.hi][from+len(separator):next.length] == name &&
		strings.HasPrefix(paths[next.hi][from:], separator) {
		next.hi++
	}
	return next
}

// lessPair reports whether s sorts before the strings a and b, joined.
func lessPair(s, a, b string) bool {
	head := s[:min(len(a), len(s))]
	if head != a {
		return head < a
	}
	return s[len(a):] < b
}

// plain reports whether a value at this path is kept as it is: its level
// allows it and no path lies below.
func (r fieldRange) plain() bool {
	switch r.hi - r.lo {
	case 0:
		return true
	case 1:
		return len(r.table.paths[r.lo]) == r.length &&
			r.table.rules[r.lo] == fieldKeep
	}
	if r.rule() != fieldKeep {
		return false
	}
	object, array := r.below()
	return !object && !array
}

// rule returns the rule of the path itself; what is not listed is kept (R247).
func (r fieldRange) rule() fieldRule {
	if r.lo < r.hi && len(r.table.paths[r.lo]) == r.length {
		return r.table.rules[r.lo]
	}
	return fieldKeep
}

// below reports whether the table has paths under this one through "." and
// through "[]", that is, whether the value ought to be an object or an array.
func (r fieldRange) below() (object, array bool) {
	for _, path := range r.table.paths[r.lo:r.hi] {
		rest := path[r.length:]
		object = object || strings.HasPrefix(rest, ".")
		array = array || strings.HasPrefix(rest, "[]")
	}
	return object, array
}
