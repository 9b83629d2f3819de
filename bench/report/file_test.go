package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestRoundTrip sets every field, so that none is lost in the file.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	want := newReport(result("s", "a", 1, 1, 1, time.Second))
	x := &want.Results[0]
	fill(t, reflect.ValueOf(x).Elem())
	fill(t, reflect.ValueOf(&want.Machine).Elem())
	x.Extra = map[string]float64{"depth_bytes": 1.5}
	name := filepath.Join(t.TempDir(), "report.json")
	if err := WriteFile(name, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// fill gives every empty field a value of its own.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.IsZero() && f.Kind() != reflect.Struct {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString("text of " + v.Type().Field(i).Name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Float64:
			f.SetFloat(float64(i) + 0.5)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Struct:
			fill(t, f)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
			if f.Elem().Kind() == reflect.Struct {
				fill(t, f.Elem())
			}
		case reflect.Map: // the caller's
		default:
			t.Fatalf("no value for field %s", v.Type().Field(i).Name)
		}
	}
}

// TestNamesInFile: all names are snake_case, and none is Go's own.
func TestNamesInFile(t *testing.T) {
	t.Parallel()
	r := newReport(result("s", "a", 1, 1, 1, time.Second))
	fill(t, reflect.ValueOf(&r.Results[0]).Elem())
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	names := regexp.MustCompile(`"([^"]+)":`).FindAllSubmatch(text, -1)
	if len(names) < 40 {
		t.Fatalf("found only %d names", len(names))
	}
	for _, name := range names {
		if !snake.Match(name[1]) {
			t.Errorf("name %s", name[1])
		}
	}
}

func TestWriteFileReplaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "report.json")
	for _, revision := range []string{"a", "b"} {
		r := newReport()
		r.Revision = revision
		if err := WriteFile(name, r); err != nil {
			t.Fatal(err)
		}
	}
	bad := newReport(Result{Scenario: "s", Target: "a", Round: 1, Extra: map[string]float64{"x": math.NaN()}})
	if err := WriteFile(name, bad); !errors.Is(err, ErrInvalid) {
		t.Errorf("a number that JSON has not: %v", err)
	}
	r, err := ReadFile(name)
	if err != nil || r.Revision != "b" {
		t.Errorf("got %+v %v, want the last good report", r, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("files are left: %v %v", entries, err)
	}
	// What cannot be put into place leaves nothing behind either.
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(taken, newReport()); err == nil {
		t.Error("replaced a directory")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("files are left: %v", entries)
	}
	if err := WriteFile(filepath.Join(dir, "absent", "r.json"), newReport()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory absent: %v", err)
	}
}

func TestReadFileRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := func(name, text string, want error, part string) {
		t.Helper()
		file := filepath.Join(dir, "r.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := ReadFile(file)
		if r != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %s: got %v, want %v with %q", name, text, err, want, part)
		}
	}
	one := func(members string) string {
		return `{"format":1,"results":[{"scenario":"s","target":"a","round":1` + members + `}]}`
	}
	f("empty", "", ErrFormat, "")
	f("not JSON", "{", ErrFormat, "")
	f("two values", "{} {}", ErrFormat, "")
	f("wrong type", `{"format":"1"}`, ErrFormat, "")
	f("no format", `{}`, ErrFormat, "format 0, this is 1")
	f("later format", `{"format":2}`, ErrFormat, "format 2, this is 1")
	f("no scenario", `{"format":1,"results":[{"target":"a","round":1}]}`, ErrInvalid, "no scenario")
	f("no target", `{"format":1,"results":[{"scenario":"a","round":1}]}`, ErrInvalid, "no target")
	f("no round", `{"format":1,"results":[{"scenario":"s","target":"a"}]}`, ErrInvalid, "count from 1")
	f("negative count", one(`,"lost":-1`), ErrInvalid, "negative number -1")
	f("negative time", one(`,"server_cpu_ns":-5`), ErrInvalid, "negative number -5")
	f("negative rate", one(`,"rate":-5`), ErrInvalid, "rate -5")
	f("negative latency", one(`,"latency":{"count":1,"p50_ns":-1}`), ErrInvalid, "negative quantile")
	f("negative maximum", one(`,"last_latency":{"count":1,"max_ns":-1}`), ErrInvalid, "negative quantile")
	f("probe counted below zero", one(`,"probe":{"count":-1}`), ErrInvalid, "negative quantile")
	f("absurd number", one(`,"idle_bytes_per_conn":1e300`), ErrInvalid, "no sensible number")
	f("same round twice", `{"format":1,"results":[{"scenario":"s","target":"a","round":1},{"scenario":"s","target":"a","round":1}]}`,
		ErrInvalid, "result 1 (s, a, round 1): a second time")
	if _, err := ReadFile(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	big := filepath.Join(dir, "big")
	if err := errors.Join(os.WriteFile(big, nil, 0o644), os.Truncate(big, maxFileBytes+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(big); !errors.Is(err, ErrTooBig) {
		t.Errorf("big: %v", err)
	}
}

func TestWriteFileRefuses(t *testing.T) {
	t.Parallel()
	f := func(name string, change func(*Report), want error) {
		t.Helper()
		r := newReport(result("s", "a", 1, 1, 1, 1))
		change(r)
		if err := WriteFile(filepath.Join(t.TempDir(), "r.json"), r); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	f("format", func(r *Report) { r.Format = 0 }, ErrFormat)
	f("not a number", func(r *Report) { r.Results[0].AllocsPerDelivery = pointer(math.NaN()) }, ErrInvalid)
	f("infinite", func(r *Report) { r.Results[0].IdleBytesPerConn = pointer(math.Inf(1)) }, ErrInvalid)
	f("infinite rate", func(r *Report) { r.Results[0].Rate = math.Inf(1) }, ErrInvalid)
	f("rate not a number", func(r *Report) { r.Results[0].Rate = math.NaN() }, ErrInvalid)
}

// FuzzParse: whatever a file holds, it is refused or all that is made of it
// works; and what was written is read as the same.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "report.json"))
	if err != nil {
		f.Fatal(err)
	}
	r, err := parse(text)
	if err != nil {
		f.Fatal(err)
	}
	r.Results = r.Results[:4] // a small seed has more luck
	if text, err = json.Marshal(r); err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":1,"results":[{"scenario":"fanout-ws-10k-one","target":"floor","round":1,"skipped":true}]}`))
	f.Add([]byte(`{"format":1,"results":[{"scenario":"fanout-ws-10k-one","target":"floor","round":1,"deliveries":1,"server_cpu_ns":1,` +
		`"wall_ns":1,"latency":{"count":1,"p50_ns":1,"max_ns":9}},{"scenario":"idle-ws-10k","target":"a<b","round":1,"idle_bytes_per_conn":1e15}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrInvalid) {
				t.Fatalf("unnamed error: %v", err)
			}
			return
		}
		if err := errors.Join(WriteMarkdown(io.Discard, r), WriteHeadline(io.Discard, r)); err != nil {
			t.Fatal(err)
		}
		if Compare(r, r) == "" {
			t.Fatal("no comparison")
		}
		for _, p := range plotsOf(r) {
			if _, err := p.draw(); err != nil {
				t.Fatalf("%s: %v", p.file, err)
			}
		}
		first, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(first)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("not stable (%v):\n%s\n%s", err, first, second)
		}
	})
}
