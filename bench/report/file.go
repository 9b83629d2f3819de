package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// What may be wrong with a report.
var (
	ErrFormat  = errors.New("report: not a report of this format")
	ErrTooBig  = errors.New("report: file too big")
	ErrInvalid = errors.New("report: invalid result")
)

// maxFileBytes bounds what ReadFile takes in. A full suite of 35 scenarios, 9
// targets and 5 rounds has about 1 MB.
const maxFileBytes = 64 << 20

// ReadFile reads a report. The error is ErrFormat, ErrTooBig, ErrInvalid or
// the file system's.
func ReadFile(name string) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooBig, maxFileBytes)
	}
	return parse(text)
}

// parse decodes and checks the JSON of a report. text is borrowed.
func parse(text []byte) (*Report, error) {
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r, nil
}

// WriteFile writes the report as indented JSON. The file appears whole or not
// at all; one that is there is replaced. The error is ErrFormat, ErrInvalid
// or the file system's.
func WriteFile(name string, r *Report) error {
	if err := r.validate(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return replaceFile(name, append(text, '\n'))
}

// replaceFile writes the file beside its place and renames it.
func replaceFile(name string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = io.Copy(f, bytes.NewReader(content))
	// CreateTemp's mode is for secrets; a report is none.
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// maxNumber bounds the numbers that a result may have, so that sums, ratios
// and axes stay finite.
const maxNumber = 1e15

// validate returns ErrFormat or ErrInvalid unless every result is usable:
// named, numbered, once in the report, and without impossible numbers.
func (r *Report) validate() error {
	if r.Format != Format {
		return fmt.Errorf("%w: format %d, this is %d", ErrFormat, r.Format, Format)
	}
	type id struct {
		scenario, target string
		round            int
	}
	seen := make(map[id]bool, len(r.Results))
	for i := range r.Results {
		x := &r.Results[i]
		at := id{x.Scenario, x.Target, x.Round}
		if err := x.validate(); err != nil {
			return fmt.Errorf("%w %d (%s, %s, round %d): %w", ErrInvalid, i, x.Scenario, x.Target, x.Round, err)
		}
		if seen[at] {
			return fmt.Errorf("%w %d (%s, %s, round %d): a second time", ErrInvalid, i, x.Scenario, x.Target, x.Round)
		}
		seen[at] = true
	}
	return nil
}

// validate returns what is wrong with one result.
func (r *Result) validate() error {
	switch {
	case r.Scenario == "":
		return errors.New("no scenario")
	case r.Target == "":
		return errors.New("no target")
	case r.Round < 1:
		return errors.New("rounds count from 1")
	}
	for _, n := range []int64{
		int64(r.Consumers), int64(r.SizeBytes), int64(r.Window), r.Events, r.Deliveries,
		r.Lost, r.Repeated, r.Disordered, r.Foreign, r.Corrupt, r.ConnsLost, r.FailedCalls,
		int64(r.Wall), int64(r.ServerCPU), int64(r.ClientCPU), r.PeakRSSBytes,
	} {
		if n < 0 {
			return fmt.Errorf("negative number %d", n)
		}
	}
	if !(r.Rate >= 0 && r.Rate <= maxNumber) {
		return fmt.Errorf("rate %v", r.Rate)
	}
	for _, p := range []*float64{r.AllocsPerDelivery, r.IdleBytesPerConn} {
		if p != nil && !(math.Abs(*p) <= maxNumber) {
			return fmt.Errorf("no sensible number: %v", *p)
		}
	}
	quantiles := []*Quantiles{&r.Latency, &r.LastLatency}
	if r.Probe != nil {
		quantiles = append(quantiles, r.Probe)
	}
	for _, q := range quantiles {
		// They need not ascend strictly: a histogram rounds its buckets up.
		if q.Count < 0 || min(q.P50, q.P90, q.P99, q.P999, q.Max) < 0 {
			return fmt.Errorf("negative quantile: %+v", *q)
		}
	}
	return nil
}
