package admin

import (
	"context"
	"time"
)

// Source is the relay as this package sees it. Its methods may be called by
// any goroutine, several at once.
type Source interface {
	// Snapshot gathers the numbers of this moment. It may wait for the loops,
	// but returns the error of ctx soon after ctx ends, which happens two
	// seconds after the call at the latest. The snapshot is transferred: the
	// source does not touch it, nor anything it points to, any more.
	Snapshot(ctx context.Context) (*Snapshot, error)

	// Ready returns nil when the relay may be sent traffic, else an error
	// whose text is the reason. It does not block.
	Ready() error
}

// Snapshot holds the relay's numbers at one moment. Counters count from the
// start of the process and never go down; the sums of loops include what
// closed connections did. The zero value is that of a relay that did nothing.
//
// The keys of the maps are reasons: a fixed set of short names of lower case
// letters, digits, "-" and "_". A source lists all of them, those that did
// not happen with 0, so that a rate can be computed from the first on.
type Snapshot struct {
	// Loops has one element a loop, each with another ID.
	Loops []LoopStats

	// Counters of delivery.
	Deliveries     int64 // frames of events handed to a connection
	DeliveredBytes int64 // bytes of these
	Writes         int64 // batches written to a socket
	ShortWrites    int64 // of these, taken only in part by the kernel
	Shed           int64 // events left out for a slow consumer (R420)
	Gaps           int64 // gaps reported to consumers (R166, R423)
	Passes         int64 // passes over new entries of the log

	// Counters of ingest.
	EventsIn      int64 // events admitted
	EventsRefused int64 // events refused by validation or authorisation

	// Counters of the HTTP side.
	Requests    int64 // requests read
	Upgrades    int64 // of these, upgraded to a WebSocket
	BadRequests int64 // inputs that were no HTTP

	// Counters by reason.
	Cuts        map[string]int64 // consumers cut off by the relay (R422 to R424)
	Disconnects map[string]int64 // connections that ended, but for cuts and timeouts
	Timeouts    map[string]int64 // connections ended for taking too long
	// Refusals counts connections and requests refused before they were
	// served: cap, descriptors, per_address, rate, failed, accept_errors.
	Refusals map[string]int64

	// State of the buffers now.
	Sessions       int    // session buffers held
	BufferedEvents int64  // events in them
	BufferedBytes  int64  // bytes of these events
	LogPosition    uint64 // position that the next entry of the log gets

	// State of the connections now.
	Connections   int64 // open client connections
	Streams       int64 // of these, live SSE streams
	Sockets       int64 // of these, WebSockets
	Subscriptions int64 // of streams and sockets together
	Claims        int64 // sessions claimed by a socket

	// HeldBytes is the input held for requests that are not complete or wait
	// for room, HeldLimit its bound (R46). Both in bytes.
	HeldBytes int64
	HeldLimit int64

	Descriptors Descriptors

	// Unsent and Lag are the distribution over the consumers of this moment:
	// one observation each, in bytes and in events owed.
	Unsent Histogram
	Lag    Histogram

	// Sync has the numbers of the sync relay, nil when it is off.
	Sync *SyncStats
	// AEPWS has the numbers of the aep-0.1 binding, nil when it is off.
	AEPWS *AEPWSStats
	// Firehose has the numbers of the atproto firehose, nil when it is off.
	Firehose *FirehoseStats

	// Slowest are the consumers that owe most to their readers, in any order.
	// A source bounds them; at most 100 are shown.
	Slowest []Consumer
}

// LoopStats are the numbers of one event loop.
type LoopStats struct {
	ID       int           // from 0, below the number of loops
	Turns    int64         // counter
	Wakes    int64         // counter: turns asked for from outside the loop
	Busy     time.Duration // counter: time spent in turns
	Panics   int64         // counter: panics that were contained
	LastTurn time.Time     // when it turned last; zero for never

	// PassSeconds has the duration of each fan-out pass since the start.
	PassSeconds Histogram

	Conns   int64 // connections now
	Members int   // connections with a subscription now
	Groups  int   // groups of equal listeners now
}

// Descriptors tells how the process's file descriptors are used. All are
// counts.
type Descriptors struct {
	Open    int // in use now
	Limit   int // RLIMIT_NOFILE, soft
	Reserve int // kept for what is no client connection
	Conns   int // most client connections at once
}

// Consumer is one SSE stream or WebSocket with a subscription.
type Consumer struct {
	Remote string // address of the client, host:port
	Kind   string // "sse" or "websocket"

	// Filters are the subscriptions' filters as the client wrote them; ""
	// stands for one that takes everything. Never a whole query (R15).
	Filters []string

	LagEvents    int64 // events that wait for it in the relay
	QueuedBytes  int64 // bytes that wait for it in the relay: unsent
	UnackedBytes int64 // bytes that the kernel holds for it
	Shed         int64 // events left out for it since it was last told (R424a)

	Age     time.Duration // since the connection was accepted
	Stalled time.Duration // since it last took a byte it was owed; 0: not stalled
}
