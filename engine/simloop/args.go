package simloop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// args are the arguments of a command: words, and values as k=v. What is wrong
// with them is remembered and told by done.
type args struct {
	words  []string
	values []string // "k=v"
	err    error
}

func newArgs(fields []string) *args {
	a := &args{}
	for _, f := range fields {
		if strings.Contains(f, "=") && !strings.HasPrefix(f, "[") {
			a.values = append(a.values, f)
		} else {
			a.words = append(a.words, f)
		}
	}
	return a
}

func (a *args) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("%w: "+format, append([]any{ErrCommand}, v...)...)
	}
}

// done tells what was wrong, arguments that nobody took included.
func (a *args) done() error {
	if a.err == nil && len(a.words)+len(a.values) > 0 {
		a.fail("unknown arguments %q %q", a.words, a.values)
	}
	return a.err
}

// word takes the next word.
func (a *args) word() string {
	if len(a.words) == 0 {
		a.fail("a word is missing")
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// flag takes the word name, if it is there.
func (a *args) flag(name string) bool {
	i := slices.Index(a.words, name)
	if i < 0 {
		return false
	}
	a.words = slices.Delete(a.words, i, i+1)
	return true
}

// text takes the value of key, if it is there.
func (a *args) text(key, otherwise string) string {
	for i, v := range a.values {
		if rest, ok := strings.CutPrefix(v, key+"="); ok {
			a.values = slices.Delete(a.values, i, i+1)
			return rest
		}
	}
	return otherwise
}

// value takes a number.
func (a *args) value(key string, otherwise int) int {
	text := a.text(key, "")
	if text == "" {
		return otherwise
	}
	return a.number(text)
}

func (a *args) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxNumber {
		a.fail("number %q", text)
		return 0
	}
	return n
}

// room takes a number of bytes, or a word for all or none.
func (a *args) room(text string) int {
	switch text {
	case "all":
		return Unlimited
	case "none":
		return 0
	}
	return a.number(text)
}
