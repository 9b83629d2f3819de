package devicefaults

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// liar is a rule that lies as it is told to. What it keeps back or scrambles of
// what it should have sent it remembers, so that it can be given later.
type liar struct {
	mu    sync.Mutex
	rng   *rand.Rand
	odds  float64                    // of a lie in an answer, 0 to 1
	lies  []lie                      // to choose from
	kept  map[string]json.RawMessage // originals by event id
	pages []page                     // what it sent before
	told  map[string]int             // lies by name
	other json.RawMessage            // an envelope of another owner
	trap  string                     // URL of a host that no device knows
}

// lie is one way to deal with a request. Exactly one of the functions is set.
type lie struct {
	name string
	// page changes an honest page; after is the cursor of the request.
	page func(l *liar, p *page, after string)
	// say answers in place of the relay; only those that match are asked.
	match func(r *http.Request) bool
	say   func(l *liar, w http.ResponseWriter, r *http.Request, body []byte, ask ask)
}

func newLiar(rng *rand.Rand, lies ...lie) *liar {
	return &liar{rng: rng, odds: 1, lies: lies, kept: map[string]json.RawMessage{}, told: map[string]int{}}
}

// answer is a rule.
func (l *liar) answer(w http.ResponseWriter, r *http.Request, body []byte, ask ask) bool {
	l.mu.Lock()
	lies := slices.DeleteFunc(slices.Clone(l.lies), func(c lie) bool {
		return c.page != nil && !pulls(r) || c.match != nil && !c.match(r)
	})
	if len(lies) == 0 || l.rng.Float64() >= l.odds {
		l.mu.Unlock()
		return false
	}
	chosen := lies[l.rng.IntN(len(lies))]
	l.mu.Unlock()
	if chosen.say != nil {
		l.count(chosen.name)
		chosen.say(l, w, r, body, ask)
		return true
	}
	honest := ask()
	p, ok := parsePage(honest)
	if !ok {
		write(w, honest)
		return true
	}
	l.mu.Lock()
	was := page{slices.Clone(p.Events), p.NextCursor}
	chosen.page(l, &p, r.URL.Query().Get("after"))
	for _, e := range was.Events {
		if !slices.ContainsFunc(p.Events, func(sent json.RawMessage) bool { return string(sent) == string(e) }) {
			l.kept[idOf(e)] = e
		}
	}
	if !slices.EqualFunc(was.Events, p.Events, func(a, b json.RawMessage) bool { return string(a) == string(b) }) ||
		was.NextCursor != p.NextCursor {
		l.told[chosen.name]++
	}
	if len(l.pages) < 50 {
		l.pages = append(l.pages, was)
	}
	l.mu.Unlock()
	return p.send(w)
}

func (l *liar) count(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[name]++
}

func (l *liar) times(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[name]
}

// kinds returns how many lies were told, and of how many kinds.
func (l *liar) kinds() (told, kinds int) {
	l.mu.Lock() // a request that was given up may still be answered
	defer l.mu.Unlock()
	for _, n := range l.told {
		told += n
	}
	return told, len(l.told)
}

// late is a rule that is honest, and gives what the liar kept back with each
// page that has events.
func (l *liar) late(w http.ResponseWriter, r *http.Request, _ []byte, ask ask) bool {
	if !pulls(r) {
		return false
	}
	honest := ask()
	p, ok := parsePage(honest)
	if !ok {
		write(w, honest)
		return true
	}
	if len(p.Events) > 0 { // or the page would go nowhere, and be refused for it
		l.mu.Lock()
		for _, e := range l.kept {
			p.Events = append(p.Events, e)
		}
		l.mu.Unlock()
	}
	return p.send(w)
}

// members takes an envelope apart.
func members(e json.RawMessage) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(e, &m); err != nil {
		panic(err) // the relay checks what it stores
	}
	return m
}

func join(m map[string]json.RawMessage) json.RawMessage {
	e, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return e
}

func idOf(e json.RawMessage) string {
	var id string
	if err := json.Unmarshal(members(e)["eventId"], &id); err != nil {
		return ""
	}
	return id
}

// flip changes one bit of what a member stands for.
func flip(e json.RawMessage, member string, rng *rand.Rand) json.RawMessage {
	m := members(e)
	var text string
	if json.Unmarshal(m[member], &text) != nil || text == "" {
		return e
	}
	if member == "nonce" || member == "ciphertext" {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(b) == 0 {
			return e
		}
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		text = base64.RawURLEncoding.EncodeToString(b)
	} else {
		b := []byte(text)
		i := rng.IntN(len(b))
		if b[i] ^= 1; b[i] == '"' || b[i] == '\\' || b[i] < ' ' || b[i] > '~' {
			b[i] = 'x'
		}
		text = string(b)
	}
	m[member] = json.RawMessage(strconv.Quote(text))
	return join(m)
}

// flipAny is a lie that flips a bit of a member in about half of the events.
func flipAny(member string) lie {
	return lie{name: "flipped " + member, page: func(l *liar, p *page, _ string) {
		for i, e := range p.Events {
			if l.rng.IntN(2) == 0 || i == 0 {
				p.Events[i] = flip(e, member, l.rng)
			}
		}
	}}
}

