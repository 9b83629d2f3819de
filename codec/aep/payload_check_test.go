package aep

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// fieldsFile is capture-fields.json, read for the checks below without the
// compiled tables.
var fieldsFile = func() (file struct {
	Types map[string]map[string]string `json:"types"`
},
) {
	if err := json.Unmarshal(captureFieldsText, &file); err != nil {
		panic(err)
	}
	return file
}()

func hasPathsBelow(fields map[string]string, path string) bool {
	for p := range fields {
		if strings.HasPrefix(p, path) {
			return true
		}
	}
	return false
}

// checkPayload walks a payload that claims to be at metadata, with paths
// spelled out, and fails on whatever should not be there. A nil path is the
// payload.
func checkPayload(t testing.TB, e *Event, typ string, path *string, raw []byte) {
	t.Helper()
	fields, ok := fieldsFile.Types[typ]
	if !ok {
		t.Errorf("R245: data in %s", typ)
		return
	}
	switch raw[0] {
	case '{':
		for m := membersOf(raw); m.next(); {
			child := decodeString(m.name)
			if path != nil {
				child = *path + "." + child
			}
			checkField(t, e, fields, child, m.value)
			checkPayload(t, e, typ, &child, m.value)
		}
		if path != nil {
			checkLabel(t, fields, *path, raw)
		}
	case '[':
		child := *path + "[]"
		for el := elementsOf(raw); el.next(); {
			checkField(t, e, fields, child, el.value)
			checkPayload(t, e, typ, &child, el.value)
		}
	}
}

func checkField(t testing.TB, e *Event, fields map[string]string, path string, raw []byte) {
	t.Helper()
	switch fields[path] {
	case "redacted", "full":
		t.Errorf("R246: %s is above metadata: %s", path, e.Text())
	case "synthesized-prompt":
		subject, _ := e.Subject()
		got := decodeString(raw)
		if !strings.HasPrefix(got, e.Agent()+" requests ") || !strings.HasSuffix(got, subject) {
			t.Errorf("R249: prompt %q", got)
		}
	case "numbers-and-booleans":
		for m := membersOf(raw); m.next(); {
			if strings.IndexByte(`"{[n`, m.value[0]) >= 0 {
				t.Errorf("R251: %s", raw)
			}
		}
	}
	if hasPathsBelow(fields, path+".") && raw[0] != '{' ||
		hasPathsBelow(fields, path+"[]") && raw[0] != '[' {
		t.Errorf("R248: shape of %s: %s", path, raw)
	}
}

// checkLabel checks the label of an object that is an element (R250).
func checkLabel(t testing.TB, fields map[string]string, path string, raw []byte) {
	t.Helper()
	if fields[path+".label"] != "id-of-element" {
		return
	}
	label := memberOf(raw, "label")
	if label == nil || label[0] != '"' {
		t.Fatalf("R250: label of %s: %s", path, raw)
	}
	id := memberOf(raw, "id")
	switch {
	case id != nil && id[0] == '"':
		if string(id) != string(label) {
			t.Errorf("R250: label %s of id %s", label, id)
		}
	case isNumber(id):
		if string(id) != string(inner(label)) {
			t.Errorf("R250: label %s of id %s", label, id)
		}
	default:
		if n, err := strconv.Atoi(string(inner(label))); err != nil || n < 1 {
			t.Errorf("R250: label %s without an id", label)
		}
	}
}
