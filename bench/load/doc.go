// Package load holds thousands of consumers of an event server on one thread
// and measures what the server does for them.
//
// A Client keeps up to about 19,000 WebSocket or SSE consumers and one
// publisher connection on one epoll (epoll(7)). It publishes events by a
// schedule or by a window of events in flight, recognises every event that a
// consumer receives by its number, and accounts for loss, repetition, disorder
// and events that a consumer did not ask for. It knows no protocol above HTTP,
// WebSocket and SSE, and not who the server is: requests, subscriptions and
// events are bytes given by the caller.
//
// An event is recognised by the text "id":"bench-NNNNNNNNNN", its number as
// ten digits, which stands in it once. Where it stands is learned once per
// class of consumers; after that a delivery costs one read(2) per readable
// socket, about 10 ns per frame and no allocation.
//
// The load is open: latency counts from the moment at which an event was
// intended to be published, so that a server which stalls the publisher does
// not hide its own delay.
//
// Besides, the package has what a bench needs around that: Ingest (a closed
// loop of HTTP requests), Prober (one request after another, each on a new
// connection), and gauges of a process (CPUTime, RSSBytes).
//
// It never starts a goroutine, except a Prober's; it never decodes JSON; it
// never talks to anything but Options.Addr, over IPv4.
//
// Thread rule: a Client belongs to one goroutine at a time. Connect, Run and
// Herd lock it to its thread while they run, and call OnMeasure, Select,
// Owners and Encode on it. The parts of an Outcome are the caller's. A
// Histogram belongs to one goroutine at a time. A Prober's Stop, CPUTime and
// RSSBytes may be called by any goroutine.
//
// Invariants:
//
//   - L1: per consumer, 0 <= next <= owed: the next event it must receive is
//     the next-th of its class's list.
//   - L2: the missing deliveries of an event are the open, reading consumers
//     that are owed it and whose next has not passed it. An event is in flight
//     while it is published and misses deliveries.
//   - L3: deliveries + lost = owed, for the published events of a run.
//   - L4: a socket that was not read empty is on the list of those to be read
//     again, because epoll is edge-triggered.
//   - L5: at most maxUnsent bytes and one batch are encoded and not yet sent.
//
// Specifications: RFC 6455 (framing, control frames), RFC 9112 (status line,
// chunked transfer coding), the HTML standard's server-sent events.
package load
