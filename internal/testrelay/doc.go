// Package testrelay starts real relays for the tests of what speaks to them: in
// the test's own process, or in one of its own that can be killed; and finds the
// ports that they can come back to. It is for tests only; nothing that runs in a
// relay imports it.
//
// A relay in a process of its own is the test binary once more, so that a race
// detector that watches the tests watches the relay too: the package's TestMain
// begins with Main.
//
// Thread rule: Main is called by TestMain; the rest by any goroutine that may use
// its testing.TB.
package testrelay
