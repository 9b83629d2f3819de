package aep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

type downlevelVector struct{ rule, typ, members, data, want string }

func readDownlevelVectors(t testing.TB) []downlevelVector {
	t.Helper()
	text, err := os.ReadFile("testdata/downlevel.txt")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []downlevelVector
	var v downlevelVector
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "rule":
			v = downlevelVector{rule: value}
		case "type":
			v.typ = value
		case "members":
			v.members = "," + value
		case "data":
			v.data = value
		case "want":
			v.want = value
			vectors = append(vectors, v)
		}
	}
	return vectors
}

func (v *downlevelVector) event(t testing.TB) *Event {
	return admitMembers(t, fmt.Sprintf(`{"type":%q,"capture":"full"%s,"data":%s}`,
		v.typ, v.members, v.data))
}

func TestDownlevelVectors(t *testing.T) {
	vectors := readDownlevelVectors(t)
	if len(vectors) < 44 {
		t.Errorf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		e := v.event(t)
		got := e.AppendDownlevel(nil, LevelMetadata)
		var s Scanner
		if err := s.Scan(got); err != nil {
			t.Errorf("%s: %s: %v", v.rule, got, err)
			continue
		}
		data, ok := s.RawMember("data")
		if !ok {
			data = []byte("-")
		}
		if string(data) != v.want {
			t.Errorf("%s:\n got %s\nwant %s", v.rule, data, v.want)
		}
		if capture, _ := s.StringMember("capture"); capture != "metadata" {
			t.Errorf("R244: %s: capture %q", v.rule, capture)
		}
		if bytes.Contains(got, []byte("secret")) {
			t.Errorf("%s: leaks: %s", v.rule, got)
		}
		checkDownleveled(t, e, got, LevelMetadata)
	}
}

// checkDownleveled checks what holds for every copy: it is a valid event at the
// level, with the same other members, that a second pass leaves as it is.
func checkDownleveled(t testing.TB, e *Event, got []byte, to Level) {
	t.Helper()
	var s Scanner
	if err := s.Scan(got); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	again, err := s.Event()
	if err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if to = min(to, e.Capture()); again.Capture() != to {
		t.Errorf("R252: %s is at %v, want %v", got, again.Capture(), to)
	}
	if twice := again.AppendDownlevel(nil, to); !bytes.Equal(twice, got) {
		t.Errorf("R252: second pass:\n%s\nfirst:\n%s", twice, got)
	}
	if to == LevelNone && again.HasData() {
		t.Errorf("R243: data at level none: %s", got)
	}
	if bytes.ContainsAny(got, "\r\n") {
		t.Errorf("R194: line break in %q", got)
	}
	before, after := rawMembers(e.Text()), rawMembers(got)
	for _, name := range []string{"capture", "data"} {
		delete(before, name)
		delete(after, name)
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("R196: envelope changed: %v, was %v", after, before)
	}
}

func rawMembers(text []byte) map[string]string {
	all := map[string]string{}
	for m := membersOf(text); m.next(); {
		all[decodeString(m.name)] += string(m.value)
	}
	return all
}

