package aep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestParseFrom(t *testing.T) {
	const top = math.MaxInt64
	for _, c := range []struct {
		rule    string
		raw     string
		want    []Position
		entries int
		err     error
	}{
		{"no entries", `[]`, nil, 0, nil},
		{"R165", `[{"session":"a","epoch":2,"seq":7}]`, []Position{{"a", 2, 7}}, 1, nil},
		{"R168 seq absent", `[{"session":"a"}]`, []Position{{"a", 0, -1}}, 1, nil},
		{"R168 seq -1", `[{"session":"a","epoch":2,"seq":-1}]`, []Position{{"a", 2, -1}}, 1, nil},
		{"R118", `[{"\u0073ession":"\u0061:\n","seq":1.0,"epoch":10e-1}]`, []Position{{"a:\n", 1, 1}}, 1, nil},
		{"R162 exact", `[{"session":"a","epoch":1755000000000,"seq":9223372036854775807}]`, []Position{{"a", 1755000000000, top}}, 1, nil},
		{"above 63 bits", `[{"session":"a","seq":9223372036854775808},{"session":"b","epoch":1e99,"seq":3},{"session":"c","epoch":1e30}]`, []Position{{"a", 0, top}, {"b", top, top}, {"c", top, top}}, 3, nil},
		{"R172", `[{"session":"b","seq":5},{"session":"a","seq":9},{"session":"b","epoch":1,"seq":0},{"session":"b","seq":3},{"session":"a"}]`, []Position{{"b", 0, 3}, {"a", 0, -1}}, 5, nil},
		{"R172 by value", `[{"session":"\u0061","seq":5},{"session":"a","seq":4}]`, []Position{{"a", 0, 4}}, 2, nil},
		{"R173 at the limit", `[{"session":"a"},{"session":"b"},{"session":"a"},{"session":"a"},{"session":"a"}]`, []Position{{"a", 0, -1}, {"b", 0, -1}}, 5, nil},
		{"R173 entries as sent", `[{"session":"a"},{"session":"a"},{"session":"a"},{"session":"a"},{"session":"a"},{"session":"a"}]`, nil, 6, ErrFromTooLarge},
		{"R321 count before entries", `[1,2,3,4,5,6]`, nil, 6, ErrFromTooLarge},
		{"R174 others ignored", `[{"session":"a","seq":1,"x":[{"session":"b"}],"epoch":3}]`, []Position{{"a", 3, 1}}, 1, nil},
		{"R174 last wins", `[{"session":"b","session":"a","seq":1,"seq":2}]`, []Position{{"a", 0, 2}}, 1, nil},
		{"R174 -0", `[{"session":"a","seq":-0,"epoch":-0.0}]`, []Position{{"a", 0, 0}}, 1, nil},
		{"W4", `[null]`, nil, 1, ErrFromEntry},
		{"R174", `["a"]`, nil, 1, ErrFromEntry},
		{"R174", `[[]]`, nil, 1, ErrFromEntry},
		{"R174", `[{}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"seq":1}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":""}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":5}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":null}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":"a","epoch":-1}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":"a","epoch":null}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":"a","epoch":"1"}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":"a","seq":-2}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":"a","seq":-1e99}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":"a","seq":1.5}]`, nil, 1, ErrFromEntry},
		{"R174", `[{"session":"a","seq":true}]`, nil, 1, ErrFromEntry},
		{"R174 one bad entry", `[{"session":"a"},{"session":"b","seq":[]}]`, nil, 2, ErrFromEntry},
		{"R320", `null`, nil, 0, ErrFromSyntax},
		{"R320", `{}`, nil, 0, ErrFromSyntax},
		{"R320", `5`, nil, 0, ErrFromSyntax},
		{"R320", `"every"`, nil, 0, ErrFromSyntax},
		{"R320", `"ALL"`, nil, 0, ErrFromSyntax},
		{"R270", `[`, nil, 0, ErrFromSyntax},
		{"R270", `[{"session":"a"}] []`, nil, 0, ErrFromSyntax},
		{"R270", "[{\"session\":\"\xff\"}]", nil, 0, ErrFromSyntax},
	} {
		for name, parse := range map[string]func([]byte, int) ([]Position, bool, int, error){
			"ParseFrom": ParseFrom, "ParseFromQuery": ParseFromQuery,
		} {
			pos, all, entries, err := parse([]byte(c.raw), 5)
			if !slices.Equal(pos, c.want) || all || entries != c.entries || err != c.err {
				t.Errorf("%s: %s(%s): got %v, %v, %d, %v", c.rule, name, c.raw, pos, all, entries, err)
			}
		}
	}
}

