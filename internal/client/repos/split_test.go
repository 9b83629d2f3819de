package repos

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
)

// allFrames returns the contract's frames, one by one and one behind the other.
func allFrames(tb testing.TB) (list [][]byte, joined []byte) {
	tb.Helper()
	for _, v := range readVectors(tb).Frames {
		list = append(list, unhex(tb, v.Hex))
		joined = append(joined, list[len(list)-1]...)
	}
	return list, joined
}

// readAll reads an input to its end or first fault.
func readAll(in Frames) (frames [][]byte, places []Place, err error) {
	for {
		frame, place, err := in.Next()
		if err != nil {
			if _, _, again := in.Next(); again != err {
				return frames, places, errors.New("the fault does not stay")
			}
			return frames, places, err
		}
		frames, places = append(frames, bytes.Clone(frame)), append(places, place)
	}
}

func sameFrames(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) && len(a) == len(b)
}

// F9: frames are taken apart however the input is cut into reads.
func TestSplitter(t *testing.T) {
	list, joined := allFrames(t)
	readers := map[string]func() io.Reader{
		"whole":        func() io.Reader { return bytes.NewReader(joined) },
		"by one byte":  func() io.Reader { return iotest.OneByteReader(bytes.NewReader(joined)) },
		"by halves":    func() io.Reader { return iotest.HalfReader(bytes.NewReader(joined)) },
		"with the end": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(joined)) },
	}
	for name, r := range readers {
		frames, places, err := readAll(NewSplitter(r()))
		if err != io.EOF || !sameFrames(frames, list) {
			t.Errorf("%s: %v, %d frames of %d", name, err, len(frames), len(list))
			continue
		}
		offset := int64(0)
		for i, p := range places {
			if p != (Place{Frame: int64(i) + 1, Offset: offset}) {
				t.Errorf("%s: frame %d is at %+v, want byte %d", name, i+1, p, offset)
			}
			offset += int64(len(list[i]))
		}
	}
	if frames, _, err := readAll(NewSplitter(strings.NewReader(""))); err != io.EOF || len(frames) > 0 {
		t.Errorf("nothing: %v, %d frames", err, len(frames))
	}
}