func TestDownlevelPublishedFixture(t *testing.T) {
	var file struct {
		Cases []struct {
			Name          string
			Ceiling       string
			Event         json.RawMessage
			ExpectCapture string          `json:"expect_capture"`
			ExpectData    json.RawMessage `json:"expect_data"`
		}
	}
	text := fixture(t, "conformance/fixtures/downlevel/cases.json")
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 18 {
		t.Errorf("got %d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		level, ok := ParseLevel(c.Ceiling)
		if !ok {
			t.Fatalf("%s: ceiling %q", c.Name, c.Ceiling)
		}
		e := mustAdmit(t, string(c.Event))
		got := bytes.Clone(e.Text())
		if to, rewrite := ResultLevel(e.Capture(), e.HasData(), CeilingAt(level)); rewrite {
			got = e.AppendDownlevel(nil, to)
			checkDownleveled(t, e, got, to)
			if pure, err := Downlevel(nil, c.Event, to); err != nil || !bytes.Equal(pure, got) {
				t.Errorf("%s: Downlevel gives %s, %v", c.Name, pure, err)
			}
		}
		var event struct {
			Capture string
			Data    any
		}
		var want any
		if json.Unmarshal(got, &event) != nil || json.Unmarshal(c.ExpectData, &want) != nil {
			t.Fatalf("%s: %s", c.Name, got)
		}
		if event.Capture != c.ExpectCapture || !reflect.DeepEqual(event.Data, want) {
			t.Errorf("%s: got %s", c.Name, got)
		}
	}
}

func TestDownlevelEnvelope(t *testing.T) {
	for _, c := range []struct {
		rule    string
		members string
		to      Level
		want    string
	}{
		{"R243 data goes, capture is put in last", `{"type":"tool.failed","data":{"tool":{}}}`, LevelNone, `{"type":"tool.failed",REST,"capture":"none"}`},
		{"R243 capture is set in place", `{"capture":"full","data":{"a":1},"type":"x.a.b.c"}`, LevelNone, `{"capture":"none","type":"x.a.b.c",REST}`},
		{"R242 * data of an event at none", `{"capture":"none","data":{}}`, LevelNone, `{"capture":"none",REST}`},
		{"R244 without data", `{"capture":"redacted"}`, LevelMetadata, `{"capture":"metadata",REST}`},
		{"R118 escaped names", `{"\u0063apture":"full","d\u0061ta":{"a":1},"type":"x.a.b.c"}`, LevelMetadata, `{"capture":"metadata","type":"x.a.b.c",REST}`},
		{"R252 the level is never raised", `{"capture":"none","data":{"a":1}}`, LevelMetadata, `{"capture":"none",REST}`},
		{"R242 nothing is brought down to redacted", `{"capture":"full","data":{"prompt":"x","trigger":"y"}}`, LevelRedacted, `{"capture":"metadata","data":{"trigger":"y"},REST}`},
		{"R196 other values stay as spelled", `{"capture":"full","zz":1.0e2,"epoch":2.0}`, LevelMetadata, `{"capture":"metadata","zz":1.0e2,"epoch":2.0,REST}`},
	} {
		text := completeEvent(t, c.members)
		rest := strings.TrimPrefix(string(text), c.members[:len(c.members)-1]+",")
		want := strings.ReplaceAll(c.want, "REST", rest[:len(rest)-1])
		e := mustAdmit(t, string(text))
		got := e.AppendDownlevel([]byte("head"), c.to)
		if string(got) != "head"+want {
			t.Errorf("%s:\n got %s\nwant %s", c.rule, got, want)
		}
		checkDownleveled(t, e, got[len("head"):], min(c.to, LevelMetadata))
	}
}

// TestDownlevelOneLine: a text that came over several lines leaves as one.
func TestDownlevelOneLine(t *testing.T) {
	e := mustAdmit(t, "{\r\n\"aep\":\"0.1\",\"id\":\"1\",\"type\":\"run.finished\",\n\"time\":\"t\",\"source\":\"s\",\"agent\":\"a\",\"session\":\"s\",\"seq\":1,\"capture\":\"full\",\"data\":{\n\"cost\":{\n\"total\": 5\n}}\r\n}")
	checkDownleveled(t, e, e.AppendDownlevel(nil, LevelMetadata), LevelMetadata)
}

// TestDownlevelGolden brings down every published event, at full, to both
// levels.
func TestDownlevelGolden(t *testing.T) {
	golden := fixture(t, "conformance/fixtures/golden/golden.jsonl")
	count := 0
	for line := range bytes.Lines(golden) {
		var event map[string]json.RawMessage
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		event["capture"] = json.RawMessage(`"full"`)
		text, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		count++
		e := mustAdmit(t, string(text))
		for _, to := range []Level{LevelNone, LevelMetadata} {
			got := e.AppendDownlevel(nil, to)
			checkDownleveled(t, e, got, to)
			if raw, ok := rawMembers(got)["data"]; ok {
				checkPayload(t, e, e.Type(), nil, []byte(raw))
			}
		}
	}
	if count != 64 {
		t.Errorf("%d events, want 64", count)
	}
}

// TestDownlevelRefusesInvalid: the function over text admits first.
func TestDownlevelRefusesInvalid(t *testing.T) {
	for _, text := range []string{``, `{`, `null`, `{"aep":"0.1"}`} {
		if got, err := Downlevel(nil, []byte(text), LevelNone); err == nil {
			t.Errorf("%q gave %s", text, got)
		}
	}
}

// TestDownlevelBounded: neither depth nor repetition makes it blow up.
func TestDownlevelBounded(t *testing.T) {
	const depth = 990
	deep := strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth)
	subject := strings.Repeat("s", 1<<16)
	for _, members := range []string{
		`{"type":"tool.failed","capture":"full","data":{"tool":{"x":` + deep + `},"error":` + deep + `}}`,
		`{"type":"attention.requested","capture":"full","subject":"` + subject + `","data":{` + strings.Repeat(`"prompt":"",`, 1<<14) + `"kind":"x"}}`,
		`{"type":"attention.requested","capture":"full","data":{"options":[` + strings.Repeat(`{},`, 1<<14) + `{"id":"` + subject + `"}]}}`,
	} {
		e := admitMembers(t, members)
		got := e.AppendDownlevel(nil, LevelMetadata)
		if len(got) > 8*len(e.Text()) {
			t.Errorf("%d bytes became %d", len(e.Text()), len(got))
		}
		checkDownleveled(t, e, got, LevelMetadata)
	}
}

func FuzzDownlevel(f *testing.F) {
	for _, v := range readDownlevelVectors(f) {
		f.Add(v.typ, "a", "s", []byte(v.data), false)
	}
	f.Add("run.started", "a", "", []byte(`{"prompt":"\u0000","\ud800":[{}]}`), true)
	f.Fuzz(func(t *testing.T, typ, agent, subject string, data []byte, none bool) {
		text := []byte(`{"aep":"0.1","id":"1","time":"t","source":"s","session":"s","capture":"full","type":`)
		text = appendQuoted(text, typ)
		text = appendStringMember(text, "agent", agent)
		if subject != "" {
			text = appendStringMember(text, "subject", subject)
		}
		if class := ClassOf(typ); class == ClassOrdinary {
			text = append(text, `,"seq":0`...)
		}
		text = append(append(append(text, `,"data":`...), data...), '}')
		var s Scanner
		if s.Scan(text) != nil {
			return
		}
		e, err := s.Event()
		if err != nil {
			return
		}
		to := LevelMetadata
		if none {
			to = LevelNone
		}
		got := e.AppendDownlevel(nil, to)
		checkDownleveled(t, e, got, to)
		if raw, ok := rawMembers(got)["data"]; ok {
			checkPayload(t, e, e.Type(), nil, []byte(raw))
		}
	})
}
