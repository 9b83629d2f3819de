package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxConsumers bounds the rows of the page.
	maxConsumers = 100
	// maxFilterBytes bounds what is shown of one filter, and in the table of
	// all filters of a consumer.
	maxFilterBytes = 200
	// maxFilters bounds the filters of one consumer in the JSON form.
	maxFilters = 16
	// maxNameBytes bounds a remote address and a kind.
	maxNameBytes = 100

	textFormat = "format must be text or json.\n"
)

// consumerJSON is a row of the JSON form.
type consumerJSON struct {
	Remote         string   `json:"remote"`
	Kind           string   `json:"kind"`
	Filters        []string `json:"filters"`
	Subscriptions  int      `json:"subscriptions"`
	LagEvents      int64    `json:"lag_events"`
	UnsentBytes    int64    `json:"unsent_bytes"`
	UnackedBytes   int64    `json:"unacked_bytes"`
	ShedEvents     int64    `json:"shed_events"`
	StalledSeconds float64  `json:"stalled_seconds"`
	AgeSeconds     float64  `json:"age_seconds"`
}

// consumers shows who is slowest.
func (s *Server) consumers(w http.ResponseWriter, r *http.Request) {
	asJSON, ok := wantsJSON(r)
	if !ok {
		writeText(w, http.StatusBadRequest, textFormat)
		return
	}
	snap, err := s.snapshot(r.Context(), "consumers")
	if err != nil {
		writeText(w, http.StatusServiceUnavailable, "no snapshot: "+err.Error()+"\n")
		return
	}
	rows := slowestFirst(snap.Slowest)
	if asJSON {
		writeConsumersJSON(w, rows)
		return
	}
	writeText(w, http.StatusOK, consumersText(rows))
}

// wantsJSON reads the form from the query, else from Accept. ok is false for a
// form that does not exist.
func wantsJSON(r *http.Request) (asJSON, ok bool) {
	switch r.URL.Query().Get("format") {
	case "json":
		return true, true
	case "text":
		return false, true
	case "":
	default:
		return false, false
	}
	for _, list := range r.Header.Values("Accept") {
		for item := range strings.SplitSeq(list, ",") {
			media, _, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(media), "application/json") {
				return true, true
			}
		}
	}
	return false, true
}

// slowestFirst sorts by what is owed and cuts to maxConsumers. It changes the
// order of list.
func slowestFirst(list []Consumer) []Consumer {
	slices.SortStableFunc(list, func(a, b Consumer) int {
		return cmp.Or(
			cmp.Compare(b.QueuedBytes, a.QueuedBytes),
			cmp.Compare(b.LagEvents, a.LagEvents),
			cmp.Compare(b.Stalled, a.Stalled),
			cmp.Compare(b.UnackedBytes, a.UnackedBytes),
			cmp.Compare(b.Age, a.Age),
		)
	})
	return list[:min(len(list), maxConsumers)]
}

func writeConsumersJSON(w http.ResponseWriter, list []Consumer) {
	rows := make([]consumerJSON, len(list))
	for i := range list {
		c := &list[i]
		filters := make([]string, min(len(c.Filters), maxFilters))
		for j := range filters {
			filters[j] = clean(c.Filters[j], maxFilterBytes)
		}
		rows[i] = consumerJSON{
			Remote:         clean(c.Remote, maxNameBytes),
			Kind:           clean(c.Kind, maxNameBytes),
			Filters:        filters,
			Subscriptions:  len(c.Filters),
			LagEvents:      c.LagEvents,
			UnsentBytes:    c.QueuedBytes,
			UnackedBytes:   c.UnackedBytes,
			ShedEvents:     c.Shed,
			StalledSeconds: c.Stalled.Seconds(),
			AgeSeconds:     c.Age.Seconds(),
		}
	}
	w.Header().Set("Content-Type", "application/json")
	// What is left to fail is the connection.
	_ = json.NewEncoder(w).Encode(struct {
		Consumers []consumerJSON `json:"consumers"`
	}{rows})
}

// consumersText returns the table: numbers to the right, texts that clients
// chose at the end.
func consumersText(list []Consumer) string {
	if len(list) == 0 {
		return "no consumer owes its reader anything\n"
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "REMOTE\tKIND\tLAG_EVENTS\tUNSENT_BYTES\tUNACKED_BYTES\tSHED_EVENTS\tSTALLED\tAGE\tFILTER")
	for i := range list {
		c := &list[i]
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%v\t%v\t%s\n",
			clean(c.Remote, maxNameBytes), clean(c.Kind, maxNameBytes),
			c.LagEvents, c.QueuedBytes, c.UnackedBytes, c.Shed,
			c.Stalled.Round(time.Second/10), c.Age.Round(time.Second/10), filterText(c.Filters))
	}
	_ = tw.Flush() // a Builder does not fail
	return b.String()
}

// filterText joins filters for one cell. "*" is one that takes everything.
func filterText(filters []string) string {
	if len(filters) == 0 {
		return "-"
	}
	var b strings.Builder
	for i, f := range filters {
		if b.Len() > maxFilterBytes {
			break // cut below
		}
		if i > 0 {
			b.WriteString(" | ")
		}
		if f == "" {
			f = "*"
		}
		b.WriteString(f[:min(len(f), maxFilterBytes+1)])
	}
	return clean(b.String(), maxFilterBytes)
}

// clean returns text that a client chose in a form fit for a terminal: at most
// maxBytes of it, cut between characters and then marked so, and U+FFFD for
// what is not printable.
func clean(text string, maxBytes int) string {
	const ellipsis = "…"
	cut := len(text) > maxBytes
	if cut {
		end := maxBytes - len(ellipsis)
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
	if cut {
		text += ellipsis
	}
	return text
}
