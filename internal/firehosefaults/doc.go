// Package firehosefaults holds what hurts a firehose from outside: the real
// program is killed at random moments, alone and as a link of a chain, its state
// is taken away, put back from yesterday or damaged, its disk fills up, and a
// thousand consumers take nothing. It has tests only.
//
// Specification: the repository event stream's contract, rules F19 to F28, F31
// to F37, F43 to F49, F53 to F67, hard cases 5, 8 to 11, 18, 24, 33, 37 and 42.
//
// What a relay is held to, whatever happens to it:
//
//   - N1: no number is ever given to two frames, and numbers ascend over all
//     lives, in the publishers' answers and in what consumers are sent (F25).
//   - N2: within one life a consumer is sent every number from its first on. One
//     whose cursor may have missed something is told so before anything else
//     (F20 to F23, F27).
//   - N3: behind a relay that follows other hosts no commit comes twice and none
//     is missing, as often as the host that it follows is killed (F63, F64).
//   - N4: what a producer's log may still lose was never sent to anybody (F43).
//
// N3 holds if, before a kill, the follower was connected and had been sent what
// the killed relay's stored cursor covers; that cursor trails by half of
// FIREHOSE_CURSOR_PERSIST_MS. So the chain test kills either before a first
// cursor can have been stored or once the follower has caught up.
//
// SLUICE_KILLS is how often the tests that kill do so; "make kills" sets it.
//
// Thread rule: what a test starts in a goroutine is waited for before it ends.
package firehosefaults
