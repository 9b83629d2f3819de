package repos

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client/render"
)

// Least widths of the columns, as numbers of 16 digits and full times have
// them.
const (
	seqColumns  = 16
	timeColumns = len("2024-07-09T10:00:00Z")
	kindColumns = len("identity")
)

// Bounds of what a line shows of a frame.
const (
	maxWord = 256 // bytes of one text
	maxOps  = 4   // operations with their paths
	maxPath = 80  // bytes of a path
)

// Line appends one line about a frame to dst, without a line end: number, time,
// kind, repository, and what is worth telling of the kind: revision, operations
// and bytes of blocks, handle, status, or name and message. f is what a Scanner
// read, or the rest of a frame of an unknown type. Location in o is not used: a
// time stands as its sender wrote it. It never fails, and the line is safe for
// a terminal (T3). Any goroutine that has f.
func Line(dst []byte, f *firehose.Frame, o render.Options) []byte {
	p := render.NewPen(dst, o.Width, o.Color)
	put := func(style render.Style, text string) { p.Word(style, shorten(text, maxWord)) }
	column := func(style render.Style, text string, columns int) {
		start := p.Columns()
		if start > 0 {
			start++
		}
		if text == "" {
			text = "-"
		}
		put(style, text)
		p.Pad(start + columns)
	}
	number := ""
	if f.Seq > 0 {
		number = strconv.FormatInt(f.Seq, 10)
	}
	column(render.Bold, number, seqColumns)
	column(render.Dim, string(f.Time), timeColumns)
	kind := f.Kind()
	column(kindStyle(kind), firehose.KindName(kind), kindColumns)
	switch kind {
	case firehose.KindInfo, firehose.KindError:
		put(render.Plain, string(f.Name))
		put(render.Dim, string(f.Message))
		return p.End()
	case firehose.KindUnknown:
		put(render.Plain, string(f.Type))
		return p.End()
	}
	put(render.Cyan, string(f.DID))
	switch kind {
	case firehose.KindCommit:
		put(render.Magenta, string(f.Rev))
		put(render.Dim, counted(f.OpsCount, "op"))
		putOps(put, f)
		put(render.Dim, counted(len(f.Blocks), "byte"))
	case firehose.KindSync:
		put(render.Magenta, string(f.Rev))
		put(render.Dim, counted(len(f.Blocks), "byte"))
	case firehose.KindIdentity:
		put(render.Plain, string(f.Handle))
	case firehose.KindAccount:
		if f.Active {
			put(render.Green, "active")
		} else {
			put(render.Red, "inactive")
		}
		put(render.Yellow, string(f.Status))
	}
	return p.End()
}

// opMarks are shown for the actions.
var opMarks = map[string]string{"create": "+", "update": "~", "delete": "-"}

// putOps shows the first operations. A frame with more of them than may be is
// not decoded: that costs memory for each.
func putOps(put func(render.Style, string), f *firehose.Frame) {
	if f.OpsCount == 0 || f.OpsCount > firehose.MaxOpsCount {
		return
	}
	c, err := f.DecodeCommit()
	if err != nil {
		return // the consumer's business: here the count is enough
	}
	for i, op := range c.Ops {
		if i == maxOps {
			put(render.Dim, "and "+strconv.Itoa(len(c.Ops)-i)+" more")
			return
		}
		mark := opMarks[op.Action]
		if mark == "" {
			mark = shorten(op.Action, maxPath) + ":"
		}
		put(render.Plain, mark+shorten(op.Path, maxPath))
	}
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

func kindStyle(kind firehose.Kind) render.Style {
	switch kind {
	case firehose.KindCommit:
		return render.Green
	case firehose.KindSync:
		return render.Yellow
	case firehose.KindIdentity, firehose.KindAccount:
		return render.Cyan
	}
	return render.Alarm
}

// AppendVisible appends JSON text with each character that a terminal would act
// on, or not show, spelled out as JSON does (\u202e). The text says the same.
// It is valid JSON whose ASCII controls are escaped already. Any goroutine.
func AppendVisible(dst, text []byte) []byte {
	done := 0
	for at := 0; at < len(text); {
		if text[at] < utf8.RuneSelf {
			at++
			continue
		}
		r, size := utf8.DecodeRune(text[at:])
		if unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			dst = append(dst, text[done:at]...)
			if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
				dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
			} else {
				dst = fmt.Appendf(dst, `\u%04x`, r)
			}
			done = at + size
		}
		at += size
	}
	return append(dst, text[done:]...)
}
