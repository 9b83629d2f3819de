package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// arrows has the layers of the module and what each may import of ours. The
// keys are all top-level directories that may hold packages.
var arrows = map[string][]string{
	"cmd":      {"internal", "engine", "codec", "bench", "profiles"},
	"bench":    {"bench", "internal", "engine", "codec", "profiles"},
	"internal": {"internal", "engine", "codec", "profiles"},
	"engine":   {"engine"},
	"codec":    {"codec"},
	"profiles": {},
}

// extraArrows are single arrows that the layers do not allow.
var extraArrows = map[string][]string{
	// The HTTP connection machine needs the wire packages of its transport.
	"engine/serve": {"codec/http1", "codec/wsframe", "codec/sse"},
}

// onlyOurs narrows what a package may import of ours, and leaves it nothing
// but the standard library besides.
var onlyOurs = map[string][]string{
	"engine/stream":      {},
	"engine/session":     {"engine/stream"},
	"internal/relaytest": {}, // or a fault could hide by being on both sides
}

// never lists what a package may not even reach through others of ours.
// "net" means the package alone; netip is arithmetic.
var never = map[string][]string{
	"engine/fanout": {"net", "net/http", gnet, "codec"},
	"engine/stream": {"net", "net/http"},
}

// protocols is where each protocol has its folder; protocolNever is what
// none of them imports.
const protocols = "internal/proto"

var protocolNever = append([]string{"net", "net/http", "os/exec", gnet, "database/sql"}, sqlDrivers...)

const gnet = "github.com/panjf2000/gnet/v2"

var sqlDrivers = []string{
	"modernc.org/sqlite", "github.com/mattn/go-sqlite3", "github.com/ncruces/go-sqlite3", "zombiezen.com/go/sqlite",
}

// home is where a third-party library may be imported, and where tests may
// import it besides.
type home struct {
	code  []string
	tests []string
}

// homes has every third-party library by its module or package path. A
// library that is not listed may not be imported at all.
var homes = func() map[string]home {
	jsonCodecs := home{code: []string{"codec/aep", "codec/aepws", "codec/syncwire", protocols}}
	m := map[string]home{
		gnet:                                  {code: []string{"engine/netloop"}},
		"golang.org/x/sys":                    {code: []string{"engine/netloop", "bench/load"}},
		"github.com/go-analyze/charts":        {code: []string{"bench/report"}},
		"github.com/valyala/fasthttp":         {code: []string{"codec/http1"}},
		"github.com/gobwas/ws":                {code: []string{"codec/wsframe"}, tests: []string{"internal", "engine/serve"}},
		"github.com/gobwas/httphead":          {code: []string{"codec/wsframe"}},
		"github.com/bytedance/sonic":          jsonCodecs,
		"github.com/oklog/ulid/v2":            {code: []string{"codec/aepws"}},
		"github.com/fxamacker/cbor/v2":        {code: []string{"codec/dagcbor"}, tests: []string{"codec/firehose"}},
		"github.com/urfave/cli/v3":            {code: []string{"cmd/sluice", "cmd/sluicebench", "internal/cmdline"}},
		"github.com/prometheus/client_golang": {code: []string{"internal/admin"}},
		"github.com/coder/websocket":          {code: []string{"internal/client", "internal/demo", "internal/doctor", "internal/upstream"}},
		"github.com/fatih/color":              {code: []string{"internal/client", "internal/doctor", "cmd/sluice"}},
		"github.com/mattn/go-isatty":          {code: []string{"cmd/sluice"}},
		"golang.org/x/term":                   {code: []string{"cmd/sluice"}},
		"github.com/schollz/progressbar/v3":   {code: []string{"cmd/sluice"}},
		"github.com/rivo/uniseg":              {code: []string{"internal/client/render"}},
		"github.com/tyler-smith/go-bip39":     {code: []string{"codec/synccrypt"}},
		"golang.org/x/text":                   {code: []string{"codec/synccrypt"}},
		"database/sql":                        {code: []string{"internal/store"}},
	}
	for _, driver := range sqlDrivers {
		m[driver] = home{code: []string{"internal/store/sqldb"}}
	}
	return m
}()

