// Package admin is the operator's window into a running relay: a plain
// net/http server beside the reactor, for metrics, profiles, readiness and
// the slowest consumers.
//
// It owns its listener, its connections and what its pages look like. It
// owns no number: all of them come from a [Source], which the relay is, as
// one [Snapshot] a request. It never touches a loop, a log or a member, never
// answers on the relay's own port, and never writes a token, a header or the
// query of a request to a page, a label or a log line (R15).
//
// Pages:
//
//	/                what there is
//	/metrics         Prometheus text, names sluice_*, go_* and process_*
//	/readyz, /livez  200, or 503 with the reason
//	/consumers       the slowest consumers, as a table or as JSON
//	/debug/pprof/    profiles; without cmdline, since flags may hold secrets
//
// Thread rule: [Start], [Server.Addr] and [Server.Close] may be called by any
// goroutine. [Source] is called by any number of goroutines at once, but
// Snapshot by at most snapshotCount. A [Histogram] belongs to one goroutine.
//
// Invariants:
//
//   - AD1: at most maxConns connections are open. More wait in the kernel's
//     accept queue, where they cost the relay no descriptor.
//   - AD2: every request ends: headers, bodies, answers, idle time, snapshots
//     and profiles have a time limit each.
//   - AD3: no label has a value that a client chose; the number of series is
//     bounded by loops and by maxReasons.
//   - AD4: after Close returned nil no goroutine and no descriptor is left.
//
// There is no authentication, so that the default address is a loopback one.
// Web pages are kept out by the checks of R38 ([auth.Guard]): on loopback a
// Host header has to name loopback, an Origin has to be loopback's or the
// server's own, and no answer has a CORS header.
//
// Specification: the AEP 0.1 relay contract, rules R15 and R38; the
// Prometheus text exposition format 0.0.4.
package admin
