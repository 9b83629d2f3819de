package nodetest

import (
	"slices"
	"testing"
)

// TestNpmCode tells a registry that is away from one that says no.
func TestNpmCode(t *testing.T) {
	f := func(output, want string, skip bool) {
		t.Helper()
		got := npmCode([]byte(output))
		if got != want || slices.Contains(unreachable, got) != skip {
			t.Errorf("%q: got %q, want %q, skip %v", output, got, want, skip)
		}
	}
	f("npm error code ENOTFOUND\nnpm error syscall getaddrinfo\n", "ENOTFOUND", true)
	f("npm warn old\nnpm ERR! code EAI_AGAIN\n", "EAI_AGAIN", true)
	f("npm error code E404\nnpm error 404 Not Found\n", "E404", false)
	f("npm error code ETARGET\nnpm error notarget No matching version\n", "ETARGET", false)
	f("Killed\n", "", false)
}
