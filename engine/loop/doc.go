// Package loop owns the work of one reactor goroutine: mail from other
// goroutines, a timing wheel, drainers, and a pool for jobs that may block. It
// knows neither the reactor nor the protocols: a Transport is all that the
// engine sees of a socket, and Bind says how a turn gets onto the loop's
// goroutine.
//
// A turn works off mail, then timers, then drainers, for about PassBudget. What
// is left goes on in another turn, and the reactor reads its sockets in between.
//
// Doorbell: Ring sets one pending flag and schedules a turn when it was not set.
// The order is fixed on both sides. Whoever has work makes it visible first
// (appends to the log, posts mail) and rings after; a turn clears the flag first
// and looks for work after. So work is seen by the turn under way, or finds the
// flag cleared and rings for another one. When a turn cannot be scheduled the
// flag is cleared and the failure is fatal, unless the loop is stopping.
//
// Thread rule: Ring, Post, Later, Now, Recover, CountPanic and the methods of
// Jobs may be called by any goroutine; all else is loop only. Handler and
// Transport methods are loop only.
//
// Panics: one in mail, in a timer or in a job is contained and counted, and
// ends nothing else. Drainers contain their own.
//
// Invariants:
//
//   - L1: no loop blocks, and no turn runs over its budget by more than one
//     step of one of its parts.
//   - L2: what waits for a loop is bounded: MaxMail functions, and the jobs of
//     a pool. Who posts more is told; completions and Later wait.
//   - T1: a timer fires never early, and late by at most one WheelTick and the
//     turn in front of it. A timer that another one cancels or moves while both
//     are due does not fire.
package loop