func TestParseFromAll(t *testing.T) {
	for _, c := range []struct {
		name  string
		parse func([]byte, int) ([]Position, bool, int, error)
		raw   []byte
		all   bool
		err   error
	}{
		{"R320 frame", ParseFrom, []byte(`"all"`), true, nil},
		{"R118 frame", ParseFrom, []byte(` "\u0061ll" `), true, nil},
		{"frame, bare word", ParseFrom, []byte(`all`), false, ErrFromSyntax},
		{"frame, absent", ParseFrom, nil, false, nil},
		{"frame, no text", ParseFrom, []byte{}, false, ErrFromSyntax},
		{"section 11 query", ParseFromQuery, []byte(`all`), true, nil},
		{"query, JSON string", ParseFromQuery, []byte(`"all"`), false, ErrFromSyntax},
		{"query, space", ParseFromQuery, []byte(` all`), false, ErrFromSyntax},
		{"query, absent", ParseFromQuery, nil, false, nil},
		{"R34 query", ParseFromQuery, []byte{}, false, nil},
	} {
		// R171: no limit applies to all.
		pos, all, entries, err := c.parse(c.raw, 0)
		if pos != nil || all != c.all || entries != 0 || err != c.err {
			t.Errorf("%s: got %v, %v, %d, %v", c.name, pos, all, entries, err)
		}
	}
}

// TestParseFromMaxZero: a limit of 0 refuses any entry, not the empty list.
func TestParseFromMaxZero(t *testing.T) {
	if _, _, _, err := ParseFrom([]byte(`[{"session":"a"}]`), 0); err != ErrFromTooLarge {
		t.Errorf("R173: got %v", err)
	}
	if _, _, _, err := ParseFrom([]byte(`[]`), 0); err != nil {
		t.Errorf("R173: got %v", err)
	}
	if !strings.Contains(ErrFromTooLarge.Error(), "AEP_MAX_FROM") {
		t.Error("R320: the detail must name AEP_MAX_FROM")
	}
}

func FuzzParseFrom(f *testing.F) {
	for _, seed := range []string{
		``, `all`, `"all"`, `[]`, `[{"session":"a","epoch":1,"seq":2},{"session":"a"}]`,
		`[null]`, `[{"session":"\ud800","seq":1e400}]`, `[{"session":"a","seq":-1.0e0}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		const limit = 4
		pos, all, entries, err := ParseFrom(raw, limit)
		if err != nil {
			if pos != nil || all {
				t.Errorf("%q: positions with an error", raw)
			}
			return
		}
		if all && pos != nil || len(pos) > entries || entries > limit {
			t.Errorf("%q: %v, %v, %d", raw, pos, all, entries)
		}
		seen := map[string]bool{}
		for _, p := range pos {
			if p.Session == "" || p.Epoch < 0 || p.Seq < -1 || seen[p.Session] {
				t.Errorf("%q: %v", raw, pos)
			}
			seen[p.Session] = true
		}
		// What was read says the same when it is written again.
		text := []byte{'['}
		for i, p := range pos {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, `{"session":`...)
			text = appendQuoted(text, p.Session)
			text = fmt.Appendf(text, `,"epoch":%d,"seq":%d}`, p.Epoch, p.Seq)
		}
		if all || raw == nil {
			return
		}
		again, _, _, err := ParseFrom(append(text, ']'), limit)
		if err != nil || !slices.Equal(again, pos) {
			t.Errorf("%q: %v, then %v, %v", raw, pos, again, err)
		}
	})
}
