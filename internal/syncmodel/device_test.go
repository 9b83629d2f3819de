package syncmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// edit is one event that a device wrote.
type edit struct {
	id       string
	key      string // its stream, or its own id without one
	envelope string
}

// world is what all devices of one owner did, which no device knows.
type world struct {
	t       testing.TB
	edits   map[string]edit  // by id
	numbers map[int64]string // ids by the numbers under which they were pulled
	losses  int              // how often the relay lost history
	tick    int              // counts steps
}

func newWorld(t testing.TB) *world {
	return &world{t: t, edits: map[string]edit{}, numbers: map[int64]string{}}
}

// winners are the greatest ids by key: what all devices come to hold (M1).
func (w *world) winners() map[string]string {
	rows := map[string]string{}
	for id, e := range w.edits {
		rows[e.key] = max(rows[e.key], id)
	}
	return rows
}

// device is a client as the contract's section 11 describes it.
type device struct {
	*account
	world *world
	name  string

	rows   map[string]string // the current event's id by key
	seen   map[string]bool   // ids that were applied
	outbox []string          // ids that the relay has not acknowledged
	cursor string            // opaque; empty before the first page
	halted int               // the status of a terminal answer, 0 for none

	batch, page int // events in a push and in a page

	// What the model knows besides.
	acked   map[string]int  // acknowledged at that tick, and not pulled past yet
	atRisk  map[string]bool // of those, what the relay then lost (M2)
	repairs int
}

func (w *world) device(a *account, name string) *device {
	return &device{
		account: a, world: w, name: name, batch: 1000, page: 500,
		rows: map[string]string{}, seen: map[string]bool{},
		acked: map[string]int{}, atRisk: map[string]bool{},
	}
}

var (
	errRetry    = errors.New("syncmodel: try again at the normal pace")
	errTerminal = errors.New("syncmodel: a terminal answer")
	errRepaired = errors.New("syncmodel: repaired, go on in the next cycle")
)

// write makes an event with an id; stream may be empty.
func (d *device) write(id, stream, content string) {
	e := edit{id: id, key: stream, envelope: d.envelope(id, stream, content)}
	if stream == "" {
		e.key = id
	}
	d.world.edits[id] = e
	d.seen[id] = true
	d.rows[e.key] = max(d.rows[e.key], id)
	d.outbox = append(d.outbox, id)
}

// sync is one cycle of a client: push, then pull.
func (d *device) sync() error {
	if d.halted != 0 {
		return errTerminal
	}
	if err := d.push(); err != nil {
		return err
	}
	return d.pullAll()
}

// push sends the outbox in batches; each is acknowledged by its 200.
func (d *device) push() error {
	for len(d.outbox) > 0 && d.halted == 0 {
		batch := d.outbox[:min(len(d.outbox), d.batch)]
		list := make([]string, len(batch))
		for i, id := range batch {
			list[i] = d.world.edits[id].envelope
		}
		a, err := d.try("POST", d.base+"/v1/events", d.token, d.body(list...))
		if err != nil {
			return fmt.Errorf("%w: %w", errRetry, err)
		}
		if a.status != 200 {
			return d.refused(a)
		}
		var counts struct{ Accepted, Duplicate int }
		if err := json.Unmarshal([]byte(a.body), &counts); err != nil || counts.Accepted+counts.Duplicate != len(batch) {
			d.t.Fatalf("%s: push of %d: %s", d.name, len(batch), a.body)
		}
		for _, id := range batch {
			d.acked[id] = d.world.tick
		}
		d.outbox = d.outbox[len(batch):]
	}
	return nil
}

// refused is what an answer other than 200 means to a client.
func (d *device) refused(a answer) error {
	if a.status >= 500 {
		return fmt.Errorf("%w: %d", errRetry, a.status)
	}
	d.halted = a.status
	return fmt.Errorf("%w: %d %s", errTerminal, a.status, a.body)
}

// mostPages is more than any drain of these tests takes.
const mostPages = 20_000

// pullAll pulls until the cursor does not change any more.
func (d *device) pullAll() error {
	for range mostPages {
		more, err := d.pullPage()
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	d.t.Fatalf("%s: pulls for ever at %s", d.name, d.cursor)
	return nil
}

func (d *device) pullPage() (more bool, err error) {
	path := fmt.Sprintf("%s/v1/events?ownerId=%s&limit=%d", d.base, d.owner, d.page)
	if d.cursor != "" {
		path += "&after=" + d.cursor
	}
	a, err := d.try("GET", path, d.token, "")
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: %w", errRetry, err)
	case a.status == 404 && d.cursor == "":
		return false, nil // nobody pushed yet
	case a.status == 404:
		if strings.Contains(a.body, "stale_cursor") && number(d.t, d.cursor) < 1<<40 {
			d.t.Errorf("S33: %s: cursor %s is called stale", d.name, d.cursor)
		}
		d.repair()
		return false, errRepaired
	case a.status != 200:
		return false, d.refused(a)
	}
	events, next, err := parsePage(a.body)
	if err != nil || len(events) > d.page {
		d.t.Fatalf("%s: page of %d: %v: %.200s", d.name, len(events), err, a.body)
	}
	d.take(events, next)
	if next == d.cursor {
		clear(d.acked) // whatever was acknowledged lies behind the cursor
		return false, nil
	}
	d.cursor = next
	return true, nil
}

