package aepws

import "strings"

// pattern is a type pattern with a star in it (B49), but not the star alone.
type pattern struct {
	text string
	// prefix is what stands before the first star, a dot at its end, or empty.
	prefix string
	// simple: the only star is the last segment, so the prefix decides.
	simple bool
}

// legalPattern tells if a pattern is one of B49: no segment is empty, and a
// star stands only as a whole segment.
func legalPattern(p string) bool {
	for segment := range strings.SplitSeq(p, ".") {
		if segment == "" || segment != "*" && strings.Contains(segment, "*") {
			return false
		}
	}
	return true
}

// newPattern compiles a legal pattern that has a star.
func newPattern(p string) pattern {
	star := strings.IndexByte(p, '*')
	return pattern{text: p, prefix: p[:star], simple: star > 0 && star == len(p)-1}
}

// match tells if a type matches (B49). It does not allocate.
func (p *pattern) match(typ string) bool {
	if !strings.HasPrefix(typ, p.prefix) {
		return false
	}
	if p.simple {
		return len(typ) > len(p.prefix)
	}
	return matchSegments(p.text[len(p.prefix):], typ[len(p.prefix):])
}

// matchSegments matches segment by segment. A star at the end takes one
// segment or more.
func matchSegments(p, typ string) bool {
	for {
		if p == "*" {
			return typ != ""
		}
		var want, got string
		var morePattern, moreType bool
		want, p, morePattern = strings.Cut(p, ".")
		got, typ, moreType = strings.Cut(typ, ".")
		if want != "*" && want != got || morePattern != moreType {
			return false
		}
		if !morePattern {
			return true
		}
	}
}

// fileablePrefix returns the longest prefix of a pattern's prefix that is a key
// of some type (Attributes.AppendKeys). No type has more segments than that.
func fileablePrefix(prefix string) string {
	end := 0
	for range maxTypeSegments {
		dot := strings.IndexByte(prefix[end:], '.')
		if dot < 0 {
			break
		}
		end += dot + 1
	}
	return prefix[:end]
}
