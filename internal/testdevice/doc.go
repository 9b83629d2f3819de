// Package testdevice starts devices of the sync relay for the tests of what
// they do together: with directories of their own, clocks that the test sets,
// and a ledger of every write that really happened. It is for tests only.
//
// Thread rule: a Device's clock and Cycle may be used by any goroutine; the
// rest belongs to the test's goroutine.
package testdevice
