package aep

import (
	_ "embed"
	"strings"
)

//go:embed categories.txt
var categoriesText string

// categories is the closed set of core categories, read once from
// categories.txt, so that a category added later is one line there (R116).
var categories = parseCategories(categoriesText)

func parseCategories(text string) map[string]struct{} {
	set := make(map[string]struct{})
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			set[line] = struct{}{}
		}
	}
	return set
}

// ClassOf returns the class of an event of the given type, first match of
// R141 to R144. It does not check the grammar of the type: a type that is
// none is ordinary. Any goroutine.
func ClassOf(typ string) Class {
	switch {
	case isCommand(typ):
		return ClassCommand
	case strings.HasPrefix(typ, "agent."):
		return ClassLiveness
	case typ == "attention.routed":
		return ClassForeign
	}
	return ClassOrdinary
}

// isCommand implements R140.
func isCommand(typ string) bool {
	switch typ {
	case "control.attention.respond", "control.cancel", "control.pause",
		"control.resume":
		return true
	}
	vendor, ok := strings.CutPrefix(typ, "x.")
	if !ok {
		return false
	}
	_, rest, _ := strings.Cut(vendor, ".")
	member, ok := strings.CutPrefix(rest, "control.")
	return ok && member != ""
}

// validType implements the grammar of R103 on a decoded type.
func validType(typ []byte) bool {
	first, rest := cutSegment(typ)
	if string(first) == "x" {
		vendor, name := cutSegment(rest)
		category, member := cutSegment(name)
		return validSegments(vendor, true) && validSegments(category, false) &&
			validSegments(member, false)
	}
	_, ok := categories[string(first)]
	return ok && validSegments(rest, false)
}

// cutSegment splits at the first dot; without one, rest is empty.
func cutSegment(typ []byte) (first, rest []byte) {
	for i, c := range typ {
		if c == '.' {
			return typ[:i], typ[i+1:]
		}
	}
	return typ, nil
}

// validSegments reports whether p is 1*[a-z0-9_] *( "." 1*[a-z0-9_] ). A
// hyphen is legal only in the vendor's segment.
func validSegments(p []byte, hyphen bool) bool {
	length := 0
	for _, c := range p {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
			length++
		case c == '-' && hyphen:
			length++
		case c == '.' && length > 0:
			length = 0
		default:
			return false
		}
	}
	return length > 0
}
