// Package simloop drives the real fan-out core on simulated loops: sockets
// whose kernel takes as many bytes as the test says, a clock that moves only
// when it is told to, and loops that turn one step at a time. On top of that
// stands a driver that reads scenarios as text. It is for tests and benchmarks
// only; nothing that runs in a relay imports it.
//
// What is simulated is the reactor and nothing else. Log, buffers, loops, sets
// and members are the real ones, and a loop only turns after it was rung, so
// that a wake which is lost in the engine is lost here too. The goroutine hop of
// Later is a queue that is worked off in order.
//
// The protocol of the scenarios is a trivial one. An event has a session, a
// sequence, attributes and a severity; a frame is text in brackets, padded to
// the size that the event asks for:
//
//	[s1 0:5 e7 ....]     event e7, at 0:5 of session s1
//	[s1 0:5 e7 f2 ...]   the same in form 2
//	[gap a s1 0:9]       the replay of s1 for subscription a goes on at 0:9
//	[shed 3]             three events were left out
//	[subscribed a] [unsubscribed a] [reply text] [urgent text]
//	[closing hard-limit] the last frame of a connection that was cut
//
// The commands of the driver are listed at Driver.
//
// Thread rule: an Engine and all that belongs to it is used by one goroutine.
// Nothing starts a goroutine, sleeps or reads the machine's clock.
package simloop
