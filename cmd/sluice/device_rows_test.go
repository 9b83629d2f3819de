package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/client/render"
	"github.com/sluice-relay/sluice/internal/client/repos"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// errBrokenPipe is what a write to a pipe without a reader gives.
var errBrokenPipe error = syscall.EPIPE

// statusOf reads "status --json".
func statusOf(t *testing.T, dir string) (s deviceStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(mustDevice(t, dir, "", "status", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// rowsOf reads the lines of --json.
func rowsOf(t *testing.T, text string) (rows []rowJSON) {
	t.Helper()
	for line := range strings.Lines(text) {
		var row rowJSON
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// Rows as they are written, read, listed, deleted and exported, without a relay.
func TestDeviceRows(t *testing.T) {
	dir := restored(t, "one")
	f := func(name string, code int, stdout, stderr, stdin string, args ...string) {
		t.Helper()
		wantDevice(t, name, deviceIn(t, dir, stdin, args...), code, stdout, stderr)
	}
	f("put", exitOK, "^$", "^$", "", "put", "notes", "b", `{ "z": 1, "a": "<\u0026>" }`)
	f("put stdin", exitOK, "^$", "^$", "{\"n\":\n18446744073709551615}", "put", "notes", "a", "-")
	f("put evil", exitOK, "^$", "^$", "", "put", "other", "x\u202ey", `{"t":"\u001b[2J`+"\u202e"+`"}`)
	f("get", exitOK, `^{"a":"<&>","z":1}\n$`, "^$", "", "get", "notes", "b")
	f("digits", exitOK, `^{"n":18446744073709551615}\n$`, "^$", "", "get", "notes", "a")
	f("get json", exitOK, `^{"table":"notes","id":"b","hlc":"\d{13}-[0-9a-f]{4}-one","row":{"a":"<&>","z":1}}\n$`, "^$", "", "get", "notes", "b", "--json")
	f("list", exitOK, `^\d{4}-\S+Z notes +a +{"n":18446744073709551615}\n\S+ notes +b .*\n\S+ other +x\\u202ey +{"t":"\\u001b\[2J\\u202e"}\n$`, "^$", "", "list")
	f("list table", exitOK, `^\S+ other .*\n$`, "^$", "", "list", "other")
	f("list after", exitOK, `^\S+ notes +b .*\n$`, "^$", "", "list", "notes", "--after", "a")
	f("list limit", exitOK, `^\S+ notes +a .*\n$`, "^$", "", "list", "--limit", "1")
	f("list none", exitOK, `^$`, "^$", "", "list", "none")
	if rows := rowsOf(t, mustDevice(t, dir, "", "list", "--json")); len(rows) != 3 || string(rows[0].Row) != `{"n":18446744073709551615}` {
		t.Errorf("list --json: %+v", rows)
	}
	f("no row", exitFailed, "^$", `there is no row "c" in table "notes"`, "", "get", "notes", "c")
	f("bad row", exitFailed, "^$", "a row is a JSON object", "", "put", "notes", "c", "[1]")
	f("bad JSON", exitFailed, "^$", "a row is a JSON object", "", "put", "notes", "c", `{"a":1`)
	f("twice", exitFailed, "^$", "a row is a JSON object", "", "put", "notes", "c", `{"a":1,"a":2}`)
	f("empty stdin", exitFailed, "^$", "standard input: there is no row in it", " \n", "put", "notes", "c", "-")
	f("long stdin", exitFailed, "^$", "more than 1048576 bytes", strings.Repeat(" ", maxLineBytes+1), "put", "notes", "c", "-")
	f("large", exitFailed, "^$", "at most \\d+ bytes", `{"a":"`+strings.Repeat("x", 300_000)+`"}`, "put", "notes", "c", "-")
	f("bad table", exitFailed, "^$", "table", "", "put", "no tes", "c", "{}")
	f("bad id", exitFailed, "^$", "id", "", "put", "notes", "a\nb", "{}")
	f("reserved", exitFailed, "^$", `the table "blob" is for attachments`, "", "put", "blob", "c", "{}")
	f("delete none", exitFailed, "^$", "", "", "delete", "notes", "a", "c")
	f("all or none", exitOK, "^{", "^$", "", "get", "notes", "a")
	f("delete", exitOK, "^$", "^$", "", "delete", "notes", "a", "b")
	f("deleted", exitFailed, "^$", `row "a" of table "notes" was deleted \d{4}-.*Z by one`, "", "get", "notes", "a")
	f("list deleted", exitOK, `^\S+ notes +a +deleted\n\S+ notes +b +deleted\n$`, "^$", "", "list", "--deleted")
	f("list deleted one", exitOK, `^\S+ notes +a +deleted\n$`, "^$", "", "list", "notes", "--deleted", "--limit", "1")
	f("list deleted table", exitOK, `^$`, "^$", "", "list", "other", "--deleted")
	if rows := rowsOf(t, mustDevice(t, dir, "", "list", "--deleted", "--json")); len(rows) != 2 || !rows[0].Deleted || rows[0].Row != nil {
		t.Errorf("list --deleted --json: %+v", rows)
	}
	f("export", exitOK, `^{"table":"other","id":"x.y","hlc":".*","row":{"t":".*"}}\n$`, "^$", "", "export")
	f("purge too young", exitOK, "^forgotten rows: 0\n$", "^$", "", "purge")
	f("purge", exitOK, "^forgotten rows: 2\n$", "^$", "", "purge", "--older-than", "1ns")
	f("purged", exitOK, "^$", "^$", "", "list", "--deleted")
}

// put --lines takes what export and list write, in transactions, and names the
// line that is wrong; those before it are written.
func TestDeviceLines(t *testing.T) {
	dir := restored(t, "one")
	var lines strings.Builder
	const many = 2*maxBatchLines + 7
	for i := range many {
		fmt.Fprintf(&lines, "{\"table\":\"t\",\"id\":\"%06d\",\"row\":{\"n\":%d}}\n\n", i, i)
	}
	o := deviceIn(t, dir, lines.String(), "put", "--lines", "-")
	wantDevice(t, "many", o, exitOK, "^$", fmt.Sprintf("rows written: %d\n$", many))
	exported := mustDevice(t, dir, "", "export")
	if n := strings.Count(exported, "\n"); n != many {
		t.Errorf("exported %d", n)
	}
	if n := len(rowsOf(t, mustDevice(t, dir, "", "list", "t", "--json"))); n != many {
		t.Errorf("listed %d", n)
	}
	other := restored(t, "two")
	blob := `{"table":"blob","id":"x","row":{}}` + "\n"
	o = deviceIn(t, other, "", "put", "--lines", writeFile(t, "rows", blob+exported))
	wantDevice(t, "exported", o, exitOK, "^$", `1 rows of the table blob left out(.*\n)*.*rows written: `+fmt.Sprint(many))
	f := func(name, text, stderr string, written int) {
		t.Helper()
		dir := restored(t, "x")
		wantDevice(t, name, deviceIn(t, dir, text, "put", "--lines", "-"), exitFailed, "^$", stderr)
		if n := len(rowsOf(t, mustDevice(t, dir, "", "list", "--json"))); n != written {
			t.Errorf("%s: %d rows, want %d", name, n, written)
		}
	}
	const good = `{"table":"t","id":"a","row":{}}` + "\n"
	f("no JSON", good+"x", `stdin:2: not {"table".*; the lines before it are written`, 1)
	f("member", good+`{"table":"t","id":"b","row":{},"x":1}`, "stdin:2: ", 1)
	f("twice", good+`{"table":"t","id":"b","id":"c","row":{}}`, "stdin:2: .*id occurs twice", 1)
	f("other case", good+`{"table":"t","ID":"b","row":{}}`, "stdin:2: .*unknown member \"ID\"", 1)
	f("no UTF-8", good+`{"table":"t","id":"b`+"\xff"+`","row":{}}`, "stdin:2: .*not UTF-8", 1)
	f("half a pair", good+`{"table":"t","id":"\ud800","row":{}}`, "stdin:2: .*half a surrogate pair", 1)
	f("no object", good+`[]`, "stdin:2: .*no object", 1)
	for _, cut := range []string{`{"table":"t","id":"b","row":{}`, `{"table":"t","id":"b","row":`, `{"table":"t","id":"b",`, `{"table":"t","id"`, `{`} {
		f("cut", good+cut, "stdin:2: .*unexpected EOF", 1)
	}
	f("two", good+`{"table":"t","id":"b","row":{}}{}`, "stdin:2: .*more behind it", 1)
	f("no id", "\n"+good+`{"table":"t","row":{}}`, "stdin:3: .*table or id is missing", 1)
	f("no row", `{"table":"t","id":"b"}`, "stdin:1: .*row is missing", 0)
	f("both", `{"table":"t","id":"b","deleted":true,"row":{}}`, "deleted, and has a row", 0)
	f("refused", good+"\n"+`{"table":"t","id":"b","row":[]}`+"\n"+good, "stdin:3: .*a row is a JSON object", 1)
	f("refused delete", good+`{"table":"t","id":"b","row":null}`, "stdin:2: ", 1)
	f("long", good+`{"table":"t","id":"b","row":{"a":"`+strings.Repeat("x", maxLineBytes)+`"}}`, "stdin:2: the line has more than", 1)
	f("deletes", good+`{"table":"t","id":"a","row":null}`+"\nx", "stdin:3: ", 0)
	wantDevice(t, "no file", deviceIn(t, dir, "", "put", "--lines", filepath.Join(dir, "none")), exitFailed, "^$", "no such file or directory\n?$")
}

// A reader that has seen enough ends a command with 0 and no word.
func TestDeviceBrokenPipe(t *testing.T) {
	dir := restored(t, "one")
	mustDevice(t, dir, "", "put", "t", "i", "{}")
	for _, args := range [][]string{{"get", "t", "i"}, {"list"}, {"export"}, {"status"}, {"status", "--json"}, {"purge"}} {
		var stderr bytes.Buffer
		a := &app{lookup: func(string) (string, bool) { return "", false }, stdout: deadWriter{errBrokenPipe}, stderr: &stderr}
		code := a.main(t.Context(), append(append([]string{"sluice", "device"}, args...), "--dir", dir))
		if code != exitOK || stderr.Len() > 0 {
			t.Errorf("%q: exit %d, %q", args, code, stderr.String())
		}
		a.stdout = deadWriter{fmt.Errorf("no room")}
		code = a.main(t.Context(), append(append([]string{"sluice", "device"}, args...), "--dir", dir))
		if code != exitFailed || !strings.Contains(stderr.String(), "no room") {
			t.Errorf("%q: full disk: exit %d, %q", args, code, stderr.String())
		}
	}
}

// A row's line is cut to a terminal's width, and has nothing that it acts on.
func TestRowLine(t *testing.T) {
	row := devicestore.Row{
		Key: devicestore.Key{Table: "notes", ID: "a\x1bb"}, HLC: "1767366245000-0000-one",
		Data: []byte(`{"a":"` + strings.Repeat("é\u202e", 9999) + `"}`),
	}
	f := func(o render.Options, want string) {
		t.Helper()
		if got := string(rowLine([]byte("_"), row, o)); !strings.HasPrefix(got, want) || strings.Contains(got, "\u202e") {
			t.Errorf("%+v: %q", o, got[:min(len(got), 200)])
		}
	}
	const begin = "_2026-01-02T15:04:05.000Z notes      a\\x1bb           {\"a\":\"é\\u202eé"
	f(render.Options{}, begin)
	f(render.Options{Width: 100}, begin)
	if got := rowLine(nil, row, render.Options{Width: 100}); render.Columns(string(got)) > 100 {
		t.Errorf("too wide: %q", got)
	}
	row.Deleted, row.Data = true, nil
	f(render.Options{Color: true}, "_\x1b[2m2026-01-02T15:04:05.000Z\x1b[0m \x1b[35mnotes\x1b[0m      \x1b[1ma\\x1bb\x1b[0m           \x1b[31mdeleted\x1b[0m")
	row.HLC = "x"
	f(render.Options{}, "_x ")
	m := synccrypt.Manifest{
		Version: 1, OwnerID: "o", BlobID: "b", MimeType: "image/png", ByteSize: 5, ChunkSize: synccrypt.ChunkBytes,
		Chunks: []synccrypt.Chunk{{Hash: synccrypt.ChunkHash(nil), Size: 33, PlaintextSize: 5}},
		SHA256: synccrypt.ChunkHash(nil), CreatedAt: "2026-01-02T15:04:05.000Z",
	}
	manifest, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	row.Table, row.Deleted, row.Data = "blob", false, manifest
	if got := string(rowLine(nil, row, render.Options{})); !strings.HasSuffix(got, " file image/png, 5 bytes") {
		t.Errorf("a file is told as %q", got)
	}
	row.Data = []byte(`{"not":"a manifest"}`)
	if got := string(rowLine(nil, row, render.Options{})); !strings.HasSuffix(got, ` {"not":"a manifest"}`) {
		t.Errorf("what is no manifest is told as %q", got)
	}
}

// What a stream shows on a terminal is the same wherever its writes are cut.
func TestVisibleWriter(t *testing.T) {
	text := []byte("a\u202eé\U000E0001€\u009b\n")
	want := string(repos.AppendVisible(nil, text))
	if !strings.Contains(want, `\u202e`) || !utf8.ValidString(want) {
		t.Fatalf("%q", want)
	}
	for i := range len(text) {
		for j := i; j < len(text); j++ {
			var out bytes.Buffer
			v := &visibleWriter{out: &deviceOutput{Writer: &out}}
			for _, part := range [][]byte{text[:i], text[i:j], text[j:]} {
				if n, err := v.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if out.String() != want {
				t.Fatalf("cut at %d and %d: %q", i, j, out.String())
			}
		}
	}
}
