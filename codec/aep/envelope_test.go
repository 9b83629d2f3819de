package aep

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// envelopeVector is one case of testdata/envelope.txt.
type envelopeVector struct {
	rule, name, text string
	accept           bool
}

func readEnvelopeVectors(t testing.TB) []envelopeVector {
	t.Helper()
	content, err := os.ReadFile("testdata/envelope.txt")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []envelopeVector
	for block := range strings.SplitSeq(string(content), "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		head, text, ok := strings.Cut(strings.TrimSuffix(block, "\n"), "\n")
		words := strings.SplitN(head, " ", 3)
		if !ok || len(words) < 3 || (words[0] != "accept" && words[0] != "reject") {
			t.Fatalf("bad vector %q", block)
		}
		vectors = append(vectors, envelopeVector{
			rule: words[1], name: words[2], text: text, accept: words[0] == "accept",
		})
	}
	return vectors
}

// admit scans text and makes an event of it.
func admit(text string) (*Event, error) {
	var s Scanner
	if err := s.Scan([]byte(text)); err != nil {
		return nil, err
	}
	return s.Event()
}

func mustAdmit(t testing.TB, text string) *Event {
	t.Helper()
	e, err := admit(text)
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return e
}

// checkRule fails unless err is the refusal under rule.
func checkRule(t testing.TB, err error, rule string) {
	t.Helper()
	var broken *EnvelopeError
	if !errors.As(err, &broken) {
		t.Fatalf("got %v, want a refusal under %s", err, rule)
	}
	if broken.Rule != rule || err.Error() != broken.Detail+" ("+rule+")" {
		t.Fatalf("got %v, want %s", err, rule)
	}
	if len(broken.Detail) > 200 || broken.Detail == "" {
		t.Fatalf("detail of %d bytes: %q", len(broken.Detail), broken.Detail)
	}
}

// TestEnvelopeVectors proves R100 to R118 in both directions.
func TestEnvelopeVectors(t *testing.T) {
	both := make(map[string]int)
	for _, v := range readEnvelopeVectors(t) {
		t.Run(v.rule+" "+v.name, func(t *testing.T) {
			e, err := admit(v.text)
			if !v.accept {
				checkRule(t, err, v.rule)
				both[v.rule] |= 1
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", v.text, err)
			}
			if got, want := string(e.Text()), strings.TrimSpace(v.text); got != want {
				t.Fatalf("text %q, want %q", got, want)
			}
			both[v.rule] |= 2
		})
	}
	for r := 100; r <= 118; r++ {
		rule, want := fmt.Sprintf("R%d", r), 3
		if r >= 115 {
			want = 2 // rules on what is not refused
		}
		if both[rule]&want != want {
			t.Errorf("%s is not proved in both directions", rule)
		}
	}
}

// TestRefusalRepeatsLittle: a refusal never carries a large part of the input.
func TestRefusalRepeatsLittle(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	for _, text := range []string{
		strings.Replace(plainEvent, "{", `{"`+long+`":1,`, 1),
		strings.Replace(plainEvent, `"progress.status"`, `"`+long+`"`, 1),
		strings.Replace(plainEvent, `"seq":0`, `"seq":1`+strings.Repeat("0", 100_000), 1),
		strings.Replace(plainEvent, "{", `{"severity":"`+long+`",`, 1),
		strings.Replace(plainEvent, "{", `{"capture":"`+long+`",`, 1),
		strings.Replace(plainEvent, "{", `{"acme":"`+long+`","acme":1,`, 1),
	} {
		_, err := admit(text)
		var broken *EnvelopeError
		if !errors.As(err, &broken) {
			t.Fatalf("%.60s: %v", text, err)
		}
		if len(broken.Detail) > 150 || strings.ContainsRune(broken.Detail, '\uFFFD') {
			t.Errorf("detail %q", broken.Detail)
		}
	}
}

// TestDuplicatesAmongMany is R114 and A3: 200,000 members are checked in
// linear time. A quadratic check would take minutes.
func TestDuplicatesAmongMany(t *testing.T) {
	const count = 200_000
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(plainEvent, "}"))
	for i := range count {
		fmt.Fprintf(&b, `,"a%d":%d`, i, i)
	}
	text := b.String()
	start := time.Now()
	e := mustAdmit(t, text+"}")
	_, err := admit(text + `,"\u0061199999":1}`)
	checkRule(t, err, "R114")
	for _, i := range []int{0, 1, 15, 16, 17, 4711, count - 1} {
		v, ok := e.Lookup(fmt.Sprintf("a%d", i))
		if n, fits := v.Integer().Int64(); !ok || !fits || n != int64(i) {
			t.Errorf("a%d: %d, %v", i, n, ok)
		}
	}
	if _, ok := e.Lookup("a200000"); ok {
		t.Error("found a name that is not there")
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
	if size := e.SizeBytes(); size < len(text)+count*24 || size > len(text)*2+count*64 {
		t.Errorf("size %d for a text of %d", size, len(text))
	}
}

// TestScratchIsReleased: one large event leaves no large scratch behind.
func TestScratchIsReleased(t *testing.T) {
	var b strings.Builder
	b.WriteString("{\n" + strings.TrimPrefix(strings.TrimSuffix(plainEvent, "}"), "{"))
	for i := range 20_000 {
		fmt.Fprintf(&b, `,"a%d":"\u0061 long enough to count"`, i)
	}
	b.WriteString("}")
	var s Scanner
	for _, text := range []string{b.String(), plainEvent} {
		if err := s.Scan([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Event(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(s.members) > keepMembers || cap(s.draft.attrs) > keepMembers ||
		cap(s.draft.tail) > keepBytes || cap(s.draft.compacted) > keepBytes {
		t.Errorf("kept %d members, %d attributes, %d and %d bytes", cap(s.members),
			cap(s.draft.attrs), cap(s.draft.tail), cap(s.draft.compacted))
	}
}
