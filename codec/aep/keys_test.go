package aep

import (
	"slices"
	"strings"
	"testing"
)

func TestCandidatesOrder(t *testing.T) {
	f, err := ParseFilter([]byte(`{"capture":"full","severity":"error",
		"epoch":1,"type":["a.*","b.c"],"zz":1,"aa":true,"agent":"a",
		"source":"s","subject":"s","cause":"c","step":"s","run":"r",
		"session":"s","id":["i","j"]}`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range f.predicates {
		names = append(names, p.name)
	}
	const want = "id session run step cause subject source agent aa zz type" +
		" epoch severity capture"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	sets := f.Candidates()
	if len(sets) != 14 || len(sets[0]) != 2 || len(sets[10]) != 2 {
		t.Errorf("got %d sets: %v", len(sets), sets)
	}
}

// TestCandidatesNever: a filter that can match nothing has an empty set.
func TestCandidatesNever(t *testing.T) {
	f, err := ParseFilter([]byte(`{"epoch":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if sets := f.Candidates(); len(sets) != 1 || len(sets[0]) != 0 {
		t.Errorf("got %v", sets)
	}
}

// TestKeysByValue: equal values give one key whatever their spelling; the type
// of a value tells (R221).
func TestKeysByValue(t *testing.T) {
	key := func(value string) uint64 {
		e := admitMembers(t, `{"acme":`+value+`}`)
		keys := e.AppendKeys(nil)
		return keys[len(keys)-1]
	}
	classes := [][]string{
		{`1`, `1.0`, `10e-1`, `1e0`},
		{`"1"`, `"\u0031"`},
		{`true`},
		{`false`},
		{`"true"`},
		{`-1`},
		{`0`, `-0`, `0e9`},
		{`100000000000000000000`, `1e20`, `1.0E+20`},
		{`"1e20"`},
		{`-9223372036854775808`},
		{`"acme"`},
	}
	seen := map[uint64]int{}
	for i, class := range classes {
		for _, value := range class {
			k := key(value)
			if other, ok := seen[k]; ok && other != i {
				t.Errorf("R221: %s has the key of class %d", value, other)
			}
			seen[k] = i
		}
	}
	if len(seen) != len(classes) {
		t.Errorf("R221: %d keys for %d values", len(seen), len(classes))
	}
}

// TestKeysNameMatters: the same value under two names has two keys.
func TestKeysNameMatters(t *testing.T) {
	e := admitMembers(t, `{"ab":"cd","cd":"ab","xx":"xx","yy":"yy","run":"q","step":"q"}`)
	keys := e.AppendKeys(nil)
	slices.Sort(keys)
	if n := len(slices.Compact(slices.Clone(keys))); n != len(keys) {
		t.Errorf("%d of %d keys are distinct", n, len(keys))
	}
}

// TestTypePrefixesBounded: a type of a million segments costs no more than the
// bounds, and patterns beyond them are still found (R223).
func TestTypePrefixesBounded(t *testing.T) {
	for _, typ := range []string{
		"run" + strings.Repeat(".a", 100000),
		"run." + strings.Repeat("a", 300) + ".b.c",
		"run." + strings.Repeat("a", 251) + ".b.c",
	} {
		e := admitMembers(t, `{"type":"`+typ+`"}`)
		if n := len(e.AppendKeys(nil)); n > 40 {
			t.Errorf("%d keys for a type of %d bytes", n, len(typ))
		}
		parts := strings.SplitAfter(typ, ".")
		for _, n := range []int{1, 2, 3, maxPrefixCount, maxPrefixCount + 1, 1000} {
			if n >= len(parts) {
				continue
			}
			f, err := ParseFilter([]byte(`{"type":"` + strings.Join(parts[:n], "") + `*"}`))
			if err != nil {
				t.Fatal(err)
			}
			if !f.Match(e) {
				t.Errorf("R223: pattern of %d segments does not match", n)
			}
			checkCandidates(t, f, e)
		}
	}
}

const sampleEvent = `{"aep":"0.1","id":"01J2Z8Q6K3W5N7R9T1V3X5Z7B9","type":"tool.completed","time":"2026-07-03T10:00:12.345Z","source":"aep://host.example/agent/claude-code","agent":"claude-code","session":"s_8f2c91","run":"r_17","step":"turn-3","subject":"Bash","seq":1234,"epoch":2,"severity":"notice","capture":"full","acmeregion":"eu-1","acmeshard":12,"data":{"tool":{"name":"Bash","call_id":"t_2"},"status":"success","duration_ms":184,"result":"total 48\ndrwxr-xr-x 2 user user 4096 Jul  3 10:00 .\n","result_digest":"b4e8d1c2a9f7b6e5b4e8d1c2a9f7b6e5","gen_ai.usage.input_tokens":512}}`

const sampleFilter = `{"session":"s_8f2c91","agent":["codex","claude-code"],"type":["run.*","tool.*"],"severity":{"gte":"info"},"acmeregion":"eu-1"}`

func TestMatchAndKeysDoNotAllocate(t *testing.T) {
	e := mustAdmit(t, sampleEvent)
	f, err := ParseFilter([]byte(sampleFilter))
	if err != nil {
		t.Fatal(err)
	}
	if !f.Match(e) {
		t.Fatal("the sample filter must match the sample event")
	}
	if n := testing.AllocsPerRun(100, func() { f.Match(e) }); n != 0 {
		t.Errorf("Match: %v allocations", n)
	}
	keys := make([]uint64, 0, 64)
	if n := testing.AllocsPerRun(100, func() { keys = e.AppendKeys(keys[:0]) }); n != 0 {
		t.Errorf("AppendKeys: %v allocations", n)
	}
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { dst = e.AppendDownlevel(dst[:0], LevelMetadata) }); n != 0 {
		t.Errorf("AppendDownlevel: %v allocations", n)
	}
}
