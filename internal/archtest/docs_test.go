package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rootDocuments are the documents at the top; those that are absent are not
// read. Everything under docs is read too.
var rootDocuments = []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"}

// topNames begin a path of this repository. Other texts with a slash are
// import paths, media types or request targets.
var topNames = []string{"cmd", "codec", "engine", "internal", "bench", "profiles", "docs", ".ci"}

// generated paths exist only after a target ran.
var generated = []string{"bench/out", "profiles/out"}

var (
	inBackticks = regexp.MustCompile("`([^`\n]+)`")
	inLink      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	rootFile    = regexp.MustCompile(`^([A-Z]+\.md|Makefile|LICENSE|NOTICE|go\.mod|go\.sum)$`)
	pathText    = regexp.MustCompile(`^[A-Za-z0-9._/{},-]+$`)
	identifier  = regexp.MustCompile(`\.[A-Z][A-Za-z0-9_.]*$`)
)

// pathsIn returns the repository paths that a Markdown text names: in
// backticks, as the target of a link, or first on a line of a fenced block
// without a language, such as a package map. Texts with placeholders are
// left out.
func pathsIn(markdown string) []string {
	var paths []string
	fence, plain := false, false
	for line := range strings.Lines(markdown) {
		line = strings.TrimSpace(line)
		if language, isFence := strings.CutPrefix(line, "```"); isFence {
			fence, plain = !fence, language == "" || language == "text"
			continue
		}
		var found []string
		switch {
		case fence && plain:
			found = append(found, strings.Fields(line + " -")[0])
		case !fence:
			for _, m := range inBackticks.FindAllStringSubmatch(line, -1) {
				found = append(found, m[1])
			}
			for _, m := range inLink.FindAllStringSubmatch(line, -1) {
				if target, _, _ := strings.Cut(m[1], "#"); target != "" && !strings.Contains(target, ":") {
					found = append(found, target)
				}
			}
		}
		for _, text := range found {
			if isPath(text) {
				paths = append(paths, expand(text)...)
			}
		}
	}
	return paths
}

// isPath reports whether a text names a path of this repository.
func isPath(text string) bool {
	if rootFile.MatchString(text) {
		return true
	}
	return pathText.MatchString(text) && !strings.Contains(text, "...") && strings.Contains(text, "/") &&
		slices.Contains(topNames, layer(text)) &&
		!slices.ContainsFunc(generated, func(dir string) bool { return within(strings.TrimSuffix(text, "/"), dir) })
}

// expand turns a{b,c}d into abd and acd.
func expand(text string) []string {
	before, rest, open := strings.Cut(text, "{")
	choices, after, closed := strings.Cut(rest, "}")
	if !open || !closed {
		return []string{text}
	}
	var all []string
	for choice := range strings.SplitSeq(choices, ",") {
		all = append(all, expand(before+choice+after)...)
	}
	return all
}

// exists reports whether a path is there, also when an exported name follows
// it, as in engine/fanout.Group.
func exists(tree fs.FS, name string) bool {
	name = strings.TrimSuffix(name, "/")
	for _, candidate := range []string{name, identifier.ReplaceAllString(name, "")} {
		if _, err := fs.Stat(tree, candidate); err == nil {
			return true
		}
	}
	return false
}

// documents returns the Markdown files to read, relative to dir.
func documents(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, name := range rootDocuments {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			names = append(names, name)
		}
	}
	err := fs.WalkDir(os.DirFS(dir), "docs", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			names = append(names, file)
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestDocumentsNameWhatExists(t *testing.T) {
	dir := root(t)
	names := documents(t, dir)
	if !slices.Contains(names, "README.md") {
		t.Fatalf("read only %v", names)
	}
	for _, document := range names {
		text, err := os.ReadFile(filepath.Join(dir, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pathsIn(string(text)) {
			if !exists(os.DirFS(dir), name) && !exists(os.DirFS(filepath.Join(dir, filepath.Dir(document))), name) {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
		}
	}
}

func TestPathsIn(t *testing.T) {
	f := func(markdown string, want ...string) {
		t.Helper()
		if got := pathsIn(markdown); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", markdown, got, want)
		}
	}
	f("see `engine/fanout/group.go` and `codec/aep`", "engine/fanout/group.go", "codec/aep")
	f("see `engine/{stream,session}/doc.go`", "engine/stream/doc.go", "engine/session/doc.go")
	f("`engine/fanout.Group`", "engine/fanout.Group")
	f("`ARCHITECTURE.md`, `Makefile`", "ARCHITECTURE.md", "Makefile")
	f("[the map](ARCHITECTURE.md#map) [x](https://example.com/engine/x) [y](#engine/x)", "ARCHITECTURE.md")
	f("`POST /events`, `text/event-stream`, `log/slog`, `/stream`, `github.com/gobwas/ws`, `make run`, `bin/sluice`")
	f("`engine/...`, `internal/proto/<name>`, `codec/*`, `profiles/out/`, `bench/out/new.txt`")
	f("engine/nowhere without backticks")
	f("```\nengine/stream  the log\n  cmd -> internal\n\n```\n`codec/sse`", "engine/stream", "codec/sse")
	f("```text\ncodec/{sse,aep} x\n```", "codec/sse", "codec/aep")
	f("```sh\nengine/stream\n`codec/sse`\n```")
}

func TestExists(t *testing.T) {
	tree := os.DirFS(root(t))
	f := func(name string, want bool) {
		t.Helper()
		if exists(tree, name) != want {
			t.Errorf("exists(%q) = %v, want %v", name, !want, want)
		}
	}
	f("internal/archtest/doc.go", true)
	f("internal/archtest/", true)
	f("internal/archtest.Thing", true)
	f("internal/archtest/none.go", false)
	f("internal/nowhere", false)
	f("internal/nowhere.Thing", false)
}
