package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// schemasDir finds the registry's schemas next to the checkout. Without them
// the tests are skipped.
func schemasDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	dir = filepath.Join(dir, "..", "shared", "aep", "schemas")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the registry's schemas are not next to the checkout: %v", err)
	}
	return dir
}

func readJSON(t *testing.T, into any, path ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// F2: envelopes and payloads are what the registry's schemas ask for, and no
// member is above the level of its event.
func TestEventsFitTheRegistry(t *testing.T) {
	dir := schemasDir(t)
	var envelope map[string]any
	readJSON(t, &envelope, dir, "aep-event.schema.json")
	var registry struct {
		Types []struct {
			Type   string
			Schema *string
		}
	}
	readJSON(t, &registry, dir, "registry", "types.json")
	schemas := map[string]map[string]any{}
	for _, typ := range registry.Types {
		schemas[typ.Type] = nil // its payload is free
		if typ.Schema != nil {
			var s map[string]any
			readJSON(t, &s, dir, "types", *typ.Schema)
			schemas[typ.Type] = s
		}
	}
	free := map[string]int{}
	for seed := range uint64(4) {
		f := newTestFleet(t, Config{Seed: seed, Agents: 6, Rate: 20, Control: seed%2 == 0})
		for i := range 3000 {
			ev := next(t, f)
			var e map[string]any
			if err := json.Unmarshal(ev.Text, &e); err != nil {
				t.Fatal(err)
			}
			if wrong := conform(envelope, e, "event", ""); wrong != "" {
				t.Fatalf("%s: %s", wrong, ev.Text)
			}
			typ, level := e["type"].(string), e["capture"].(string)
			schema, known := schemas[typ]
			payload, has := e["data"]
			switch {
			case !known && typ[:2] != "x.":
				t.Fatalf("type is not registered: %s", ev.Text)
			case has && schema != nil:
				if wrong := conform(schema, payload, "data", level); wrong != "" {
					t.Fatalf("%s: %s", wrong, ev.Text)
				}
			case has && levels[level] < levels["redacted"]:
				t.Fatalf("a payload without a schema is at least redacted: %s", ev.Text)
			case has:
				free[typ]++
			}
			if session, _ := e["session"].(string); i%16 == 0 && session != "" {
				for j, typ := range [][]string{{typeCancel}, {typeRespond}, {typePause, typeResume}}[i/16%3] {
					f.Command(ev.At, ev.Agent, commandText(typ, fmt.Sprint("c", i, j), session, "", `{"scope":"run"}`))
				}
			}
		}
	}
	if len(free) == 0 {
		t.Error("no message with a text")
	}
}

var levels = map[string]int{"none": 0, "metadata": 1, "redacted": 2, "full": 3}

// conform checks a value against the words of JSON Schema that the registry
// uses, and members against the level of their event unless it is "".
func conform(schema map[string]any, v any, path, level string) string {
	if own, has := schema["x-aep-capture"].(string); has && level != "" && levels[own] > levels[level] {
		return path + " is above the event's level"
	}
	if wrong := conformScalar(schema, v, path); wrong != "" {
		return wrong
	}
	if object, is := v.(map[string]any); is {
		if wrong := conformObject(schema, object, path, level); wrong != "" {
			return wrong
		}
	}
	if list, is := v.([]any); is {
		items, _ := schema["items"].(map[string]any)
		for i, element := range list {
			if wrong := conform(items, element, fmt.Sprintf("%s[%d]", path, i), level); items != nil && wrong != "" {
				return wrong
			}
		}
	}
	all, _ := schema["allOf"].([]any)
	for _, one := range all {
		if wrong := conform(one.(map[string]any), v, path, level); wrong != "" {
			return wrong
		}
	}
	if condition, has := schema["if"].(map[string]any); has {
		branch, _ := schema["else"].(map[string]any)
		if conform(condition, v, path, "") == "" {
			branch, _ = schema["then"].(map[string]any)
		}
		if branch != nil {
			return conform(branch, v, path, level)
		}
	}
	return ""
}

func conformObject(schema, object map[string]any, path, level string) string {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, has := object[name.(string)]; !has {
			return fmt.Sprintf("%s lacks %s", path, name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range object {
		switch rule := properties[name].(type) {
		case bool:
			if !rule {
				return path + "." + name + " must not be there"
			}
		case map[string]any:
			if wrong := conform(rule, value, path+"."+name, level); wrong != "" {
				return wrong
			}
		case nil:
			if level != "" && len(properties) > 0 && path == "data" {
				return path + "." + name + " is not in the schema"
			}
			if extra, has := schema["additionalProperties"].(map[string]any); has {
				if wrong := conform(extra, value, path+"."+name, level); wrong != "" {
					return wrong
				}
			}
		}
	}
	return ""
}

func conformScalar(schema map[string]any, v any, path string) string {
	if want, has := schema["const"]; has && v != want {
		return fmt.Sprintf("%s is %v, want %v", path, v, want)
	}
	if list, has := schema["enum"].([]any); has && !slices.Contains(list, v) {
		return fmt.Sprintf("%s is %v, want one of %v", path, v, list)
	}
	if s, is := v.(string); is {
		if pattern, has := schema["pattern"].(string); has && !matches(pattern, s) {
			return fmt.Sprintf("%s is %q, which does not match %s", path, s, pattern)
		}
		if least, has := schema["minLength"].(float64); has && float64(len(s)) < least {
			return path + " is too short"
		}
	}
	if n, is := v.(float64); is {
		if least, has := schema["minimum"].(float64); has && n < least {
			return path + " is below the minimum"
		}
		if most, has := schema["maximum"].(float64); has && n > most {
			return path + " is above the maximum"
		}
	}
	types, _ := schema["type"].([]any)
	if one, has := schema["type"].(string); has {
		types = []any{one}
	}
	if types == nil || slices.ContainsFunc(types, func(typ any) bool { return isType(v, typ.(string)) }) {
		return ""
	}
	return fmt.Sprintf("%s is %T, want %v", path, v, types)
}

var patterns = map[string]*regexp.Regexp{}

func matches(pattern, s string) bool {
	if patterns[pattern] == nil {
		patterns[pattern] = regexp.MustCompile(pattern)
	}
	return patterns[pattern].MatchString(s)
}

func isType(v any, typ string) bool {
	switch x := v.(type) {
	case string:
		return typ == "string"
	case bool:
		return typ == "boolean"
	case map[string]any:
		return typ == "object"
	case []any:
		return typ == "array"
	case float64:
		return typ == "number" || typ == "integer" && x == float64(int64(x))
	}
	return false
}
