package limit

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestParseProxies(t *testing.T) {
	f := func(list string, want ...string) {
		t.Helper()
		got, err := ParseProxies(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
			return
		}
		again, err := ParseProxies(strings.Join(got, ","))
		if err != nil || !slices.Equal(again, want) {
			t.Errorf("%q: read back %q, %v", list, again, err)
		}
		if p, err := NewProxies(got); err != nil || (p == nil) != (len(want) == 0) {
			t.Errorf("%q: %v, %v", list, p, err)
		}
	}
	f("")
	f(" , ,")
	f("10.0.0.1", "10.0.0.1")
	f(" 10.0.0.1 ,\t2001:DB8::1,", "10.0.0.1", "2001:db8::1")
	f("10.1.2.3/8", "10.0.0.0/8")
	f("2001:db8::1/32", "2001:db8::/32")
	f("10.0.0.1/32,::1/128", "10.0.0.1", "::1")
	f("::ffff:10.0.0.1", "10.0.0.1")
	f("0.0.0.0/0,::/0", "0.0.0.0/0", "::/0")
	f("Unix", "unix")
	f("unix,127.0.0.1", "unix", "127.0.0.1")
	f(strings.Repeat("10.0.0.1,", maxProxies), slices.Repeat([]string{"10.0.0.1"}, maxProxies)...)
}

func TestProxyErrors(t *testing.T) {
	f := func(list, entry string, want error) {
		t.Helper()
		got, err := ParseProxies(list)
		var wrong *ProxyError
		if got != nil || !errors.Is(err, want) || !errors.As(err, &wrong) || wrong.Entry != entry {
			t.Errorf("%q: %q, %v, want %q: %v", list, got, err, entry, want)
			return
		}
		if text := err.Error(); strings.ContainsAny(text, "\r\n") || len(text) > 200 {
			t.Errorf("%q: not one short line: %q", list, text)
		}
		if _, err := NewProxies([]string{entry}); !errors.Is(err, want) && want != ErrProxyCount {
			t.Errorf("NewProxies of %q: %v, want %v", entry, err, want)
		}
	}
	for _, bad := range []string{
		"proxy.example", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.1:80", "[::1]", "10.0.0.0/33", "10.0.0.0/-1",
		"10.0.0.0/", "/8", "10.0.0.0/8/8", "::/129", "*", "unix:/run/x", "10.0.0.1 10.0.0.2", "a\nb",
		strings.Repeat("x", 5000),
	} {
		f("127.0.0.1,"+bad, bad, ErrProxyEntry)
	}
	f("fe80::1%eth0", "fe80::1%eth0", ErrProxyZone)
	f("fe80::%eth0/64", "fe80::%eth0/64", ErrProxyZone)
	f("::ffff:10.0.0.0/104", "::ffff:10.0.0.0/104", ErrProxyMapped)
	f(strings.Repeat("10.0.0.1,", maxProxies)+"10.0.0.2", "10.0.0.2", ErrProxyCount)
}

