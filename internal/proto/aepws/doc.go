// Package aepws is the behaviour of the aep-0.1 WebSocket binding: sessions,
// who holds which session, and what is owed to subscriptions that acknowledge.
// How events are read and written is codec/aepws, where they are kept is
// internal/store/eventlog.
//
// The pure parts know no loop, no socket and no codec. A session is a value
// that is stepped: an input goes in, the session after it and a list of actions
// come out, and the caller carries the actions out in their order. A window
// keeps what one subscription was sent and has not acknowledged.
//
// A Surface is the way in and out of it: it answers handshakes, reads messages as
// inputs of their sessions, does what these ask for, and hands events to the
// log. What the sockets of one loop share is a lane, which also hands out the
// log's answers: the log's goroutine only puts them there and rings. Input waits
// while a socket has 256 events or 4 MiB without an answer, while the log has no
// room for one, or while its client reads no answers.
//
// Deliveries are the hub's: the tail, which has the newest events in memory, and
// one feed a loop. A pass of a feed matches each event once against an index of
// the filters and gives each group of live subscriptions, which get the same
// bytes, one batch in one write. A subscription that replays, whose socket has
// not taken all, or that may not be sent more, is behind: it reads the tail, or
// pages of the log in jobs, for itself, when its socket has taken everything, and
// joins its group again where that stands. No memory is kept for what it owes: a
// group counts what was matched, a subscription where it was.
//
// Thread rule: a feed, all subscriptions of its connections, sockets and lanes
// belong to their loops, and so do a session, a window and the budget that windows
// share; the list of answers of a lane belongs to its mutex. The methods of the hub
// and of the tail may be called by any goroutine, but append and committed, which
// are for the one that commits. The methods of a directory may be called by any
// goroutine; it has one mutex a shard, held for one look into one map. A retryPlan
// and sessionSettings are immutable.
//
// Invariants:
//
//   - M1: CLOSED and ERROR are terminal: what comes after is discarded.
//   - M2: there is at most one close action in the life of a connection, it is
//     the last of its step, and what the rules have sent before it (B43) stands
//     before it in the same step.
//   - M3: a session that was READY ends its subscriptions first of all, once
//     (B41, B45), so that none of their events follows the farewell.
//   - M4: a register action is followed by one unregister action, unless the
//     directory refused it or another connection took the session over.
//   - M5: time does not run backwards: an input that is older than the last one
//     counts as of the same moment. A timer is always set to the future, and
//     from READY on never to an earlier moment than before.
//   - W1: in a window numbers ascend from first to last, and the count of
//     attempts and, within the same count, the due moments never run against
//     that order: whoever was sent first is due first.
//   - W2: the windows of a session hold at most the budget's limit together.
//   - D1: what a subscription is sent ascends by number, but for what is sent
//     again; nothing between is left out, unless the next delivery tells how much
//     (B52, B60).
//   - D2: a live subscription has all events of its group below the edge of the
//     pass, which never goes back.
//   - D3: a socket that takes nothing owes at most the rest of one frame, or of
//     one that is sent again and its announcement, and answers (B60).
//   - D4: a loop has at most maxReads pages under way, and at most one read that
//     waits for each subscription and each connection.
//
// What the rules leave open, and is decided here:
//
//   - The client's fault in an envelope is answered with that fault in every
//     live state, also before the session has a name (B25 before B33).
//   - A second session.opened is held to B31 too: another version or a wrong
//     credential ends the session. Without a session_id it means the session
//     that it is in. Its tenant and heartbeat wish change nothing (B34).
//   - A wrong credential on session.opened is never passed over, even when the
//     handshake had a right one. A right one counts from there on.
//   - A close frame is answered with its own code, one that may not be on the
//     wire with 1002.
//   - The one that comes to a full directory gets internal_error, which it may
//     retry, and 1011.
//   - Sessions of different tenants are different sessions, whatever their ids:
//     a tenant can neither take over nor detect those of another (B44, B46).
//   - Ping and session.heartbeat leave together, each T from READY (B37, B39).
//     After a pause of the loop one of each is sent, not all that were missed.
//   - An acknowledgement during the back-off still counts: nothing is sent again
//     (B58). A rejection is final at once and makes the dead letter.
//   - An acknowledgement with the event's own cursor is for that number alone,
//     one without is for the oldest event of that id: ids are unique for one
//     source only (B56).
//   - A handshake is held to B8 only if it has an Origin: browsers always send
//     one. Of header and query each credential that is shown must be right; a
//     header of another scheme is passed over beside a token in the query.
//   - A session_id in the query that is against B32 refuses the handshake: 400.
//   - A session that ends, by session.closed or at a stop, waits for the answers
//     to what it published for half a second at most; its subscriptions end at
//     once (B41).
//   - While a socket's input is held it is not judged by Pongs, which may lie in
//     what is held (B37).
//   - An event that the log's queue has no room for is offered again, and its
//     publisher's input waits. Whatever else fails is told as retryable.
//   - A close frame without a code is echoed without one, and counts as 1000.
//   - A live subscription that wishes no mode counts as best_effort as long as
//     all that it owes is delivered as that; up to the last event that is not,
//     nothing is dropped (B57, B60).
//   - A best_effort subscription is not ended when its next event leaves the log:
//     what has left it, and what is before the tail, is dropped and told (B60).
//   - A replay may still be sent from memory what has left the log meanwhile. A
//     live subscription whose next event has left the log ends even if the event
//     is in memory (B60), and so does one whose event would be sent again (B58).
//   - A loop that is so late that events left the log before it passed over them
//     ends the subscriptions that waited for these, in any mode.
//   - A subscription that cannot be read for, because the log fails, ends with
//     internal_error, which may be retried from last_cursor.
//   - event.replayed names the cursor with its number written in the usual way.
//   - A dead letter is sent to those who name it, unless they are in a replay or
//     owe too much: it is in no log that they could read on from (B58).
//
// The contract's rules are cited as B<n>.
package aepws
