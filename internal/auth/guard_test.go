package auth

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

const absent = "\x00absent" // a header that a request does not have

// check runs one request against a guard made as the relay makes it.
func check(t *testing.T, list string, loopback bool, origin, host string) error {
	t.Helper()
	origins, anyOrigin, err := ParseOrigins(list)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGuard(origins, anyOrigin, loopback)
	if err != nil {
		t.Fatal(err)
	}
	return g.Check([]byte(origin), origin != absent, []byte(host), host != absent)
}

// R38, first half: whose pages may call a relay without a token.
func TestGuardOrigin(t *testing.T) {
	const self = "relay.lan:8787"
	f := func(name, list, origin, host string, want error) {
		t.Helper()
		if got := check(t, list, false, origin, host); !errors.Is(got, want) {
			t.Errorf("%s: origins %q, Origin %q, Host %q: %v, want %v", name, list, origin, host, got, want)
		}
	}
	f("no web page", "", absent, self, nil)
	f("no web page, HTTP/1.0", "", absent, absent, nil)
	f("any host when not bound to loopback", "", absent, "other.example", nil)

	f("localhost", "", "http://localhost:3000", self, nil)
	f("localhost, https", "", "https://localhost", self, nil)
	f("localhost in capitals", "", "http://LOCALHOST:3000", self, nil)
	f("below localhost", "", "http://app.localhost:3000", self, nil)
	f("127.0.0.0/8", "", "http://127.8.9.10", self, nil)
	f("::1", "", "http://[::1]:5173", self, nil)
	f("desktop application", "", "tauri://localhost", self, nil)
	f("loopback without Host", "", "http://localhost:3000", absent, nil)

	f("same host and port", "", "http://relay.lan:8787", self, nil)
	f("same host, other case", "", "http://RELAY.lan:8787", self, nil)
	f("same host, port of http", "", "http://relay.lan", "relay.lan", nil)
	f("same host, port written out", "", "http://relay.lan", "relay.lan:80", nil)
	f("same host behind TLS", "", "https://relay.lan", "relay.lan", nil)
	f("same host behind TLS, port written out", "", "https://relay.lan", "relay.lan:443", nil)
	f("same IPv6 host", "", "http://[fd00::1]:8787", "[fd00::1]:8787", nil)
	f("other port of the same host", "", "http://relay.lan:3000", self, ErrOrigin)
	f("same name, port of the other scheme", "", "https://relay.lan", "relay.lan:80", ErrOrigin)

	f("foreign page", "", "https://evil.example", self, ErrOrigin)
	f("name that ends in localhost", "", "http://evillocalhost", self, ErrOrigin)
	f("name that begins with localhost", "", "http://localhost.evil.example", self, ErrOrigin)
	f("name that begins with 127.", "", "http://127.0.0.1.evil.example", self, ErrOrigin)
	f("user part", "", "http://localhost@evil.example", self, ErrOrigin)
	f("opaque origin", "", "null", self, ErrOrigin)
	f("empty origin", "", "", self, ErrOrigin)
	f("no host", "", "file://", self, ErrOrigin)
	f("two origins", "", "http://localhost http://localhost", self, ErrOrigin)
	f("Kelvin sign", "https://kiosk.example", "https://\u212aiosk.example", self, ErrOrigin)
	f("private network is no loopback", "", "http://192.168.1.2", self, ErrOrigin)

	const listed = "https://dash.example, http://tools.example:8080"
	f("listed", listed, "https://dash.example", self, nil)
	f("listed, other case", listed, "HTTPS://Dash.Example", self, nil)
	f("listed, implied port written out", listed, "https://dash.example:443", self, nil)
	f("listed with its port", listed, "http://tools.example:8080", self, nil)
	f("listed under another scheme", listed, "http://dash.example", self, ErrOrigin)
	f("listed under another port", listed, "http://tools.example", self, ErrOrigin)
	f("below a listed host", listed, "https://a.dash.example", self, ErrOrigin)
	f("extension", "chrome-extension://abcdef", "chrome-extension://abcdef", self, nil)
	f("every origin", "*", "https://evil.example", self, nil)
	f("every origin, opaque", "*", "null", self, nil)
}

