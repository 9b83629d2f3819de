package follow

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/sluice-relay/sluice/codec/aep"
)

const (
	// maxFrom is the default of AEP_MAX_FROM. A relay does not tell its own;
	// one that takes fewer refuses, and is asked for half as many.
	maxFrom = 500
	// maxQueryBytes keeps a request line below the 8 KiB that proxies take
	// unless told otherwise; so much a relay's limit would leave for more.
	maxQueryBytes = 6 << 10
	// maxFrameBytes keeps a subscribe frame below the least limit of a relay
	// (R332).
	maxFrameBytes = 256 << 10
)

// request is one thing to ask for: the live connection, or a replay that ends.
type request struct {
	index int // of a replay, from 1
	live  bool
	// all asks for everything that is held (R171); from for what is after
	// positions (R165).
	all  bool
	from []aep.Position
}

// wire is a position as it is sent.
type wire struct {
	Session string `json:"session"`
	Epoch   int64  `json:"epoch"`
	Seq     int64  `json:"seq"`
}

// fromJSON returns positions as JSON (R174).
func fromJSON(positions []aep.Position) []byte {
	list := make([]wire, len(positions))
	for i, p := range positions {
		list[i] = wire{p.Session, p.Epoch, p.Seq}
	}
	return encode(list)
}

// query returns the parameters of GET /stream. A single position goes as
// Last-Event-ID (R276) if it fits into a header. A replay names its sessions,
// or those of the filter would all be in it (R279).
func (f *follower) query(r *request) (query url.Values, lastEventID string) {
	query = url.Values{}
	if f.o.Filter != "" {
		query.Set("filter", f.o.Filter)
	}
	if f.o.Ceiling != "" {
		query.Set("capture", f.o.Ceiling)
	}
	if !r.live {
		query.Set("live", "0")
	}
	switch {
	case r.all:
		query.Set("from", "all")
	case r.live && len(r.from) == 1 && r.from[0].Seq >= 0 && visible(r.from[0].Session):
		lastEventID = eventID(r.from[0])
	case len(r.from) > 0:
		query.Set("from", string(fromJSON(r.from)))
	}
	return query, lastEventID
}

// visible reports whether a header may carry s as it is.
func visible(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c <= ' ' || c >= 0x7f })
}

// plan decides what to ask for: live is nil when only replays are wanted. It
// marks the sessions whose replay comes beside the live connection, and
// whether a replay looks for sessions without a position.
func (f *follower) plan() (live *request, replays []*request) {
	known := f.tracks.newest()
	var chunks [][]*track
	if f.fromLimit > 0 {
		chunks = f.split(known)
	}
	if !f.o.Once {
		live = &request{live: true, all: f.o.All && len(known) == 0}
		if len(chunks) > 0 {
			live.from = positionsOf(chunks[0])
			for _, t := range chunks[0] {
				t.waiting = 0
			}
			chunks = chunks[1:]
		}
	}
	for _, chunk := range chunks {
		r := &request{index: len(replays) + 1, from: positionsOf(chunk)}
		for _, t := range chunk {
			t.waiting = r.index
		}
		replays = append(replays, r)
	}
	owed := f.o.All || f.resumed && !f.o.Once
	nothingElse := f.named != nil && !slices.ContainsFunc(f.named, func(name string) bool { return f.tracks.bySession[name] == nil })
	f.late = f.resumed && !f.o.Once && !f.hides
	f.searching = owed && !nothingElse && (live == nil || !live.all)
	f.complete = live != nil && live.all || f.searching || f.blank
	for _, t := range known {
		t.asked = true
	}
	asked := f.fromLimit > 0 || len(known) == 0
	if f.searching || !asked {
		r := &request{index: len(replays) + 1, all: true}
		if !asked {
			for _, t := range known {
				t.waiting = r.index
			}
		}
		replays = append(replays, r)
	}
	return live, replays
}

func positionsOf(chunk []*track) []aep.Position {
	from := make([]aep.Position, len(chunk))
	for i, t := range chunk {
		from[i] = t.position()
	}
	return from
}

// split cuts sessions into lists that fit into one request each. The first is
// the live connection's, which may be a socket with more room.
func (f *follower) split(known []*track) [][]*track {
	var chunks [][]*track
	for len(known) > 0 {
		room := maxQueryBytes
		length := func(t *track) int { return len(url.QueryEscape(string(fromJSON([]aep.Position{t.position()})))) }
		if f.o.Socket && !f.o.Once && len(chunks) == 0 {
			room = maxFrameBytes
			length = func(t *track) int { return len(fromJSON([]aep.Position{t.position()})) }
		}
		n := 0
		for n < len(known) && n < f.fromLimit {
			if room -= length(known[n]); room < 0 && n > 0 {
				break
			}
			n++
		}
		chunks = append(chunks, known[:n])
		known = known[n:]
	}
	return chunks
}

// eventID returns a position as an event's id (R272).
func eventID(p aep.Position) string {
	return p.Session + ":" + strconv.FormatInt(p.Epoch, 10) + ":" + strconv.FormatInt(p.Seq, 10)
}

// setHeaders sets what a stream's request has besides the usual.
func setHeaders(h http.Header, lastEventID string) {
	h.Set("Accept", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	if lastEventID != "" {
		h.Set("Last-Event-ID", lastEventID)
	}
}