// mustProxies makes proxies of a valid list.
func mustProxies(t testing.TB, list string) *Proxies {
	t.Helper()
	entries, err := ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProxies(entries)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// X1: whose address is the client's.
func TestClient(t *testing.T) {
	f := func(name, list, peer, want string, lines ...string) {
		t.Helper()
		var headers [][]byte
		for _, line := range lines {
			headers = append(headers, []byte(line))
		}
		var from, wantAddr netip.Addr
		if peer != "" {
			from = ip(peer)
		}
		if want != "" {
			wantAddr = ip(want)
		}
		if got := mustProxies(t, list).Client(from, headers); got != wantAddr {
			t.Errorf("%s: %v, want %q", name, got, want)
		}
	}
	const trusted = "10.0.0.0/8,2001:db8::/32"
	f("nobody is trusted", "", "192.0.2.1", "192.0.2.1", "198.51.100.7")
	f("no header", trusted, "10.0.0.1", "10.0.0.1")
	f("untrusted peer", trusted, "192.0.2.1", "192.0.2.1", "198.51.100.7")
	f("one proxy", trusted, "10.0.0.1", "198.51.100.7", "198.51.100.7")
	f("invented entries to the left", trusted, "10.0.0.1", "198.51.100.7", "1.1.1.1, 10.9.9.9, 198.51.100.7")
	f("two proxies", trusted, "10.0.0.1", "198.51.100.7", "1.1.1.1, 198.51.100.7, 10.0.0.2")
	f("proxies of both families", trusted, "2001:db8::1", "198.51.100.7", "198.51.100.7,10.0.0.2 ,\t2001:db8::3")
	f("all trusted", trusted, "10.0.0.1", "10.0.0.3", "10.0.0.3, 10.0.0.2")
	f("several lines", trusted, "10.0.0.1", "198.51.100.7", "1.1.1.1", "198.51.100.7", "10.0.0.2")
	f("several lines with several", trusted, "10.0.0.1", "198.51.100.7", "1.1.1.1, 198.51.100.7", "10.0.0.3,10.0.0.2")

	f("malformed at the right", trusted, "10.0.0.1", "10.0.0.1", "198.51.100.7, unknown")
	f("malformed in the middle", trusted, "10.0.0.1", "10.0.0.2", "198.51.100.7, _hidden, 10.0.0.2")
	f("malformed in an earlier line", trusted, "10.0.0.1", "10.0.0.2", "198.51.100.7", "x", "10.0.0.2")
	f("malformed is not looked at", trusted, "10.0.0.1", "198.51.100.7", "<script>, 198.51.100.7")
	f("empty elements", trusted, "10.0.0.1", "198.51.100.7", "", ", 198.51.100.7,, ", "\t", ",")
	f("all empty", trusted, "10.0.0.1", "10.0.0.1", "", " , ,")

	f("port", trusted, "10.0.0.1", "198.51.100.7", "198.51.100.7:4711")
	f("brackets", trusted, "10.0.0.1", "2a00::1", "[2a00::1]")
	f("brackets and port", trusted, "10.0.0.1", "2a00::1", "[2a00::1]:4711, 10.0.0.2:80")
	f("mapped client", trusted, "10.0.0.1", "198.51.100.7", "::ffff:198.51.100.7")
	f("mapped proxy", trusted, "::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7, [::ffff:10.0.0.2]:1")
	f("mapped peer", trusted, "::ffff:192.0.2.1", "192.0.2.1")
	f("peer with a zone", "fe80::/10", "fe80::1%eth0", "198.51.100.7", "198.51.100.7")
	f("untrusted peer with a zone", "", "fe80::1%eth0", "fe80::1")
	for _, bad := range []string{
		"198.51.100.7:", "198.51.100.7:x", "198.51.100.7:123456", "198.51.100.7:+1", "198.51.100.07", "198.51.100",
		"[198.51.100.7]", "[2a00::1", "2a00::1]", "[2a00::1]:", "[2a00::1]x", "[2a00::1]4711", "[]", "[", "]", ":", ":80",
		"2a00::1%eth0", "[2a00::1%25eth0]", "\"2a00::1\"", "for=2a00::1", "198.51.100.7 198.51.100.8", "198.51.100.7;x",
		"relay.example", "\x00", "\xff", strings.Repeat("1", 5000), "0x7f.0.0.1", "2130706433",
	} {
		f("no address: "+bad[:min(len(bad), 20)], trusted, "10.0.0.1", "10.0.0.2", "198.51.100.7,"+bad+", 10.0.0.2")
	}
	longest := "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"
	f("longest address", trusted, "10.0.0.1", longest, "["+longest+"]:65535")

	f("Unix peer, untrusted", trusted, "", "", "198.51.100.7")
	f("Unix peer", "unix", "", "198.51.100.7", "1.1.1.1, 198.51.100.7")
	f("Unix peer behind a proxy", "unix,10.0.0.0/8", "", "198.51.100.7", "198.51.100.7, 10.0.0.2")
	f("Unix peer without a header", "unix", "", "")
	f("Unix peer, malformed", "unix", "", "", "198.51.100.7, unknown")
	f("unix is no network", "unix", "192.0.2.1", "192.0.2.1", "198.51.100.7")

	f("as many hops as are looked at", trusted, "10.0.0.1", "198.51.100.7",
		"198.51.100.7"+strings.Repeat(",10.0.0.2", maxHops-1))
	f("more hops", trusted, "10.0.0.1", "10.0.0.2", "198.51.100.7"+strings.Repeat(",10.0.0.2", maxHops))
	f("empty elements are hops too", trusted, "10.0.0.1", "10.0.0.1", "198.51.100.7"+strings.Repeat(",", maxHops))
}

func TestClientDoesNotAllocate(t *testing.T) {
	p := mustProxies(t, "10.0.0.0/8,2001:db8::/32")
	peer := ip("10.0.0.1")
	lines := [][]byte{[]byte("1.1.1.1, [2a00::1]:4711"), []byte("2001:db8::7, 10.1.2.3:80,")}
	if n := testing.AllocsPerRun(100, func() {
		if p.Client(peer, lines) != ip("2a00::1") {
			t.Fatal("wrong client")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// hop is the form of an entry: an IPv4 address, an IPv6 address, or one in
// brackets; those that can be told from a port may have one.
var hop = regexp.MustCompile(`^(?:([0-9.]+)(?::[0-9]{1,5})?|([0-9A-Fa-f:.]+)|\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?)$`)

// naiveClient is Client written plainly: over all entries in one list.
func naiveClient(trusted []netip.Prefix, peer netip.Addr, header string) netip.Addr {
	client := peer.Unmap()
	entries := strings.Split(header, ",")
	slices.Reverse(entries)
	for i, entry := range entries {
		if i == maxHops || !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(client) }) {
			break
		}
		entry = strings.Trim(entry, " \t")
		if entry == "" {
			continue
		}
		parts := hop.FindStringSubmatch(entry)
		if parts == nil {
			break
		}
		addr, err := netip.ParseAddr(parts[1] + parts[2] + parts[3])
		if err != nil || addr.Is4() != (parts[1] != "") {
			break
		}
		client = addr.Unmap()
	}
	return client
}

func FuzzClient(f *testing.F) {
	f.Add("10.0.0.1", "198.51.100.7, 10.0.0.2:80", 5)
	f.Add("2001:db8::1", "[2a00::1]:1,,unknown", 0)
	f.Add("::ffff:10.0.0.1", "[::ffff:10.0.0.2], ::1%a", 100)
	const list = "10.0.0.0/8,2001:db8::/32"
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	f.Fuzz(func(t *testing.T, peer, header string, cut int) {
		from, err := netip.ParseAddr(peer)
		if err != nil || from.Zone() != "" {
			return
		}
		p := mustProxies(t, list)
		got := p.Client(from, [][]byte{[]byte(header)})
		if want := naiveClient(trusted, from, header); got != want {
			t.Fatalf("%s, %q: %v, want %v", peer, header, got, want)
		}
		// A header in two lines, parted at a comma, means the same.
		if cut >= 0 && cut < len(header) && header[cut] == ',' {
			two := p.Client(from, [][]byte{[]byte(header[:cut]), []byte(header[cut+1:])})
			if two != got {
				t.Fatalf("%s, %q parted at %d: %v, want %v", peer, header, cut, two, got)
			}
		}
	})
}

func FuzzParseProxies(f *testing.F) {
	f.Add("10.0.0.0/8, unix,::1")
	f.Add("::ffff:1.2.3.4/120")
	f.Add("fe80::1%x")
	f.Fuzz(func(t *testing.T, list string) {
		entries, err := ParseProxies(list)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		again, err := ParseProxies(strings.Join(entries, ","))
		if err != nil || !slices.Equal(again, entries) {
			t.Errorf("%q: read back %q, %v, want %q", list, again, err, entries)
		}
		p, err := NewProxies(entries)
		if err != nil {
			t.Errorf("%q: %v", list, err)
		}
		for _, entry := range entries {
			first, _, _ := strings.Cut(entry, "/")
			if addr, err := netip.ParseAddr(first); err == nil && !p.Trusts(addr) {
				t.Errorf("%q: does not trust %v", list, addr)
			}
		}
	})
}
