package render

import (
	"encoding/json"
	"strconv"

	"github.com/sluice-relay/sluice/codec/aep"
)

// Payload is a JSON object, decoded with numbers as they are spelled. The
// methods take a path of member names. A nil Payload is empty. Immutable.
type Payload map[string]any

// at returns the value at a path, nil if there is none.
func (p Payload) at(path ...string) any {
	for len(path) > 1 {
		p, path = p.Object(path[0]), path[1:]
	}
	return p[path[0]]
}

// Object returns the object under a name, nil if it is none.
func (p Payload) Object(name string) Payload {
	switch v := p[name].(type) {
	case map[string]any:
		return v
	case Payload:
		return v
	}
	return nil
}

// List returns the array under a name, nil if it is none.
func (p Payload) List(name string) []any {
	list, _ := p[name].([]any)
	return list
}

// Text returns a string, number or boolean at a path as text, "" for anything
// else.
func (p Payload) Text(path ...string) string {
	switch v := p.at(path...).(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// Integer returns an integer of 64 bits at a path (R117).
func (p Payload) Integer(path ...string) (int64, bool) {
	n, ok := p.at(path...).(json.Number)
	if !ok {
		return 0, false
	}
	i, ok := aep.ParseInteger([]byte(n))
	if !ok {
		return 0, false
	}
	return i.Int64()
}

// Millis returns a duration in milliseconds that is not negative, at a path. A
// fraction is dropped.
func (p Payload) Millis(path ...string) (int64, bool) {
	if n, ok := p.Integer(path...); ok {
		return n, n >= 0
	}
	n, ok := p.at(path...).(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f >= 1<<62 {
		return 0, false
	}
	return int64(f), true
}

// Names returns the names of the objects in an array under name: each one's
// member key, in order, at most limit of them.
func (p Payload) Names(name, key string, limit int) []string {
	var names []string
	for _, element := range p.List(name) {
		object, _ := element.(map[string]any)
		if text := Payload(object).Text(key); text != "" {
			names = append(names, text)
		}
		if len(names) == limit {
			break
		}
	}
	return names
}

// FormatMillis writes a duration of milliseconds for people, in two units at
// most: 310ms, 1.24s, 1m9s, 2h3m, 3d4h. A negative one is 0ms.
func FormatMillis(ms int64) string {
	const minute, hour, day = 60_000, 3_600_000, 86_400_000
	two := func(big, small int64, units string) string {
		text := strconv.FormatInt(big, 10) + units[:1]
		if small == 0 {
			return text
		}
		return text + strconv.FormatInt(small, 10) + units[1:]
	}
	switch {
	case ms < 1000:
		return strconv.FormatInt(max(ms, 0), 10) + "ms"
	case ms < minute:
		return strconv.FormatFloat(float64(ms/10)/100, 'f', -1, 64) + "s"
	case ms < hour:
		return two(ms/minute, ms%minute/1000, "ms")
	case ms < day:
		return two(ms/hour, ms%hour/minute, "hm")
	}
	return two(ms/day, ms%day/hour, "dh")
}

// formatBytes writes a size for people.
func formatBytes(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/1000, 0
	for f >= 1000 && unit < len("kMGTPE")-1 {
		f, unit = f/1000, unit+1
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + "kMGTPE"[unit:unit+1] + "B"
}
