package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluice-relay/sluice"

// pkg is one package of ours. Imports map an import path (without the module
// prefix if it is ours) to a file that has it.
type pkg struct {
	imports     map[string]string // of the package itself
	testImports map[string]string // of its tests, also of package x_test
	hasDoc      bool              // doc.go with a package comment
}

// graph maps the path of a package of ours, relative to the module ("cmd/x"),
// to what was read of it.
type graph map[string]*pkg

// at returns the package, made if absent.
func (g graph) at(dir string) *pkg {
	p := g[dir]
	if p == nil {
		p = &pkg{imports: map[string]string{}, testImports: map[string]string{}}
		g[dir] = p
	}
	return p
}

// names returns the packages in order.
func (g graph) names() []string { return slices.Sorted(maps.Keys(g)) }

// reach returns what a package imports directly or through other packages of
// ours, each with the chain that leads to it.
func (g graph) reach(from string) map[string]string {
	chains := map[string]string{}
	var visit func(name, chain string)
	visit = func(name, chain string) {
		p := g[name]
		if p == nil {
			return
		}
		for _, imported := range slices.Sorted(maps.Keys(p.imports)) {
			if _, seen := chains[imported]; !seen {
				chains[imported] = chain + " -> " + imported
				visit(imported, chains[imported])
			}
		}
	}
	visit(from, from)
	return chains
}

// root returns the directory of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// skipped reports whether the go command ignores a directory of this name.
func skipped(name string) bool {
	return name == "testdata" || name == "vendor" || name != "." && strings.HasPrefix(name, ".") ||
		strings.HasPrefix(name, "_")
}

// load reads the whole module.
func load(t *testing.T) graph {
	t.Helper()
	g := graph{}
	tree := os.DirFS(root(t))
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (skipped(entry.Name()) || ownModule(tree, file)):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(file) != ".go":
			return nil
		}
		source, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		return g.addFile(file, source)
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ownModule tells whether dir, which is not the root, is a module of its own:
// its imports are its own affair.
func ownModule(tree fs.FS, dir string) bool {
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	return err == nil && dir != "."
}

// addFile adds the imports of one file, named relative to the module.
func (g graph) addFile(file string, source []byte) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	p := g.at(path.Dir(file))
	imports := p.imports
	if strings.HasSuffix(file, "_test.go") {
		imports = p.testImports
	}
	if path.Base(file) == "doc.go" && parsed.Doc != nil {
		p.hasDoc = true
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		imports[strings.TrimPrefix(imported, module+"/")] = file
	}
	return nil
}

// ours reports whether an import is a package of this module: its first
// element is one of our layers and no element of the standard library is
// called so.
func ours(imported string) bool {
	_, known := arrows[layer(imported)]
	return known
}

// thirdParty reports whether an import comes from another module: only those
// have a dot in their first element.
func thirdParty(imported string) bool {
	return strings.Contains(layer(imported), ".")
}

// layer returns the first element of an import path.
func layer(imported string) string {
	first, _, _ := strings.Cut(imported, "/")
	return first
}

// within reports whether a package is dir or below it.
func within(imported, dir string) bool {
	return imported == dir || strings.HasPrefix(imported, dir+"/")
}

// withinAny reports whether a package is one of dirs or below one.
func withinAny(imported string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(imported, dir) })
}
