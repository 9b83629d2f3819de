// Package nodetest runs public clients from npm for the tests of the surfaces that
// they speak to. It is for tests only; nothing that runs in a relay imports it.
//
// It owns:
//
//   - Packages: packages at pinned versions, installed once by npm in a directory
//     that an environment variable names. Tests are skipped, with the reason, where
//     they cannot be had; a registry that answers and has no such version is a
//     failure.
//   - Script: a program for Node that uses them, in a process of its own, and what
//     it writes as lines of JSON.
//   - Proxy: stands between a client and a relay, notes how clients come, and takes
//     their connections away, in mid-frame too.
//
// Thread rule: a Script belongs to its test; a Proxy and Packages may be used by
// any goroutine. What a test has started ends with it.
package nodetest