// An input that ends inside a frame says so, wherever that is.
func TestSplitterCut(t *testing.T) {
	one, two := identity(t, 1), identity(t, 1<<40)
	joined := append(bytes.Clone(one), two...)
	for n := 1; n < len(joined); n++ {
		frames, _, err := readAll(NewSplitter(bytes.NewReader(joined[:n])))
		if n == len(one) {
			if err != io.EOF || len(frames) != 1 {
				t.Errorf("cut between the frames: %v", err)
			}
			continue
		}
		input, ok := errors.AsType[*InputError](err)
		want := Place{Frame: 1}
		if n > len(one) {
			want = Place{Frame: 2, Offset: int64(len(one))}
		}
		if !ok || !errors.Is(err, ErrCut) || input.Place != want {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

// long returns n bytes that are one frame, n being large.
func long(tb testing.TB, n int) []byte {
	tb.Helper()
	frame := append([]byte("\xa1\x61t\x61x\xa1\x61b\x5a"), byte((n-13)>>24), byte((n-13)>>16), byte((n-13)>>8), byte(n-13))
	frame = append(frame, make([]byte, n-len(frame))...)
	var s dagcbor.Scanner
	if end, err := frameLength(&s, frame); err != nil || end != n {
		tb.Fatalf("%d, %v", end, err)
	}
	return frame
}

// Faults have a name and a place; a frame of the greatest length passes.
func TestInputFaults(t *testing.T) {
	broken := errors.New("broken")
	one := identity(t, 1)
	f := func(name string, input io.Reader, frames int, want error) {
		t.Helper()
		got, _, err := readAll(NewSplitter(input))
		if len(got) != frames || !errors.Is(err, want) {
			t.Errorf("%s: %v after %d frames, want %v", name, err, len(got), want)
		}
		if fault, ok := errors.AsType[*InputError](err); want != io.EOF && (!ok || fault.Place.Frame != int64(frames)+1) {
			t.Errorf("%s: place of %v", name, err)
		}
	}
	f("text", strings.NewReader("hello, world"), 0, ErrNotFrame)
	f("body is no map", bytes.NewReader(append(one, 0xa0, 0x01)), 1, ErrNotFrame)
	f("bad CBOR", bytes.NewReader(append(one, 0xa1, 0xff, 0, 0)), 1, dagcbor.ErrKeyType)
	f("longest", bytes.NewReader(append(long(t, firehose.MaxFrameBytes), one...)), 2, io.EOF)
	f("too long", bytes.NewReader(append(one, long(t, firehose.MaxFrameBytes+1)...)), 1, ErrTooLong)
	f("claims too much", bytes.NewReader(append([]byte("\xa1\x61t\x5a\xff\xff\xff\xff"), make([]byte, 2*firehose.MaxFrameBytes)...)), 0, ErrTooLong)
	f("unreadable", io.MultiReader(bytes.NewReader(one), iotest.ErrReader(broken)), 1, broken)
	f("gives nothing", readNothing{}, 0, io.ErrNoProgress)

	h := hex.EncodeToString(one)
	l := func(name, input string, frames int, line int64, want error) {
		t.Helper()
		got, _, err := readAll(NewLines(strings.NewReader(input)))
		if len(got) != frames || want != nil && !errors.Is(err, want) || err == nil {
			t.Errorf("%s: %v after %d frames, want %v", name, err, len(got), want)
		}
		if fault, ok := errors.AsType[*InputError](err); want != io.EOF && (!ok || fault.Place.Line != line) {
			t.Errorf("%s: place of %v, want line %d", name, err, line)
		}
	}
	l("lines", h+"\n\n  "+strings.ToUpper(h)+" \r\n"+h, 3, 0, io.EOF)
	l("odd", h+"\n\nabc\n"+h, 1, 3, nil)
	l("not hex", h+"\nxy\x1b\n", 1, 2, nil)
	l("two frames", h+h+"\n", 0, 1, dagcbor.ErrTrailing)
	l("half a frame", h[:40], 0, 1, ErrCut)
	l("longest", hex.EncodeToString(long(t, firehose.MaxFrameBytes))+"\n"+h, 2, 0, io.EOF)
	l("too long", h+"\n"+hex.EncodeToString(long(t, firehose.MaxFrameBytes+1))+"\n", 1, 2, ErrTooLong)
	l("endless", strings.Repeat("a", 3*firehose.MaxFrameBytes), 0, 1, ErrTooLong)
	_, _, err := readAll(NewLines(strings.NewReader("xy\x1b")))
	if strings.ContainsRune(err.Error(), '\x1b') {
		t.Errorf("T3: %q", err)
	}
}

type readNothing struct{}

func (readNothing) Read([]byte) (int, error) { return 0, nil }

// One frame is held, not all that was read so far.
func TestSplitterMemory(t *testing.T) {
	one := long(t, 300_000)
	s := NewSplitter(bytes.NewReader(bytes.Repeat(one, 100)))
	for range 100 {
		if _, _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(s.buf) > 1<<20 {
		t.Errorf("%d bytes held for frames of %d", cap(s.buf), len(one))
	}
}

// stepReader gives a part of its input with each read.
type stepReader struct {
	rest []byte
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.step)], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Any input splits into the same frames, whether it comes at once or in pieces,
// and they are its beginning.
func FuzzSplitter(f *testing.F) {
	list, _ := allFrames(f)
	for _, frame := range list {
		if len(frame) < 4096 {
			f.Add(append(bytes.Clone(frame), identity(f, 1)...), uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, step uint8) {
		frames, _, err := readAll(NewSplitter(bytes.NewReader(input)))
		pieces := &stepReader{input, 1 + int(step) + len(input)/64}
		slow, _, slowErr := readAll(NewSplitter(pieces))
		if !sameFrames(frames, slow) || err.Error() != slowErr.Error() {
			t.Errorf("%d frames, %v; in pieces %d, %v", len(frames), err, len(slow), slowErr)
		}
		joined := bytes.Join(frames, nil)
		if !bytes.HasPrefix(input, joined) || err == io.EOF && len(joined) != len(input) {
			t.Errorf("%d bytes of %d in frames: %v", len(joined), len(input), err)
		}
	})
}