// pageLies are lies about events.
var pageLies = []lie{
	flipAny("ciphertext"), flipAny("nonce"), flipAny("eventId"), flipAny("deviceId"), flipAny("createdAt"),
	flipAny("streamId"), flipAny("ownerId"),
	{name: "version 2", page: func(_ *liar, p *page, _ string) {
		for i, e := range p.Events {
			m := members(e)
			m["version"] = json.RawMessage("2")
			p.Events[i] = join(m)
		}
	}},
	{name: "without its stream", page: func(_ *liar, p *page, _ string) {
		for i, e := range p.Events {
			m := members(e)
			delete(m, "streamId")
			p.Events[i] = join(m)
		}
	}},
	{name: "no envelope", page: func(_ *liar, p *page, _ string) {
		for i := range p.Events {
			p.Events[i] = json.RawMessage([]string{`1`, `{}`, `null`, `[]`, `{"version":1,"eventId":5}`}[i%5])
		}
	}},
	{name: "swapped bodies", page: func(_ *liar, p *page, _ string) {
		for i := 0; i+1 < len(p.Events); i += 2 {
			a, b := members(p.Events[i]), members(p.Events[i+1])
			for _, member := range []string{"nonce", "ciphertext"} {
				a[member], b[member] = b[member], a[member]
			}
			p.Events[i], p.Events[i+1] = join(a), join(b)
		}
	}},
	{name: "another owner's", page: func(l *liar, p *page, _ string) {
		if l.other != nil {
			p.Events = append(p.Events, l.other)
		}
	}},
	{name: "withheld", page: func(l *liar, p *page, _ string) {
		p.Events = slices.DeleteFunc(p.Events, func(json.RawMessage) bool { return l.rng.IntN(2) == 0 })
	}},
	{name: "all withheld", page: func(_ *liar, p *page, _ string) { p.Events = nil }},
	{name: "reversed", page: func(_ *liar, p *page, _ string) { slices.Reverse(p.Events) }},
	{name: "twice", page: func(_ *liar, p *page, _ string) { p.Events = append(p.Events, p.Events...) }},
	{name: "an old page", page: func(l *liar, p *page, _ string) {
		if len(l.pages) > 0 {
			p.Events = slices.Clone(l.pages[l.rng.IntN(len(l.pages))].Events)
		}
	}},
}

// cursorLies are lies about how far a page reaches.
var cursorLies = []lie{
	{name: "the same cursor", page: func(_ *liar, p *page, after string) { p.NextCursor = after }},
	{name: "a cursor back", page: func(_ *liar, p *page, _ string) { p.NextCursor = "1" }},
	{name: "a cursor far ahead", page: func(_ *liar, p *page, _ string) { p.NextCursor = "9007199254740991" }},
	{name: "no cursor", page: func(_ *liar, p *page, _ string) { p.NextCursor = "" }},
	{name: "a cursor of noise", page: func(_ *liar, p *page, _ string) { p.NextCursor = "1\n\x00&after=2 é" }},
	{name: "a huge cursor", page: func(_ *liar, p *page, _ string) { p.NextCursor = strings.Repeat("9", 10<<20) }},
}

func anyV1(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/") }

// status is a lie that answers everything so.
func status(code int, text string) lie {
	return lie{
		name: strconv.Itoa(code) + " " + text[:min(len(text), 24)], match: anyV1,
		say: func(_ *liar, w http.ResponseWriter, _ *http.Request, _ []byte, _ ask) { say(w, code, text) },
	}
}

// statusLies are answers that mean something else, or nothing.
var statusLies = []lie{
	status(400, `{"error":"bad_request","message":"no"}`),
	status(401, `{"error":"unauthorized","message":"no"}`),
	status(403, `{"error":"owner_limit","message":"no"}`),
	status(404, `{"error":"unknown_owner","message":"no"}`),
	status(413, `{"error":"quota_exceeded","message":"no"}`),
	status(413, `{"error":"too_many_events","message":"no"}`),
	status(429, `{"error":"too_many_waiting","message":"no"}`),
	status(500, `{"error":"internal","message":"no"}`),
	status(200, `<html>welcome to the hotel</html>`),
	status(200, `{"events":[{"version":1},`),
	status(200, `{"events":7,"nextCursor":"1","accepted":"all","duplicate":-1}`),
	status(200, `{}`),
	status(204, ``),
	status(101, ``),
	{name: "hang up", match: anyV1, say: func(_ *liar, _ http.ResponseWriter, _ *http.Request, _ []byte, _ ask) {
		panic(http.ErrAbortHandler)
	}},
	{name: "redirect", match: anyV1, say: func(l *liar, w http.ResponseWriter, r *http.Request, _ []byte, _ ask) {
		w.Header().Set("Location", l.trap+r.URL.RequestURI())
		w.WriteHeader(http.StatusTemporaryRedirect)
	}},
}

// pushLies are lies about what was stored.
var pushLies = []lie{
	{name: "thrown away", match: pushes, say: func(_ *liar, w http.ResponseWriter, _ *http.Request, body []byte, _ ask) {
		var push struct{ Events []json.RawMessage }
		_ = json.Unmarshal(body, &push)
		say(w, 200, `{"accepted":`+strconv.Itoa(len(push.Events))+`,"duplicate":0}`)
	}},
	{name: "stored, and an error", match: pushes, say: func(_ *liar, w http.ResponseWriter, _ *http.Request, _ []byte, ask ask) {
		ask()
		say(w, 500, `{"error":"internal","message":"no"}`)
	}},
	{name: "counted wrong", match: pushes, say: func(_ *liar, w http.ResponseWriter, _ *http.Request, _ []byte, ask ask) {
		ask()
		say(w, 200, `{"accepted":100000,"duplicate":-5}`)
	}},
}
