package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// adminTimeout is how long a page of the admin listener may take. It is only
// used up when something is wrong.
const adminTimeout = 60 * time.Second

// Health is the body of GET /healthz (R50).
type Health struct {
	OK          bool `json:"ok"`
	Sessions    int  `json:"sessions"`
	Subscribers int  `json:"subscribers"`
	Connections int  `json:"connections"`
}

// Health asks for /healthz.
func (p *Process) Health() (Health, error) {
	var h Health
	r, err := Get(p.Addr, "/healthz", adminTimeout)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(r.Body, &h); err != nil || r.Status != 200 || !h.OK {
		return h, fmt.Errorf("faults: /healthz: %d %q: %w", r.Status, r.Body, err)
	}
	return h, nil
}

// Boot returns the id of this run (R55).
func (p *Process) Boot() (string, error) {
	r, err := Get(p.Addr, "/events", adminTimeout)
	if err != nil {
		return "", err
	}
	return bootOf(r.Body)
}

// Gauges are what has to come back to where it was.
type Gauges struct {
	Subscribers int // from /healthz
	Sockets     int // from /healthz: open WebSockets
	Connections int // open client connections, that of the question excluded
	Claims      int
	HeldBytes   int
	Descriptors int // from /proc
	Goroutines  int // without idle pooled ones and those of the admin listener
}

// Over returns what is over the baseline, "" for nothing. The runtime and the
// admin listener may have a few goroutines and descriptors more or less at any
// moment.
func (g Gauges) Over(base Gauges) string {
	var over []string
	check := func(name string, got, want, slack int) {
		if got > want+slack {
			over = append(over, fmt.Sprintf("%s %d, was %d", name, got, want))
		}
	}
	check("subscribers", g.Subscribers, base.Subscribers, 0)
	check("sockets", g.Sockets, base.Sockets, 0)
	check("connections", g.Connections, base.Connections, 0)
	check("claims", g.Claims, base.Claims, 0)
	check("held bytes", g.HeldBytes, base.HeldBytes, 0)
	check("descriptors", g.Descriptors, base.Descriptors, 3)
	check("goroutines", g.Goroutines, base.Goroutines, 4)
	return strings.Join(over, "; ")
}

// Gauges reads them all.
func (p *Process) Gauges() (Gauges, error) {
	h, err := p.Health()
	if err != nil {
		return Gauges{}, err
	}
	page, err := p.page("/metrics")
	if err != nil {
		return Gauges{}, err
	}
	g := Gauges{Subscribers: h.Subscribers, Sockets: h.Connections, Descriptors: p.descriptors()}
	for name, at := range map[string]*int{
		"sluice_connections": &g.Connections, "sluice_claims": &g.Claims,
		"sluice_held_bytes": &g.HeldBytes,
	} {
		v, err := metric(page, name)
		if err != nil {
			return Gauges{}, err
		}
		*at = int(v)
	}
	g.Goroutines, err = p.goroutines()
	return g, err
}

// pooled are goroutines that come and go by themselves: workers that the
// reactor's pool keeps for some seconds, and connections of the admin listener.
var pooled = [][]byte{[]byte("ants/v2.(*goWorker)"), []byte("net/http.(*conn)"), []byte("net/http.(*connReader)")}

// goroutines counts all but pooled ones.
func (p *Process) goroutines() (int, error) {
	page, err := p.page("/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	total := 0
	for stack := range bytes.SplitSeq(page, []byte("\n\n")) {
		head, _, found := bytes.Cut(stack, []byte(" @ "))
		if !found || slices.ContainsFunc(pooled, func(name []byte) bool { return bytes.Contains(stack, name) }) {
			continue
		}
		if i := bytes.LastIndexByte(head, '\n'); i >= 0 { // the title stands before the first
			head = head[i+1:]
		}
		n, err := strconv.Atoi(string(head))
		if err != nil {
			return 0, fmt.Errorf("faults: goroutine profile: %q", head)
		}
		total += n
	}
	return total, nil
}

// AwaitBaseline waits until nothing is over base.
func (p *Process) AwaitBaseline(base Gauges, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		g, err := p.Gauges()
		if err != nil {
			return err
		}
		over := g.Over(base)
		if over == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("faults: over the baseline after %v: %s", timeout, over)
		}
		time.Sleep(50 * time.Millisecond) // pacing
	}
}

// Metric reads one metric that has no labels.
func (p *Process) Metric(name string) (float64, error) {
	page, err := p.page("/metrics")
	if err != nil {
		return 0, err
	}
	return metric(page, name)
}

func metric(page []byte, name string) (float64, error) {
	for line := range bytes.Lines(page) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return strconv.ParseFloat(string(bytes.TrimSpace(rest)), 64)
		}
	}
	return 0, fmt.Errorf("faults: no metric %s", name)
}

// Collect makes the relay collect its garbage, so that what is left is in use.
func (p *Process) Collect() error {
	_, err := p.page("/debug/pprof/heap?gc=1")
	return err
}

func (p *Process) page(path string) ([]byte, error) {
	r, err := Get(p.Admin, path, adminTimeout)
	if err != nil {
		return nil, err
	}
	if r.Status != 200 {
		return nil, fmt.Errorf("faults: %s answered %d %q", path, r.Status, r.Body)
	}
	return r.Body, nil
}

// Memory returns its resident memory in bytes: now, and the most it ever was.
func (p *Process) Memory() (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		at := map[string]*int64{"VmRSS": &now, "VmHWM": &peak}[name]
		if at == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*at = kib << 10
	}
	if now == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("faults: no memory in /proc/%d/status", p.PID())
	}
	return now, peak, nil
}

// descriptors counts its open descriptors, 0 without /proc.
func (p *Process) descriptors() int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		return 0
	}
	return len(list)
}
