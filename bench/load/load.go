//go:build linux

package load

import (
	"fmt"
	"math"
	"time"
)

// Load is what one run publishes and waits for. Events have numbers; those of
// the run are [First, First+Events).
type Load struct {
	// Publisher publishes the events. It may be zero if Events is 0.
	Publisher Publisher

	First, Events int

	// Published is how many events, [0, Published), exist before the run and
	// are owed from each class's First on: for herds. No consumer may have
	// received any of them before. If it is not 0, First must be equal to it,
	// unless Events is 0.
	Published int

	// Window is how many events may be in flight; 0 is no bound. An event is in
	// flight until its last consumer has it.
	Window int

	// Batch is how many events are published at once; 0 is 1. With a Window,
	// which must not be less, a batch goes out when it fits in as a whole.
	Batch int

	// Rate is how many events per second are intended, in batches; 0 is as fast
	// as the window and the connection allow.
	Rate float64

	// Warmup is how many of the first events are delivered and checked, but not
	// measured. The measured part begins when they are delivered.
	Warmup int

	// OnMeasure is called on the client's thread when the measured part begins
	// and when it ends; may be nil.
	OnMeasure func(begin bool)

	// Owners returns the indexes of the classes that get an event, each once,
	// and replaces all Select functions; for loads with many classes. The slice
	// is borrowed until the next call. May be nil. Called once per event when
	// the run begins.
	Owners func(event int) []int

	// Timeout bounds the run; 0 is 60 s.
	Timeout time.Duration
}

// Publisher is the connection that publishes. A run opens it, and later runs
// with the same handshake use it again.
type Publisher struct {
	// Request, After and Ready are as those of a Class. The answer may be 101,
	// then pings are answered, or 2xx. An empty Request is no handshake at all.
	// Apart from that, what the server sends is read and dropped.
	Request, After []byte
	Ready          string

	// Encode appends the bytes that publish an event, for example a masked
	// frame.
	Encode func(dst []byte, event int) []byte
}

// Outcome is what a run found. The counts of faults are over the whole run, all
// else is of the measured part.
type Outcome struct {
	Events     int64 // published events
	Deliveries int64 // events times consumers that got them, each once

	Lost       int64 // owed deliveries that never came
	Repeated   int64 // events that a consumer got again
	Disordered int64 // events that came after a later one; they are deliveries
	Foreign    int64 // events that were not selected or not published
	Corrupt    int64 // damaged markers, and streams that broke their framing
	Other      int64 // messages that are no events
	ConnsLost  int64 // consumers that lost their connection

	Bytes int64         // read from consumers
	Wall  time.Duration // first intended publish to last delivery

	Latency     *Histogram    // each delivery, from the intended publish
	LastLatency *Histogram    // each event, until its last consumer had it
	PublishLag  *Histogram    // each event, from the intended publish until written
	ClientCPU   time.Duration // of the client's thread
}

const (
	defaultRunTimeout = 60 * time.Second

	// maxSpan bounds the events of a run: 21 bytes are kept for each.
	maxSpan = 1 << 26
)

// check judges a load and fills its defaults.
func (l *Load) check() error {
	if l.Batch == 0 {
		l.Batch = 1
	}
	if l.Timeout <= 0 {
		l.Timeout = defaultRunTimeout
	}
	wrong := ""
	switch {
	case l.First < 0 || l.Events < 0 || l.Published < 0 || l.Window < 0 || l.Batch < 0 || l.Warmup < 0:
		wrong = "negative count"
	case l.Events > maxSpan || l.Published > maxSpan || l.First > math.MaxInt32-maxSpan:
		wrong = "too many events"
	case l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0):
		wrong = "bad rate"
	case l.Window > 0 && l.Batch > l.Window:
		wrong = fmt.Sprintf("batch %d does not fit in window %d", l.Batch, l.Window)
	case l.Warmup > l.Events:
		wrong = fmt.Sprintf("warm-up of %d with %d events", l.Warmup, l.Events)
	case l.Events > 0 && l.Publisher.Encode == nil:
		wrong = "events to publish and no Encode"
	}
	if wrong != "" {
		return fmt.Errorf("%w: %s", ErrLoad, wrong)
	}
	return nil
}
