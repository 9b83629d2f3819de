package main

import (
	"io"
	"os"
	"time"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"github.com/sluice-relay/sluice/internal/client/render"
)

// terminal returns the file behind w if it is a terminal, else nil.
func terminal(w io.Writer) *os.File {
	f, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return nil
	}
	return f
}

// look says how readable lines look on standard output: on a terminal in
// colour, unless NO_COLOR or TERM speaks against it, and as wide as it is;
// elsewhere plain and uncut. Times are local, or UTC.
func (a *app) look(utc bool) render.Options {
	o := render.Options{Location: time.Local}
	if utc {
		o.Location = time.UTC
	}
	if f := terminal(a.stdout); f != nil {
		o.Color = !color.NoColor
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			o.Width = width
		}
	}
	return o
}
