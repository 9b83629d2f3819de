package profiles

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.env
var files embed.FS

// suffix ends the name of a preset's file.
const suffix = ".env"

// Errors of Lookup.
var (
	// ErrUnknown tells of a name that no preset has.
	ErrUnknown = errors.New("not one of the known profiles")
	// ErrLine tells of a line that is neither empty, a comment nor NAME=value
	// (P1).
	ErrLine = errors.New("not NAME=value")
	// ErrNoReason tells of a value without a comment right above it (P2).
	ErrNoReason = errors.New("no comment above it that gives the reason")
	// ErrTwice tells of a variable that is set a second time (P3).
	ErrTwice = errors.New("set twice")
)

// Names returns the names of all presets, sorted. The slice is the caller's.
func Names() []string {
	// The pattern is constant and the files are in memory: this cannot fail.
	names, _ := fs.Glob(files, "*"+suffix)
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, suffix)
	}
	slices.Sort(names)
	return names
}

// Lookup returns the values of a preset by the names of their variables. The
// map is the caller's. The error is ErrUnknown with the names that there are,
// or, for a file that breaks the format, one that tells the line.
func Lookup(name string) (map[string]string, error) {
	names := Names()
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, strings.Join(names, ", "))
	}
	text, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil, err
	}
	values, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	return values, nil
}

// parse reads a preset file (P1 to P3).
func parse(text string) (map[string]string, error) {
	values := map[string]string{}
	reason := false // the line above is a comment that says something
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		comment, isComment := strings.CutPrefix(line, "#")
		if isComment || line == "" {
			reason = strings.TrimSpace(comment) != ""
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		_, twice := values[name]
		var err error
		switch {
		case !ok || !isName(name) || !isValue(value):
			err = ErrLine
		case !reason:
			err = fmt.Errorf("%s: %w", name, ErrNoReason)
		case twice:
			err = fmt.Errorf("%s: %w", name, ErrTwice)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		values[name] = value
		reason = false
	}
	return values, nil
}

// isName reports whether s is the name of a variable (P1).
func isName(s string) bool {
	upper := func(c rune) bool { return c >= 'A' && c <= 'Z' }
	other := func(c rune) bool { return !upper(c) && c != '_' && (c < '0' || c > '9') }
	return s != "" && upper(rune(s[0])) && !strings.ContainsFunc(s, other)
}

// isValue reports whether s is a value (P1): nobody has to know how a shell or
// a service manager would read it.
func isValue(s string) bool {
	bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '`' || c == '\\' }
	return s != "" && !strings.ContainsFunc(s, bad)
}
