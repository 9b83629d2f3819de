package aep

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// modelMatch is attr-match written the slow way, over decoded JSON: what the
// compiled filter is compared with.
func modelMatch(filter, event map[string]any) bool {
	for name, want := range filter {
		have, ok := event[name]
		switch {
		case ok:
		case name == "severity":
			have = "info"
		case name == "capture":
			have = "metadata"
		case name == "epoch":
			have = json.Number("0")
		default:
			return false
		}
		if !modelPredicate(name, want, have) {
			return false
		}
	}
	return true
}

func modelPredicate(name string, want, have any) bool {
	switch want := want.(type) {
	case map[string]any:
		order := strings.Split("debug info notice warning error critical", " ")
		at := func(v any) int {
			for i, s := range order {
				if s == v {
					return i
				}
			}
			return -1
		}
		if gte, ok := want["gte"]; ok && at(have) < at(gte) {
			return false
		}
		lte, ok := want["lte"]
		return !ok || at(have) <= at(lte)
	case []any:
		for _, element := range want {
			if modelPredicate(name, element, have) {
				return true
			}
		}
		return false
	case string:
		if prefix, ok := strings.CutSuffix(want, "*"); ok && name == "type" {
			typ, isText := have.(string)
			return isText && strings.HasPrefix(typ, prefix)
		}
		return have == want
	case json.Number:
		number, ok := have.(json.Number)
		if !ok {
			return false
		}
		a, okA := new(big.Rat).SetString(want.String())
		b, okB := new(big.Rat).SetString(number.String())
		return okA && okB && a.Cmp(b) == 0
	}
	return have == want
}

func decodeModel(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

var modelScalars = []string{
	`"a"`, `"b"`, `""`, `"1"`, `1`, `1.0`, `10e-1`, `-1`, `0`, `-0`,
	`9223372036854775807`, `9223372036854775808`, `92233720368547758080e-1`,
	`true`, `false`, `"true"`, `"\u0061"`,
}

var modelTypes = []string{
	"run.started", "run.step.started", "run.step.a.b", "tool.failed",
	"x.acme.run.a", "agent.idle", "run.finished",
}

var modelPatterns = []string{
	"run.*", "run.step.*", "run.step.a.*", "x.*", "x.acme.*", "tool.failed.*",
	"agent.*", "zz.*",
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// randomFilter makes a legal filter over few names and values, so that many
// pairs match.
func randomFilter(r *rand.Rand) string {
	members := map[string]string{}
	for range r.IntN(5) {
		var name string
		scalar := func() string { return pick(r, modelScalars) }
		switch r.IntN(6) {
		case 0:
			name = "type"
			scalar = func() string {
				return `"` + pick(r, append(modelTypes, modelPatterns...)) + `"`
			}
		case 1:
			name = "severity"
			scalar = func() string { return `"` + pick(r, severityNames[:]) + `"` }
			if r.IntN(2) == 0 {
				members[name] = fmt.Sprintf(`{"gte":%s,"lte":%s}`, scalar(), scalar())
				continue
			}
		case 2:
			name = "capture"
			scalar = func() string { return `"` + pick(r, levelNames[:]) + `"` }
		case 3:
			name = pick(r, []string{"id", "session", "run", "step", "cause", "subject", "source", "agent"})
		case 4:
			name = "epoch"
		default:
			name = pick(r, []string{"ext", "xa", "xb"})
		}
		value := scalar()
		if r.IntN(2) == 0 {
			list := []string{value}
			for range r.IntN(12) {
				list = append(list, scalar())
			}
			value = "[" + strings.Join(list, ",") + "]"
		}
		members[name] = value
	}
	return joinMembers(members)
}

func randomEvent(r *rand.Rand) string {
	typ := pick(r, modelTypes)
	members := map[string]string{"type": `"` + typ + `"`, "id": `"a"`}
	optional := []string{"subject", "cause", "source", "agent"}
	if ClassOf(typ) != ClassLiveness {
		optional = append(optional, "run", "step", "session")
	}
	for _, name := range optional {
		if r.IntN(2) == 0 {
			members[name] = pick(r, []string{`"a"`, `"b"`, `"1"`, `"\u0061"`})
		}
	}
	if r.IntN(2) == 0 {
		members["severity"] = `"` + pick(r, severityNames[:]) + `"`
	}
	if r.IntN(2) == 0 {
		members["capture"] = `"` + pick(r, levelNames[:]) + `"`
	}
	if r.IntN(2) == 0 {
		members["epoch"] = pick(r, []string{"0", "1", "1.0", "9223372036854775807"})
	}
	for _, name := range []string{"ext", "xa", "xb"} {
		if r.IntN(2) == 0 {
			members[name] = pick(r, modelScalars)
		}
	}
	return joinMembers(members)
}

func joinMembers(members map[string]string) string {
	var parts []string
	for name, value := range members {
		parts = append(parts, `"`+name+`":`+value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestFilterAgainstModel compares verdicts with the model, and checks that an
// event which matches has a key of each candidate set (R220 to R224).
func TestFilterAgainstModel(t *testing.T) {
	const seed = 20260813
	r := rand.New(rand.NewPCG(seed, 1))
	matches := 0
	for range 20000 {
		filter := randomFilter(r)
		f, err := ParseFilter([]byte(filter))
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, filter, err)
		}
		text := string(completeEvent(t, randomEvent(r)))
		e := mustAdmit(t, text)
		want := modelMatch(decodeModel(t, filter), decodeModel(t, text))
		if f.Match(e) != want {
			t.Fatalf("seed %d: %s on %s: match is %v", seed, filter, text, !want)
		}
		canonical, err := ParseFilter([]byte(f.Canonical()))
		if err != nil || canonical.Match(e) != want {
			t.Fatalf("seed %d: %s: canonical %s differs", seed, filter, f.Canonical())
		}
		if want {
			matches++
			checkCandidates(t, f, e)
		}
	}
	if matches < 2000 {
		t.Errorf("only %d pairs match: the test proves little", matches)
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"type":["run.*","a.b"],"acme":[1,1.0,true,"x"]}`,
		`{"severity":{"gte":"info"}}`, `{"agent":"\ud800"}`,
		`{"acme":1e99999999999999999999}`, `{"session":["\u0000","b"]}`,
		`{"capture":["full","x"],"epoch":-0}`, `{"agent":[]}`,
	} {
		f.Add([]byte(seed))
	}
	e := admitMembers(f, `{"type":"run.step.started","acme":1,"agent":"a","run":"r"}`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		filter, err := ParseFilter(raw)
		if err != nil {
			return
		}
		checkCanonicalStable(t, filter)
		checkCandidates(t, filter, e)
		again, err := ParseFilter([]byte(filter.Canonical()))
		if err != nil || again.Match(e) != filter.Match(e) {
			t.Errorf("%s: canonical %s matches otherwise", raw, filter.Canonical())
		}
	})
}
