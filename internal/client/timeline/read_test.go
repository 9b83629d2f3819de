package timeline

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// What a file has beside the session's events is told.
func TestRead(t *testing.T) {
	b := New("s")
	found, err := b.Read(strings.NewReader("\n" + event("run.started", 0, 0, `,"run":"r"`) + "\r\nnot JSON\n\t\n" +
		`{"session":"z"}` + "\n" + `{"session":"b"}` + "\n[]\n" + `{"session":"z"}` + "\n{}"))
	if err != nil || b.Len() != 1 || found.Bad != 2 || found.FirstBad != 3 || !slices.Equal(found.Others, []string{"b", "z"}) {
		t.Errorf("%d events, %+v, %v", b.Len(), found, err)
	}
}

// Reading that fails says at which line; what came before is in.
func TestReadFails(t *testing.T) {
	first := event("run.started", 0, 0, "") + "\n"
	b := New("s")
	_, err := b.Read(io.MultiReader(strings.NewReader(first), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "line 2") || b.Len() != 1 {
		t.Errorf("%v, %d events", err, b.Len())
	}
	b = New("s")
	_, err = b.Read(strings.NewReader(first + strings.Repeat(" ", MaxLineBytes+1)))
	if !errors.Is(err, ErrLineTooLong) || b.Len() != 1 {
		t.Errorf("%v, %d events", err, b.Len())
	}
}
