package archtest

import (
	"strings"
	"testing"
)

// The checker finds what is wrong in graphs made wrong on purpose.
func TestCheckerFindsForbiddenImports(t *testing.T) {
	f := func(name, from, to, want string) {
		t.Helper()
		g := graph{}
		g.at(from).imports[to] = "x.go"
		got := strings.Join(check(g), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %s -> %s: got %q, want %q", name, from, to, got, want)
		}
	}
	f("way down", "cmd/sluice", "internal/relay", "")
	f("way down", "internal/relay", "engine/netloop", "")
	f("way down", "internal/proto/aep", "codec/aep", "")
	f("standard library", "internal/relay", "net/http", "")
	f("up from internal", "internal/relay", "cmd/sluice", "may import of ours only")
	f("up from engine", "engine/loop", "internal/auth", "may import of ours only")
	f("up from codec", "codec/aep", "engine/stream", "may import of ours only")
	f("codec within codec", "codec/aep", "codec/wsframe", "")
	f("engine knows no protocol", "engine/serve", "internal/proto/aep", "may import of ours only")
	f("engine knows no codec", "engine/loop", "codec/wsframe", "may import of ours only")
	f("serve knows three", "engine/serve", "codec/sse", "")
	f("serve knows no other", "engine/serve", "codec/aep", "may import of ours only")
	f("unknown layer", "util", "fmt", "not below one of the layers")

	f("stream is alone", "engine/stream", "engine/loop", "standard library and [] only")
	f("stream has no library", "engine/stream", "golang.org/x/sys/unix", "standard library and [] only")
	f("session knows stream", "engine/session", "engine/stream", "")
	f("session knows no other", "engine/session", "engine/loop", "standard library and [engine/stream] only")
	f("relaytest is apart", "internal/relaytest", "codec/wsframe", "standard library and [] only")

	f("fanout and net", "engine/fanout", "net", "never reaches net")
	f("fanout and netip", "engine/fanout", "net/netip", "")
	f("fanout and gnet", "engine/fanout", gnet+"/pkg/pool", "never reaches "+gnet)
	f("fanout and codec", "engine/fanout", "codec/wsframe", "never reaches codec")

	f("gnet at home", "engine/netloop", gnet, "")
	f("gnet elsewhere", "engine/serve", gnet, "imported only by [engine/netloop]")
	f("fasthttp elsewhere", "engine/serve", "github.com/valyala/fasthttp", "imported only by [codec/http1]")
	f("gobwas elsewhere", "engine/serve", "github.com/gobwas/ws/wsutil", "imported only by [codec/wsframe]")
	f("sonic at home", "internal/proto/aep", "github.com/bytedance/sonic/ast", "")
	f("sonic elsewhere", "internal/relay", "github.com/bytedance/sonic", "is imported only by")
	f("cbor at home", "codec/dagcbor", "github.com/fxamacker/cbor/v2", "")
	f("cbor elsewhere", "codec/firehose", "github.com/fxamacker/cbor/v2", "imported only by [codec/dagcbor]")
	f("cli elsewhere", "internal/relay", "github.com/urfave/cli/v3", "imported only by [cmd/sluice cmd/sluicebench internal/cmdline]")
	f("driver elsewhere", "internal/relay", "modernc.org/sqlite", "imported only by [internal/store/sqldb]")
	f("sql elsewhere", "internal/relay", "database/sql", "imported only by [internal/store]")
	f("sql at home", "internal/store", "database/sql", "")
	f("library without a home", "internal/relay", "example.com/new/library", "no home")

	f("protocols apart", "internal/proto/aep", "internal/proto/sync", "never import each other")
	f("within a protocol", "internal/proto/aep/wire", "internal/proto/aep", "")
	f("protocol and net", "internal/proto/aep", "net", "a protocol never imports net")
	f("protocol and gnet", "internal/proto/aep", gnet, "a protocol never imports "+gnet)
	f("protocol and sql", "internal/proto/sync", "database/sql", "a protocol never imports database/sql")
}

// Tests are held to the arrows too, with the exceptions that homes lists.
func TestCheckerLooksAtTests(t *testing.T) {
	f := func(from, to, want string) {
		t.Helper()
		g := graph{}
		g.at(from).testImports[to] = "x_test.go"
		got := strings.Join(check(g), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s -> %s: got %q, want %q", from, to, got, want)
		}
	}
	f("engine/loop", "engine/simloop", "")
	f("engine/loop", "engine/loop", "")
	f("cmd/sluice", "cmd/sluice", "")
	f("engine/loop", "internal/relay", "tests of engine/loop import internal/relay")
	f("internal/relay", "github.com/gobwas/ws", "")
	f("engine/loop", "github.com/gobwas/ws", "imported only by")
	f("codec/firehose", "github.com/fxamacker/cbor/v2", "")
	f("internal/relay", "github.com/fxamacker/cbor/v2", "imported only by")
	f("internal/relay", "example.com/new/library", "no home")
}

// What a package must not reach is found through others, with the chain.
func TestCheckerFollowsChains(t *testing.T) {
	g := graph{}
	g.at("engine/fanout").imports["engine/loop"] = "a.go"
	g.at("engine/loop").imports["engine/netloop"] = "b.go"
	g.at("engine/netloop").imports[gnet] = "c.go"
	g.at("engine/netloop").imports["engine/fanout"] = "d.go" // a cycle must not hang it
	want := "engine/fanout -> engine/loop -> engine/netloop -> " + gnet
	if got := strings.Join(check(g), "\n"); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Files are read as they are: tests apart, ours without the module path.
func TestAddFile(t *testing.T) {
	g := graph{}
	add := func(file, source string) {
		t.Helper()
		if err := g.addFile(file, []byte(source)); err != nil {
			t.Fatal(err)
		}
	}
	add("engine/x/a.go", "//go:build plan9\n\npackage x\nimport (\n_ \"net\"\n_ \""+module+"/codec/sse\"\n)\n")
	add("engine/x/a_test.go", "package x_test\nimport \"testing\"\n")
	p := g["engine/x"]
	if p.imports["net"] == "" || p.imports["codec/sse"] == "" || p.testImports["testing"] == "" || len(p.imports) != 2 {
		t.Errorf("got %v, tests %v", p.imports, p.testImports)
	}
	if p.hasDoc {
		t.Error("doc.go counts before it is there")
	}
	add("engine/x/doc.go", "package x\n")
	if p.hasDoc {
		t.Error("a doc.go without a comment counts")
	}
	add("engine/x/doc.go", "// Package x is.\npackage x\n")
	if !p.hasDoc {
		t.Error("a doc.go with a comment does not count")
	}
}