// R38, second half: which names a relay bound to loopback answers to.
func TestGuardHost(t *testing.T) {
	f := func(name, list, host string, want error) {
		t.Helper()
		if got := check(t, list, true, absent, host); !errors.Is(got, want) {
			t.Errorf("%s: origins %q, Host %q: %v, want %v", name, list, host, got, want)
		}
	}
	f("address", "", "127.0.0.1:8787", nil)
	f("address without port", "", "127.0.0.1", nil)
	f("name", "", "localhost:8787", nil)
	f("name with an empty port", "", "localhost:", nil)
	f("absolute name", "", "localhost.:8787", nil)
	f("IPv6", "", "[::1]:8787", nil)
	f("IPv6, long", "", "[0:0:0:0:0:0:0:1]:8787", nil)
	f("IPv4 in IPv6", "", "[::ffff:127.0.0.1]", nil)
	f("HTTP/1.0", "", absent, nil)
	f("rebound name", "", "evil.example:8787", ErrHost)
	f("empty", "", "", ErrHost)
	f("port alone", "", ":8787", ErrHost)
	f("IPv6 without brackets", "", "::1", ErrHost)
	f("bracket left open", "", "[::1", ErrHost)
	f("port is no number", "", "localhost:80a", ErrHost)
	f("private address", "", "10.0.0.1:8787", ErrHost)
	f("the unspecified address", "", "0.0.0.0:8787", ErrHost)
	f("host of a listed origin", "https://dash.example", "dash.example", nil)
	f("host of a listed origin, any port", "https://dash.example", "DASH.example:8787", nil)
	f("not listed", "https://dash.example", "other.example", ErrHost)
	f("check turned off", "*", "evil.example", nil)
}

// R38: a rebound page is same-origin in the browser's eyes, so both checks
// must hold.
func TestGuardRebinding(t *testing.T) {
	err := check(t, "", true, "http://evil.example:8787", "evil.example:8787")
	if !errors.Is(err, ErrHost) {
		t.Errorf("got %v, want %v", err, ErrHost)
	}
	if err := check(t, "", true, "https://evil.example", "127.0.0.1:8787"); !errors.Is(err, ErrOrigin) {
		t.Errorf("got %v, want %v", err, ErrOrigin)
	}
}

