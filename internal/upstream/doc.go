// Package upstream is the relay's side towards other hosts' streams: it
// connects to them, reads and checks their frames, drops what must not be
// passed on, hands the rest to the producer, which gives it our number, and
// keeps per host how far it has come and per repository what was last seen
// (F53 to F71).
//
// It owns the rows of hosts and repositories in memory, with a bounded cache,
// and decides when they are stored; how is behind Store. It never numbers a
// frame, never talks to a consumer, and runs on no loop. Hosts by crawl request
// and signatures are not here yet (F57, F68, F69, full of F66).
//
// What the contract leaves open is decided here so:
//
//   - Progress of a connection (F55) is a frame that was published or dropped
//     for a reason: its host's last_seq moved.
//   - Numbers may fall from one connection to the next: last_seq is then the
//     lower one, because the host has begun to count anew.
//   - disconnect makes a host offline and keeps its cursor. unban makes it
//     offline too: it is connected by connect, or at the next start. A host
//     that the operator lists is connected at each start, whatever its row says.
//   - A host that answered FutureCursor keeps its cursor until connect, so that
//     a restart alone cannot pass over what it has not sent.
//   - Redirects are not followed: the operator named another host.
//   - A frame that our longer number makes larger than FIREHOSE_MAX_FRAME_BYTES
//     is dropped (F17).
//   - The row of a repository is made by its first #commit, #sync or #account,
//     or by a takedown. #identity makes none.
//
// State is stored late on purpose. Each half interval what has changed is
// noted, and it is written half an interval later: when a cursor is on disk,
// consumers have had that long to be sent what it stands for, so that a kill of
// the process loses them nothing. For the same reason a lost connection does
// not cause a write of its own: the next one needs no stored cursor. And for some time
// after a start no cursor is written at all (Config.Grace), because consumers that
// lost the process before are still on their way back.
//
// Thread rule: every method may be called by any goroutine. Each host has one
// goroutine, which reads, checks and publishes one frame after the other, and
// one that pings while it is connected; one more writes the state. While
// publishing blocks, nothing is read. Publish and the Store's methods may
// block, and are called without the lock that Stats takes. Lock order: admin,
// stripe of a DID, writing, mu.
//
// Invariants:
//
//   - U1: last_seq of a host is that of the last frame that it is done with;
//     frames of a host are done in the order in which they came (F63, F65).
//   - U2: between the look at a repository's state and the note of its new
//     state no other frame of that repository is published (F64).
//   - U3: what is written at once is cursors and repositories as of one moment;
//     a state that was stored belongs to a frame that was published.
//   - U4: an entry of the cache that is not stored is never evicted; entries
//     that are not stored are bounded, and readers wait at the bound.
//   - U5: a frame that could not be published is tried again, never passed over.
//
// The contract's rules are cited as F<n>.
package upstream
