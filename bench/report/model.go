package report

import "time"

// Format is the version of the JSON file that this package writes, and the
// only one that it reads.
const Format = 1

// Suites.
const (
	SuiteFull  = "full"
	SuiteQuick = "quick"
)

// Report is one run of the suite.
type Report struct {
	Format   int           `json:"format"`   // as the constant
	Suite    string        `json:"suite"`    // SuiteFull, SuiteQuick, or what the user chose
	Revision string        `json:"revision"` // of the relay, as git describes it
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took_ns"`
	Machine  Machine       `json:"machine"`
	Results  []Result      `json:"results"` // in the order in which they ran
}

// Machine says where a run took place. It holds no host name and no path.
// [Describe] fills it, but for Writer.
type Machine struct {
	CPU         string `json:"cpu"`          // model name
	Cores       int    `json:"cores"`        // usable by the process
	MemoryBytes int64  `json:"memory_bytes"` // 0 = unknown
	Kernel      string `json:"kernel"`       // release
	OS          string `json:"os"`           // distribution, or the platform's name
	GoVersion   string `json:"go_version"`
	Writer      string `json:"writer,omitempty"` // how the relay writes: "write", "uring"
}

// Result is one repetition of a scenario against a target. All counts cover
// the measured part, those of faults the whole run. A value that the scenario
// does not have is zero or nil.
type Result struct {
	Scenario string `json:"scenario"` // a scenario's name, as the constants
	Title    string `json:"title"`    // for people
	Target   string `json:"target"`   // a target's name, as the constants
	Round    int    `json:"round"`    // from 1; equal rounds ran next to each other

	Consumers int     `json:"consumers"`
	SizeBytes int     `json:"size_bytes"` // of an event
	Window    int     `json:"window"`     // events in flight at most, 0 = no bound
	Rate      float64 `json:"rate"`       // events/s offered by schedule, 0 = as fast as the window allows

	Events      int64 `json:"events"`
	Deliveries  int64 `json:"deliveries"`
	Lost        int64 `json:"lost"`
	Repeated    int64 `json:"repeated"`
	Disordered  int64 `json:"disordered"`
	Foreign     int64 `json:"foreign"` // delivered to a consumer that did not ask for it
	Corrupt     int64 `json:"corrupt"`
	ConnsLost   int64 `json:"conns_lost"`
	FailedCalls int64 `json:"failed_calls"` // HTTP requests without a 2xx answer

	Wall      time.Duration `json:"wall_ns"` // first intended publish to last delivery
	ServerCPU time.Duration `json:"server_cpu_ns"`
	ClientCPU time.Duration `json:"client_cpu_ns"`

	// Latency has each delivery (or each answer of an ingest), LastLatency the
	// last delivery of each event; both from the intended time of sending.
	Latency     Quantiles `json:"latency"`
	LastLatency Quantiles `json:"last_latency"`
	// Probe has the answers of the health check during the scenario.
	Probe *Quantiles `json:"probe,omitempty"`

	AllocsPerDelivery *float64 `json:"allocs_per_delivery,omitempty"`
	IdleBytesPerConn  *float64 `json:"idle_bytes_per_conn,omitempty"` // growth of the server's RSS
	PeakRSSBytes      int64    `json:"peak_rss_bytes"`

	// Extra has further numbers by name; the name ends in the unit.
	Extra map[string]float64 `json:"extra,omitempty"`
	// Note has the settings of the target, or the reason for Skipped.
	Note string `json:"note,omitempty"`
	// Skipped says that the scenario did not run; all numbers are zero.
	Skipped bool `json:"skipped,omitempty"`
}

// Quantiles sums up a latency histogram. The zero value has no observation.
type Quantiles struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// PerSecond returns the deliveries per second, or the events per second where
// nobody is delivered to, as in an ingest. 0 if no time passed.
func (r *Result) PerSecond() float64 {
	if r.Deliveries > 0 {
		return perSecond(r.Deliveries, r.Wall)
	}
	return r.EventsPerSecond()
}

// EventsPerSecond returns the events per second. 0 if no time passed.
func (r *Result) EventsPerSecond() float64 { return perSecond(r.Events, r.Wall) }

// CPUPerDelivery returns the server's CPU time for one delivery in
// nanoseconds. 0 without deliveries.
func (r *Result) CPUPerDelivery() float64 { return per(r.ServerCPU, r.Deliveries) }

// CPUPerEvent returns the server's CPU time for one event in nanoseconds,
// whatever number of consumers gets it. 0 without events.
func (r *Result) CPUPerEvent() float64 { return per(r.ServerCPU, r.Events) }

// Wrong returns the number of events that were not delivered once, in order,
// intact and to those alone that asked for them. Lost connections are not in
// it: a stalled consumer's is meant to end.
func (r *Result) Wrong() int64 {
	return r.Lost + r.Repeated + r.Disordered + r.Foreign + r.Corrupt + r.FailedCalls
}

// perSecond returns n/d, 0 if d is not positive.
func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// per returns the nanoseconds of d for each of n, 0 if there is none.
func per(d time.Duration, n int64) float64 {
	if n <= 0 {
		return 0
	}
	return float64(d) / float64(n)
}
