// Package deploytest runs what docs/deploy offers: the proxy snippets, with
// ports and paths exchanged and nothing else, between real clients and a
// relay.
//
// It owns tests only. nginx and HAProxy are started as child processes on
// loopback ports with a certificate made for the test, never as services; a
// test whose proxy is not installed is skipped. An exchange that finds nothing
// to exchange fails, so that the snippets and the tests stay together.
//
// Clients speak TLS through a tunnel of this package, which lets the clients of
// package relaytest, who know TCP only, talk to a TLS port.
//
// Thread rule: a fixture belongs to its test; tests run in parallel, each with
// a relay and a proxy of its own.
//
// Specification: the AEP 0.1 relay contract, sections 2, 11, 12, 15 and 16.
package deploytest