// check returns what is wrong with a graph, one line each.
func check(g graph) []string {
	var wrong []string
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, name := range g.names() {
		if _, known := arrows[layer(name)]; !known {
			report("%s: not below one of the layers %v", name, slices.Sorted(maps.Keys(arrows)))
			continue
		}
		p := g[name]
		for _, imported := range slices.Sorted(maps.Keys(p.imports)) {
			for _, rule := range []func(string, string, bool) string{checkArrow, checkOnly, checkProtocol, checkHome} {
				if broken := rule(name, imported, false); broken != "" {
					report("%s imports %s (%s): %s", name, imported, p.imports[imported], broken)
				}
			}
		}
		for _, imported := range slices.Sorted(maps.Keys(p.testImports)) {
			for _, rule := range []func(string, string, bool) string{checkArrow, checkHome} {
				if broken := rule(name, imported, true); broken != "" {
					report("tests of %s import %s (%s): %s", name, imported, p.testImports[imported], broken)
				}
			}
		}
	}
	return append(wrong, checkNever(g)...)
}

// checkArrow holds an import to the layers. Tests are held to the same.
func checkArrow(name, imported string, test bool) string {
	allowed := arrows[layer(name)]
	switch {
	case !ours(imported), slices.Contains(allowed, layer(imported)):
		return ""
	case withinAny(imported, extraArrows[name]), test && imported == name:
		return ""
	}
	return fmt.Sprintf("%s may import of ours only %v %v", name, allowed, extraArrows[name])
}

// checkOnly holds a package to its narrower list.
func checkOnly(name, imported string, _ bool) string {
	list, narrowed := onlyOurs[name]
	if !narrowed || !ours(imported) && !thirdParty(imported) || slices.Contains(list, imported) {
		return ""
	}
	return fmt.Sprintf("%s may import the standard library and %v only", name, list)
}

// checkProtocol keeps the protocols apart, and off the network.
func checkProtocol(name, imported string, _ bool) string {
	if !within(name, protocols) || name == protocols {
		return ""
	}
	for _, banned := range protocolNever {
		if matches(imported, banned) {
			return "a protocol never imports " + banned
		}
	}
	if within(imported, protocols) && protocolOf(imported) != protocolOf(name) {
		return "protocols never import each other"
	}
	return ""
}

// protocolOf returns the folder of the protocol that a package belongs to.
func protocolOf(name string) string {
	return layer(strings.TrimPrefix(name, protocols+"/"))
}

// checkHome holds third-party libraries to their homes.
func checkHome(name, imported string, test bool) string {
	for _, library := range slices.Sorted(maps.Keys(homes)) {
		if !within(imported, library) {
			continue
		}
		h := homes[library]
		if withinAny(name, h.code) || test && withinAny(name, h.tests) {
			return ""
		}
		return fmt.Sprintf("%s is imported only by %v (tests also %v)", library, h.code, h.tests)
	}
	if thirdParty(imported) {
		return "this library has no home: add it to homes and to ARCHITECTURE.md"
	}
	return ""
}

// checkNever follows the imports of the packages that must not reach
// something.
func checkNever(g graph) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(never)) {
		chains := g.reach(name)
		for _, imported := range slices.Sorted(maps.Keys(chains)) {
			for _, banned := range never[name] {
				if matches(imported, banned) {
					wrong = append(wrong, fmt.Sprintf("%s: %s never reaches %s", chains[imported], name, banned))
				}
			}
		}
	}
	return wrong
}

// matches reports whether an import is banned: the standard library's
// packages by name alone, all others with what is below them.
func matches(imported, banned string) bool {
	if ours(banned) || thirdParty(banned) {
		return within(imported, banned)
	}
	return imported == banned
}

func TestImports(t *testing.T) {
	g := load(t)
	if len(g) < 4 || g["internal/archtest"] == nil {
		t.Fatalf("read only %d packages: %v", len(g), g.names())
	}
	for _, wrong := range check(g) {
		t.Error(wrong)
	}
}

func TestEveryPackageHasDoc(t *testing.T) {
	g := load(t)
	for _, name := range g.names() {
		if p := g[name]; !p.hasDoc {
			t.Errorf("%s: no doc.go with a package comment", name)
		}
	}
}