// take applies a page (M3, M5).
func (d *device) take(events []string, next string) {
	n := number(d.t, next)
	if d.cursor != "" && n < number(d.t, d.cursor) {
		d.t.Errorf("M3: %s: cursor went from %s back to %s", d.name, d.cursor, next)
	}
	var last string
	for _, envelope := range events {
		last = idOf(d.t, envelope)
		e, known := d.world.edits[last]
		if !known || e.envelope != envelope {
			d.t.Errorf("M5: %s: pulled %s, pushed %s", d.name, envelope, e.envelope)
			continue
		}
		if !d.seen[last] {
			d.seen[last] = true
			d.rows[e.key] = max(d.rows[e.key], last)
		}
	}
	if last == "" {
		return
	}
	if other, used := d.world.numbers[n]; used && other != last {
		d.t.Errorf("M3: %s: number %s is of %s, was of %s", d.name, next, last, other)
	}
	d.world.numbers[n] = last
}

// repair forgets the relay: everything current goes back into the outbox.
func (d *device) repair() {
	d.repairs++
	if d.repairs > d.world.losses {
		d.t.Errorf("M4: %s: repair %d after %d losses", d.name, d.repairs, d.world.losses)
	}
	d.forget()
}

func (d *device) forget() {
	d.cursor = ""
	clear(d.acked)
	clear(d.atRisk)
	for _, id := range slices.Sorted(maps.Values(d.rows)) {
		if !slices.Contains(d.outbox, id) {
			d.outbox = append(d.outbox, id)
		}
	}
}

// statusCheck re-seeds a relay that has nothing of what the cursor stands for.
func (d *device) statusCheck() error {
	a, err := d.try("GET", d.base+"/v1/status?ownerId="+d.owner, d.token, "")
	if err != nil {
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	var st struct{ Account numbers }
	switch {
	case a.status == 404:
		return nil // the pull tells
	case a.status != 200:
		return d.refused(a)
	}
	if err := json.Unmarshal([]byte(a.body), &st); err != nil {
		d.t.Fatalf("status: %v in %s", err, a.body)
	}
	if d.cursor != "" && st.Account.HeadSeq < number(d.t, d.cursor) && st.Account.Events == 0 {
		d.repair()
		return errRepaired
	}
	return nil
}

// lost tells that the relay lost all that was acknowledged at tick or later.
func (d *device) lost(tick int) {
	for id, at := range d.acked {
		if at >= tick {
			d.atRisk[id] = true
			delete(d.acked, id)
		}
	}
}

// fleet are all devices of an owner.
type fleet []*device

// maxRounds bounds the rounds to quiet: stale and repaired, pushed, pulled from
// the others, nothing new, and one to spare (M1).
const maxRounds = 5

// settle lets all devices sync until nothing changes. No fault happens.
func (f fleet) settle() {
	t := f[0].t
	t.Helper()
	for range maxRounds {
		quiet := true
		for _, d := range f {
			cursor, pending := d.cursor, len(d.outbox)
			err := errors.Join(d.statusCheck(), d.sync())
			if err != nil && !errors.Is(err, errRepaired) {
				t.Fatalf("%s: %v", d.name, err)
			}
			quiet = quiet && err == nil && pending == 0 && d.cursor == cursor
		}
		if quiet {
			return
		}
	}
	t.Errorf("M1: not quiet after %d rounds", maxRounds)
}

// verify compares what the devices hold with what was written (M1, M2). It
// returns how many keys some device misses, all of which must be excused.
func (f fleet) verify() (missed int) {
	w := f[0].world
	for key, winner := range w.winners() {
		excused := true
		var without []string
		for _, d := range f {
			switch {
			case d.rows[key] != winner:
				without = append(without, d.name+" "+d.rows[key])
			case !d.atRisk[winner]:
				excused = false
			}
		}
		if len(without) == 0 {
			continue
		}
		missed++
		if !excused {
			w.t.Errorf("M2: %s is at %s, but %q", key, winner, without)
		}
	}
	return missed
}

// same wants all devices to hold exactly the winners (M1).
func (f fleet) same() {
	w := f[0].world
	w.t.Helper()
	want := w.winners()
	for _, d := range f {
		if !maps.Equal(d.rows, want) {
			w.t.Errorf("M1: %s holds %d rows that are not the %d winners: %v, want %v", d.name, len(d.rows), len(want), d.rows, want)
		}
	}
}
