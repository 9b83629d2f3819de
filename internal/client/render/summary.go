package render

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// genericFields is how many members of an unknown payload are told.
	genericFields = 8
	// listed is how many names of a list are told.
	listed = 6
)

// summary collects the words of one.
type summary struct {
	Event
	words []string
}

// Summary tells what matters of an event beside its envelope, in words that
// are not escaped: of a registered type (AEP-0002, section 4) what its payload
// schema holds, of any other the subject and the first members of data.
func (e Event) Summary() string {
	s := summary{Event: e}
	if tell := tellers[e.Type]; tell != nil {
		tell(&s)
	}
	if len(s.words) == 0 {
		s.generic()
	}
	return strings.Join(s.words, " ")
}

// add takes words that are there.
func (s *summary) add(words ...string) {
	for _, w := range words {
		if w != "" {
			s.words = append(s.words, w)
		}
	}
}

// tag adds name=value if there is a value.
func (s *summary) tag(name, value string) {
	if value != "" {
		s.words = append(s.words, name+"="+value)
	}
}

// text adds the scalar at a path.
func (s *summary) text(path ...string) { s.add(s.Data.Text(path...)) }

// millis adds the duration at a path.
func (s *summary) millis(path ...string) {
	if ms, ok := s.Data.Millis(path...); ok {
		s.add(FormatMillis(ms))
	}
}

// colon returns "a: b", or whichever there is.
func colon(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

// failure adds the error of a payload.
func (s *summary) failure() { s.add(s.Data.Failure()) }

// Failure returns the member error in words: its type and message, or itself
// if it is a bare string.
func (p Payload) Failure() string {
	return colon(p.Text("error", "type"), p.Text("error", "message")) + p.Text("error")
}

// usage adds what was used: tokens in and out, and the cost.
func (s *summary) usage() {
	in, out := s.Data.Text("gen_ai.usage.input_tokens"), s.Data.Text("gen_ai.usage.output_tokens")
	if in+out != "" {
		s.tag("tokens", dash(in)+"/"+dash(out))
	}
	s.tag("cost", s.Data.Text("cost", "total")+s.Data.Text("cost", "currency"))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// tool adds the tool's name and call.
func (s *summary) tool() {
	name := s.Data.Text("tool", "name")
	if name == "" {
		name = s.Subject
	}
	s.add(name)
	s.text("tool", "call_id")
}

// content adds the first member that is there, an object as JSON.
func (s *summary) content(names ...string) {
	for _, name := range names {
		switch v := s.Data[name].(type) {
		case nil:
			continue
		case string:
			s.add(v)
		default:
			s.add(compact(v))
		}
		return
	}
}

// Answer returns the answer of an attention request in words: the option, the
// text, or the values as JSON.
func (p Payload) Answer() string {
	answer := p.Object("answer")
	var words []string
	for _, name := range []string{"option", "text"} {
		if text := answer.Text(name); text != "" {
			words = append(words, text)
		}
	}
	if values := answer.Object("values"); len(values) > 0 {
		words = append(words, compact(values))
	}
	return strings.Join(words, " ")
}

// compact returns a decoded value as JSON again, without white space. Members
// are sorted by name.
func compact(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "" // cannot be: it was decoded from JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// count adds "n noun", with the member count or else the length of a list.
func (s *summary) count(list, noun string) {
	n := s.Data.Text("count")
	if n == "" {
		if s.Data[list] == nil {
			return
		}
		n = strconv.Itoa(len(s.Data.List(list)))
	}
	if n != "1" {
		noun += "s"
	}
	s.add(n + " " + noun)
}

// generic tells of a payload that is not known: the subject, then members by
// name, objects and arrays by their size.
func (s *summary) generic() {
	s.add(s.Subject)
	names := slices.Sorted(maps.Keys(s.Data))
	for i, name := range names {
		if i == genericFields {
			s.add("(" + strconv.Itoa(len(names)-i) + " more)")
			return
		}
		switch v := s.Data[name].(type) {
		case map[string]any:
			s.tag(name, "{"+strconv.Itoa(len(v))+"}")
		case []any:
			s.tag(name, "["+strconv.Itoa(len(v))+"]")
		case string:
			if strings.ContainsAny(v, " =") {
				v = `"` + v + `"`
			}
			s.tag(name, v)
		default:
			s.tag(name, s.Data.Text(name))
		}
	}
}
