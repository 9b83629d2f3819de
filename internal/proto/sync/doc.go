// Package sync is the behaviour of the encrypted sync relay: its routes, what it
// takes in, and what it answers. How bodies are read and written is codec/syncwire,
// what is stored and by which rules is internal/store.
//
// It owns the paths /v1/ and /health, and both under each base path (S2), and
// decides everything on them: methods, CORS, errors, authentication.
//
// Nothing of it blocks a loop. Bodies are parsed on their loop as they come. The
// store is read in jobs. Writes are handed to the store's queue, whose writer
// answers through a callback that is posted back to the loop. An answer of
// success is sent when the commit is on the medium (S25).
//
// Thread rule: Serve is called on the loops; a request, a body and a waiter
// belong to the loop of their connection. Notify, StopWaiting, Owns and Counters
// may be called by any goroutine. The one structure shared between loops is the
// list of waiters, by owner, under one mutex that is held for a walk of one list
// and never during anything that blocks.
//
// Invariants:
//
//   - B1: what a body has to have in memory is reserved of the relay's budget,
//     and what it has in spool files of the spool's quota, for as long as the body,
//     a job or the store refers to it; both are given back exactly once.
//   - B2: who the client is comes first: a fault of a body whose owner is known is
//     told only to the owner or to whom nobody has registered yet (S16).
//   - B3: a device that waits is entered in the list of waiters before its page
//     is looked for, so that it never sleeps past a commit (S52). It is in the
//     list, queued to look, looking, or over.
//   - B4: a page or a chunk on its way to a slow reader holds memory and nothing
//     of the store. A large one is reserved of the relay's budget until its
//     reader has it or is gone, and all of them together are bounded.
//
// The contract's rules are cited as S<n>.
package sync
