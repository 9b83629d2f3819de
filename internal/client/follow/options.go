package follow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/sse"
	"github.com/sluice-relay/sluice/internal/client"
)

const (
	// defaultMaxEventBytes is four times the default of AEP_MAX_BODY.
	defaultMaxEventBytes = 64 << 20
	// defaultRemember is how many events are remembered at least.
	defaultRemember = 100_000
	// defaultSilence is three heartbeats (R274, R330).
	defaultSilence = 75 * time.Second
	// defaultSearchBytes bounds one search for sessions that began while there
	// was no connection.
	defaultSearchBytes = 256 << 20
)

// ErrOptions marks options that no relay could serve.
var ErrOptions = errors.New("bad option")

// Options say what to follow and from where. Immutable while Follow runs.
type Options struct {
	Relay *client.Relay
	// Socket asks for a WebSocket in place of SSE. What was missed is fetched
	// by HTTP all the same.
	Socket bool
	// Filter is a filter's JSON (section 9), "" for none.
	Filter string
	// Ceiling is the capture level not to exceed (section 10), "" for none.
	Ceiling string
	// All wants everything that the relay holds, before what is new (R171).
	All bool
	// From has the positions from which named sessions are wanted. All and From
	// exclude each other.
	From []aep.Position
	// Once ends at the end of the replay; without From it implies All.
	Once bool
	// State names a file that keeps the positions from one run to the next, ""
	// for none. What it knows goes on where it ended; All and From are for the
	// sessions that it does not know.
	State string

	// Bounds and times; zero stands for the default.
	MaxEventBytes int           // of an event's text; 64 MiB
	Remember      int           // events remembered at least; 100,000, not below 64
	Silence       time.Duration // without a byte that ends a connection; 75 s

	searchBytes int64 // of one search for sessions
	// pause waits between two attempts; tests have no time for that.
	pause func(context.Context, time.Duration) error
}

// resolve checks the options and fills in what is not set.
func (o *Options) resolve() (*aep.Filter, error) {
	filter, err := aep.ParseFilter([]byte(o.Filter))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if _, err := aep.ParseCeilingQuery([]byte(o.Ceiling)); err != nil {
		return nil, fmt.Errorf("%w: capture: %w", ErrOptions, err)
	}
	if o.All && len(o.From) > 0 {
		return nil, fmt.Errorf("%w: everything, and positions", ErrOptions)
	}
	for _, p := range o.From {
		if p.Session == "" || p.Epoch < 0 || p.Seq < -1 {
			return nil, fmt.Errorf("%w: position %q:%d:%d", ErrOptions, p.Session, p.Epoch, p.Seq)
		}
	}
	o.All = o.All || o.Once && len(o.From) == 0
	o.MaxEventBytes = cmp.Or(o.MaxEventBytes, defaultMaxEventBytes)
	o.Remember = max(cmp.Or(o.Remember, defaultRemember), maxAbove)
	o.Silence = cmp.Or(o.Silence, defaultSilence)
	o.searchBytes = cmp.Or(o.searchBytes, defaultSearchBytes)
	if o.pause == nil {
		o.pause = client.Pause
	}
	return filter, nil
}

// Selection is a filter in the words of a command line. Values of one field are
// alternatives; the fields hold together.
type Selection struct {
	Sessions, Agents []string
	Types            []string // each may end in ".*" (R216)
	Severity         string   // the least, "" for any
}

// Filter returns the filter's JSON, "" if nothing is selected.
func (s Selection) Filter() (string, error) {
	f := map[string]any{}
	for name, values := range map[string][]string{"session": s.Sessions, "agent": s.Agents, "type": s.Types} {
		if len(values) > 0 {
			f[name] = values
		}
	}
	if s.Severity != "" {
		if _, ok := aep.ParseSeverity(s.Severity); !ok {
			return "", fmt.Errorf("%w: severity %s is none of debug, info, notice, warning, error, critical",
				ErrOptions, strconv.Quote(s.Severity))
		}
		f["severity"] = map[string]string{"gte": s.Severity}
	}
	if len(f) == 0 {
		return "", nil
	}
	text := encode(f)
	if _, err := aep.ParseFilter(text); err != nil {
		return "", fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return string(text), nil
}

// ParseSince reads "all" or "SESSION:EPOCH:SEQ", where the session may hold
// colons (R276).
func ParseSince(text string) (p aep.Position, all bool, err error) {
	if text == "all" {
		return p, true, nil
	}
	session, epoch, seq, ok := sse.ParseLastEventID([]byte(text))
	if !ok {
		return p, false, fmt.Errorf("%w: %s is neither all nor SESSION:EPOCH:SEQ", ErrOptions, strconv.Quote(text))
	}
	return aep.Position{Session: session, Epoch: epoch, Seq: seq}, false, nil
}

// encode returns the JSON of a value that has one, without HTML escapes.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// hides reports whether a filter demands more than sessions, so that a number
// that does not come need not be missing.
func hides(filter string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(filter), &members) != nil {
		return strings.TrimSpace(filter) != ""
	}
	delete(members, "session")
	return len(members) > 0
}
