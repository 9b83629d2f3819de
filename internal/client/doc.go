// Package client is what the commands share that speak to a relay: where it is
// and how it is asked. Its sub-packages follow a relay and publish to it.
//
// It follows the same contract as the relay (AEP 0.1) from the other side, and
// shares no code with it but the codec, so that a fault of the one is not
// repeated by the other.
//
// Thread rule: a Relay is immutable; any goroutine may use it.
package client
