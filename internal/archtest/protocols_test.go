package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mention is a name that a protocol page says a file declares.
type mention struct{ file, name string }

// mentionsIn reads one cell of a table: a path in backticks, then the names
// that it declares, then perhaps another path.
func mentionsIn(cell string) (all []mention) {
	file := ""
	for _, m := range inBackticks.FindAllStringSubmatch(cell, -1) {
		if isPath(m[1]) {
			file = m[1]
			all = append(all, mention{file, ""})
		} else {
			all = append(all, mention{file, m[1]})
		}
	}
	return all
}

// pageRow is one row of a table that has the columns Code and Tests.
type pageRow struct {
	subject, code, tests string // the first cell, and those two
}

// rowsOf returns the rows of such tables.
func rowsOf(markdown string) (rows []pageRow) {
	code, tests := -1, -1
	for line := range strings.Lines(markdown) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			code, tests = -1, -1
		case code < 0:
			for i, cell := range cells {
				switch cell {
				case "Code":
					code = i
				case "Tests":
					tests = i
				}
			}
		case !strings.HasPrefix(cells[0], "---") && code < len(cells) && tests >= 0 && tests < len(cells):
			rows = append(rows, pageRow{cells[0], cells[code], cells[tests]})
		}
	}
	return rows
}

// declarations are the names that a Go file declares at the top: functions,
// types, variables, constants, and methods as T.M.
func declarations(path string) (map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
	return names, nil
}

// receiver returns the type of a method and a dot, or nothing.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return "?."
		}
	}
}

// checkPage returns what is wrong with the tables of one page.
func checkPage(dir, markdown string) (wrong []string) {
	known := map[string]map[string]bool{}
	for _, row := range rowsOf(markdown) {
		tests := mentionsIn(row.tests)
		named := len(tests) > 0 && tests[len(tests)-1].name != ""
		if !named && row.code+row.tests != "" {
			wrong = append(wrong, row.subject+": no test is named")
		}
		for _, m := range append(mentionsIn(row.code), tests...) {
			if m.file == "" {
				wrong = append(wrong, row.subject+": "+m.name+" without a file")
				continue
			}
			names, ok := known[m.file]
			if !ok {
				var err error
				if names, err = declarations(filepath.Join(dir, m.file)); err != nil {
					wrong = append(wrong, row.subject+": "+err.Error())
				}
				known[m.file] = names
			}
			if m.name != "" && names != nil && !names[m.name] {
				wrong = append(wrong, row.subject+": "+m.file+" declares no "+m.name)
			}
		}
	}
	return wrong
}

// TestProtocolPages: the tables of the pages on protocols name files that are
// there and what those declare, and at least one test a row.
func TestProtocolPages(t *testing.T) {
	dir := root(t)
	pages, err := filepath.Glob(filepath.Join(dir, "docs", "protocols", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(rowsOf(string(text))); n < 20 {
			t.Errorf("%s: read only %d rows", filepath.Base(page), n)
		}
		for _, wrong := range checkPage(dir, string(text)) {
			t.Errorf("%s: %s", filepath.Base(page), wrong)
		}
	}
}

// TestPagesAreComplete: a page has each rule of its contract once. The contracts
// lie next to the checkout, not in it.
func TestPagesAreComplete(t *testing.T) {
	dir := root(t)
	for _, c := range []struct{ page, contract, rules string }{
		{"aep.md", "aep.md", "[RW]"},
		{"sync.md", "sync-relay.md", "S"},
		{"firehose.md", "subscribe-repos.md", "F"},
		{"aep-ws-binding.md", "aep-ws-binding.md", "B"},
		{"sync-device.md", "sync-device.md", "D"},
	} {
		contract, err := os.ReadFile(filepath.Join(dir, "..", "shared", "spec", c.contract))
		if err != nil {
			t.Skipf("the contract is not next to the checkout: %v", err)
		}
		page, err := os.ReadFile(filepath.Join(dir, "docs", "protocols", c.page))
		if err != nil {
			t.Fatal(err)
		}
		rule := regexp.MustCompile(`\*\*(` + c.rules + `[0-9]+a?)\b`)
		rows := map[string]int{}
		for _, row := range rowsOf(string(page)) {
			rows[row.subject]++
		}
		for _, m := range rule.FindAllStringSubmatch(string(contract), -1) {
			if rows[m[1]] != 1 {
				t.Errorf("%s: %s stands %d times on the page, want once", c.page, m[1], rows[m[1]])
				rows[m[1]] = 1
			}
		}
	}
}

func TestCheckPage(t *testing.T) {
	const head = "| Rule | Demands | Code | Tests |\n|---|---|---|---|\n"
	const here, doc = "`internal/archtest/protocols_test.go`", "`internal/archtest/graph_test.go`"
	f := func(row string, want ...string) {
		t.Helper()
		got := strings.Join(checkPage(root(t), "text `x` | y\n\n"+head+row+"\n"), "; ")
		if len(want) == 0 && got != "" {
			t.Errorf("%s: %s", row, got)
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q, want %q", row, got, w)
			}
		}
	}
	f("| R1 | x `any` | " + doc + " `graph.at` `module` `pkg` | " + here + " `TestCheckPage`, `checkPage`; " + doc + " `load` |")
	f("| R1 | x | | |")
	f("| R1 | x | "+doc+" `graph.up` | "+here+" `TestCheckPage` |", "declares no graph.up")
	f("| R1 | x | "+doc+" `at` | "+here+" `TestNone` |", "declares no at", "declares no TestNone")
	f("| R1 | x | "+doc+" `graph` | |", "no test is named")
	f("| R1 | x | "+doc+" `graph` | "+here+" |", "no test is named")
	f("| R1 | x | `graph` | "+here+" `TestCheckPage` |", "graph without a file")
	f("| R1 | x | `internal/none.go` `graph` | "+here+" `TestCheckPage` |", "none.go")
}