// R38: a refusal says what to set.
func TestGuardErrorsTeach(t *testing.T) {
	for _, err := range []error{ErrOrigin, ErrHost} {
		for _, name := range []string{"AEP_ORIGINS", "AEP_TOKEN"} {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
	}
}

// A relay with a token has no guard.
func TestNilGuard(t *testing.T) {
	var g *Guard
	if err := g.Check([]byte("https://evil.example"), true, []byte("x"), true); err != nil {
		t.Error(err)
	}
}

func TestNewGuardRefusesWhatIsNoOrigin(t *testing.T) {
	var want *OriginError
	if _, err := NewGuard([]string{"dash.example"}, false, false); !errors.As(err, &want) {
		t.Errorf("got %v, want an *OriginError", err)
	}
}

func TestParseOrigins(t *testing.T) {
	f := func(list, want string, wantAny bool) {
		t.Helper()
		got, anyOrigin, err := ParseOrigins(list)
		if err != nil || strings.Join(got, " ") != want || anyOrigin != wantAny {
			t.Errorf("ParseOrigins(%q) = %q, %v, %v, want %q, %v", list, got, anyOrigin, err, want, wantAny)
		}
	}
	f("", "", false)
	f(" , ,", "", false)
	f("*", "", true)
	f(" * ,", "", true)
	f("https://Dash.Example", "https://dash.example", false)
	f("https://dash.example/", "https://dash.example", false)
	f("https://dash.example:443,http://dash.example:80", "https://dash.example http://dash.example", false)
	f("http://host:8080, https://[2001:DB8::1]:444", "http://host:8080 https://[2001:db8::1]:444", false)
	f("http://192.0.2.7", "http://192.0.2.7", false)
	f("chrome-extension://abcdefghij", "chrome-extension://abcdefghij", false)
}

func TestParseOriginsErrors(t *testing.T) {
	f := func(list string, want error) {
		t.Helper()
		_, _, err := ParseOrigins(list)
		var entry *OriginError
		if !errors.As(err, &entry) || (want != nil && !errors.Is(err, want)) {
			t.Errorf("ParseOrigins(%q): %v, want %v", list, err, want)
			return
		}
		if strings.ContainsAny(err.Error(), "\r\n") || len(err.Error()) > 300 {
			t.Errorf("ParseOrigins(%q): not one short line: %q", list, err)
		}
	}
	f("dash.example", errOriginScheme)
	f("dash.example:8080", errOriginScheme)
	f("null", errOriginScheme)
	f("://dash.example", errOriginScheme)
	f("1a://dash.example", errOriginScheme)
	f("https://", errOriginHost)
	f("https:///", errOriginTail)
	f("https://a b", errOriginHost)
	f("https://*.dash.example", errOriginHost)
	f("https://[::1", errOriginHost)
	f("https://[dash]", errOriginHost)
	f("https://::1", errOriginHost)
	f("https://dash.example/app", errOriginTail)
	f("https://dash.example?x", errOriginTail)
	f("https://me@dash.example", errOriginTail)
	f("https://dash.example:0", errOriginPort)
	f("https://dash.example:65536", errOriginPort)
	f("https://dash.example:http", errOriginPort)
	f("https://dash.example:99999999999999999999999", errOriginPort)
	f("https://dash.example, *", nil)
	f("https://ok.example,bad\nentry", errOriginScheme)
	f(strings.Repeat("x", 10_000), errOriginScheme)
}

func TestLoopback(t *testing.T) {
	f := func(host string, want bool) {
		t.Helper()
		if got := Loopback([]byte(host)); got != want {
			t.Errorf("Loopback(%q) = %v, want %v", host, got, want)
		}
	}
	for _, host := range []string{
		"localhost", "LocalHost", "localhost.", "a.localhost", "a.b.localhost.",
		"127.0.0.1", "127.255.255.255", "127.0.0.0", "::1", "[::1]",
		"[0:0:0:0:0:0:0:1]", "::ffff:127.0.0.1", "[::FFFF:7F00:1]",
	} {
		f(host, true)
	}
	for _, host := range []string{
		"", ".", "[", "[]", ".localhost", "xlocalhost", "localhost.example", "localhost..",
		"127", "127.1", "127.0.0", "127.0.0.1.", "127.0.0.01", "127.0.0.256", "127.0.0.1.1",
		"127.0.0.", "127..0.1", "127.0.0.x", "0.0.0.0", "128.0.0.1", "::", "[::2]", "::1%lo", "[::1",
		"::1]", "10.0.0.1", "xn--localhost", strings.Repeat("a.", 130) + "localhost",
	} {
		f(host, false)
	}
}

func TestGuardDoesNotAllocate(t *testing.T) {
	origins, _, err := ParseOrigins("https://a-rather-long-name-for-a-dashboard.example:8443")
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGuard(origins, false, true)
	if err != nil {
		t.Fatal(err)
	}
	f := func(origin, host string, want error) {
		t.Helper()
		o, h := []byte(origin), []byte(host)
		if n := testing.AllocsPerRun(100, func() {
			if err := g.Check(o, true, h, true); !errors.Is(err, want) {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("Origin %q, Host %q: %v allocations", origin, host, n)
		}
	}
	f("http://localhost:3000", "127.0.0.1:8787", nil)
	f("http://[::1]:3000", "[::1]:8787", nil)
	f("https://a-rather-long-name-for-a-dashboard.example:8443", "localhost:8787", nil)
	f("https://evil.example", "localhost:8787", ErrOrigin)
	f("https://evil.example", "evil.example", ErrHost)
}

// The guard takes nothing for loopback that the standard library's readers
// of addresses and URLs would take for something else.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{"http://localhost:3000", "http://[::1]", "null", "http://a@b", "x://127.0.0.1:1"} {
		f.Add(seed, "127.0.0.1:8787")
	}
	g, err := NewGuard(nil, false, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, origin, host string) {
		if g.Check([]byte(origin), true, []byte(host), true) != nil {
			return
		}
		u, err := url.Parse(origin)
		if err != nil {
			t.Fatalf("allowed an origin that is no URL: %q: %v", origin, err)
		}
		for _, name := range []string{u.Hostname(), (&url.URL{Host: host}).Hostname()} {
			name = strings.ToLower(strings.TrimSuffix(name, "."))
			addr, err := netip.ParseAddr(name)
			ok := name == "localhost" || strings.HasSuffix(name, ".localhost") ||
				(err == nil && addr.Unmap().IsLoopback())
			if !ok {
				t.Fatalf("Origin %q, Host %q: %q is not loopback", origin, host, name)
			}
		}
	})
}
