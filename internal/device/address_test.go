package device

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// A relay has one address, however it is spelled and wherever the command runs.
func TestRelayURL(t *testing.T) {
	f := func(address, want string) {
		t.Helper()
		got, err := RelayURL(address)
		if got != want || err != nil && !errors.Is(err, client.ErrURL) || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
		if again, err := RelayURL(got); want != "" && (again != got || err != nil) {
			t.Errorf("%q: then %q, %v", got, again, err)
		}
	}
	f("http://relay.example", "http://relay.example")
	f("HTTP://Relay.Example:80/", "http://relay.example")
	f("relay.example:", "http://relay.example")
	f("relay.example:08787", "http://relay.example:8787")
	f("https://relay.example:443/V2/", "https://relay.example/V2")
	f("https://relay.example:80", "https://relay.example:80")
	f("http://[::1]:80", "http://[::1]")
	f("http://[FE80::1]:8787/", "http://[fe80::1]:8787")
	f("http://relay.example:0", "")
	f("http://relay.example:65536", "")
	f("ftp://relay.example", "")
	f("unix:/run/relay.sock", "unix:/run/relay.sock")
	f("unix:///run/./relay.sock", "unix:/run/relay.sock")
	f("unix:@relay", "unix:@relay")
	f("unix:", "")
	here, err := filepath.Abs("relay.sock")
	if err != nil {
		t.Fatal(err)
	}
	f("unix:relay.sock", "unix:"+here)

	d := makeDevice(t, newKey(t), "a", Options{})
	join(t, d, "http://Relay.Example:80/v2/")
	if err := d.AddRelay("http://relay.example/v2"); !errors.Is(err, devicestore.ErrRelayExists) {
		t.Errorf("twice: %v", err)
	}
	if err := d.RemoveRelay("HTTP://RELAY.example/v2"); err != nil {
		t.Error(err)
	}
}
