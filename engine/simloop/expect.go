package simloop

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/engine/fanout"
)

var checks = map[string]func(*Driver, *args) error{
	"expect": (*Driver).expect,
	"expect-partial": eachCheck(func(c *Conn, a *args) (got, want any) {
		_, rest, _ := ParseFrames(c.Socket.Received()[c.read:])
		return len(rest), a.number(a.word())
	}),
	"expect-cut": eachCheck(func(c *Conn, a *args) (got, want any) {
		reason, delivered := a.word(), a.text("delivered", "")
		got, want = c.Reason.String(), cutNames[reason]
		if delivered != "" {
			got = fmt.Sprintf("%v %s", got, positionsText(c.Delivered))
			want = fmt.Sprintf("%v %s", want, delivered)
		}
		return got, want
	}),
	"expect-delivered": eachCheck(func(c *Conn, a *args) (got, want any) {
		return positionsText(c.Member.Delivered()), a.word()
	}),
	"expect-queued": eachCheck(func(c *Conn, a *args) (got, want any) {
		return c.Member.QueuedBytes(), int64(a.number(a.word()))
	}),
	"expect-live": eachCheck(func(c *Conn, a *args) (got, want any) {
		return c.Member.Live(), a.word() == "yes"
	}),
	"expect-finished": eachCheck(func(c *Conn, _ *args) (got, want any) { return c.Complete, true }),
	"expect-closed":   eachCheck(func(c *Conn, _ *args) (got, want any) { return c.Closed, true }),
	"expect-shed":     setCheck(func(s *fanout.Set) int { return int(s.Stats().Shed) }),
	"expect-gap":      setCheck(func(s *fanout.Set) int { return int(s.Stats().Gaps) }),
	"expect-groups":   setCheck((*fanout.Set).Groups),
	"expect-panics": func(d *Driver, a *args) error {
		d.panics = int64(a.number(a.word()))
		return compare("panics", d.Engine().Panics(), d.panics)
	},
}

var cutNames = map[string]string{
	"no": fanout.Cut(0).String(), "hard": fanout.CutHard.String(),
	"overrun": fanout.CutOverrun.String(), "panic": fanout.CutPanic.String(),
}

func compare(what string, got, want any) error {
	if got != want {
		return fmt.Errorf("%w: %s: got %v, want %v", ErrExpect, what, got, want)
	}
	return nil
}

// eachCheck makes a check of what is compared of each connection of a range.
func eachCheck(f func(*Conn, *args) (got, want any)) func(*Driver, *args) error {
	return func(d *Driver, a *args) error {
		conns, err := d.named(a.word())
		if err != nil {
			return err
		}
		for _, c := range conns {
			own := &args{words: a.words, values: append([]string(nil), a.values...)}
			got, want := f(c, own)
			if err := own.done(); err != nil {
				return err
			}
			if err := compare(c.Name, got, want); err != nil {
				return err
			}
		}
		return nil
	}
}

// setCheck makes a check of a number of all sets, or of one loop's.
func setCheck(f func(*fanout.Set) int) func(*Driver, *args) error {
	return func(d *Driver, a *args) error {
		loop, want := a.value("loop", -1), a.number(a.word())
		if err := a.done(); err != nil {
			return err
		}
		got := 0
		for i, s := range d.Engine().Sets {
			if loop < 0 || loop == i {
				got += f(s)
			}
		}
		return compare("count", got, want)
	}
}

// positionsText writes positions as a/s1@0:7,b/s2@0:1.
func positionsText(list []fanout.Position) string {
	var all []string
	for _, p := range list {
		all = append(all, fmt.Sprintf("%s/%s@%d:%d", p.Sub.ID, p.Session, p.Epoch, p.Seq))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ",")
}

// expect compares the frames that came since the last time.
func (d *Driver) expect(a *args) error {
	conns, err := d.named(a.word())
	if err != nil {
		return err
	}
	want, err := expandFrames(strings.Join(append(a.words, a.values...), " "))
	if err != nil {
		return err
	}
	for _, c := range conns {
		frames, _, err := c.Frames()
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		var got []string
		for _, f := range frames {
			got = append(got, readable(f))
		}
		if err := compare(c.Name, strings.Join(got, " "), want); err != nil {
			return err
		}
	}
	return nil
}

// readable writes a frame as scenarios do: names that tell only the position of
// the event are left out.
func readable(f Frame) string {
	name, _, _, _, ok := f.Event()
	if ok && strings.HasPrefix(name, "e") && strings.Trim(name, "0123456789") == "e" {
		fields := append([]string(nil), f.Fields[:2]...)
		f.Fields = append(fields, f.Fields[3:]...)
	}
	return f.Text()
}

// expandFrames writes runs such as [s1 0:1]..[s1 0:4] out.
func expandFrames(text string) (string, error) {
	if text == "nothing" {
		return "", nil
	}
	var all []string
	for text = strings.TrimSpace(text); text != ""; {
		end := strings.IndexByte(text, ']')
		if end < 0 || text[0] != '[' {
			return "", fmt.Errorf("%w: frames %q", ErrCommand, text)
		}
		first := text[:end+1]
		text = strings.TrimSpace(text[end+1:])
		rest, isRun := strings.CutPrefix(text, "..")
		if !isRun {
			all = append(all, first)
			continue
		}
		end = strings.IndexByte(rest, ']')
		if end < 0 {
			return "", fmt.Errorf("%w: run %q", ErrCommand, text)
		}
		run, err := expandRun(first, rest[:end+1])
		if err != nil {
			return "", err
		}
		all = append(all, run...)
		text = strings.TrimSpace(rest[end+1:])
	}
	return strings.Join(all, " "), nil
}

func expandRun(first, last string) (all []string, err error) {
	head, from, ok := strings.Cut(strings.Trim(first, "[]"), ":")
	if !ok {
		return nil, fmt.Errorf("%w: run from %q", ErrCommand, first)
	}
	from, tail, _ := strings.Cut(from, " ")
	low, err := strconv.Atoi(from)
	if err != nil {
		return nil, fmt.Errorf("%w: run from %q", ErrCommand, first)
	}
	if tail != "" {
		tail = " " + tail
	}
	for n := low; n-low < maxCount; n++ {
		f := fmt.Sprintf("[%s:%d%s]", head, n, tail)
		all = append(all, f)
		if f == last {
			return all, nil
		}
	}
	return nil, fmt.Errorf("%w: run from %q does not reach %q", ErrCommand, first, last)
}
