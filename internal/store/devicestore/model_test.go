package devicestore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// trial is a run of random steps on two handles of one file, and on the model.
type trial struct {
	t     *testing.T
	r     *rand.Rand
	s     [2]*Store
	m     model
	now   time.Time
	urls  map[int64]string
	made  []Event // of another device, given to relays in any order
	steps int
}

const modelSeen, modelDeferred = 25, 12

// Any steps in any order, on two handles of one file which are reopened in
// between, under a clock that is also set back: store and model agree.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	trials, steps := 8, 250
	if raceEnabled || testing.Short() {
		trials, steps = 2, 100
	}
	for n := range trials {
		c := &trial{t: t, r: rand.New(rand.NewPCG(seed, uint64(n))), now: noon, urls: map[int64]string{}}
		c.s[0] = fresh(t, func(o *Options) { o.SeenMax, o.DeferredMax, o.Busy = modelSeen, modelDeferred, time.Second })
		c.s[1] = reopen(t, c.s[0])
		c.m = model{
			rows: map[string]modelRow{}, outbox: map[string]modelRow{}, relays: map[int64]*modelRelay{},
			seen: map[string]bool{}, deferred: map[string]modelRow{},
		}
		for c.steps = range steps {
			c.step()
			c.compare()
		}
		for _, s := range c.s {
			wantErr(t, "close", s.Close(), nil)
		}
	}
}

func (c *trial) store() *Store { return c.s[c.r.IntN(2)] }

// relay picks one of those that are there, or 0.
func (c *trial) relay() int64 {
	list := slices.Sorted(maps.Keys(c.m.relays))
	if len(list) == 0 {
		return 0
	}
	return list[c.r.IntN(len(list))]
}

func (c *trial) step() {
	c.now = c.now.Add(time.Duration(c.r.IntN(60)-20) * time.Second) // D21
	id := c.relay()
	switch n := c.r.IntN(20); {
	case n < 5:
		c.write()
	case n == 5 || id == 0:
		c.addOrRemove()
	case n < 8:
		_, err := c.store().Seal("owner-1", 1+c.r.IntN(5), func(r Row) ([]byte, error) { return sealed(r) })
		wantErr(c.t, "seal", err, nil)
	case n < 11:
		c.push(id)
	case n < 15:
		c.pull(id)
	case n == 15:
		c.drain(id)
	case n == 16:
		c.forget(id)
	case n == 17:
		c.due()
	case n == 18:
		c.purge(id)
	default:
		i := c.r.IntN(2)
		wantErr(c.t, "close", c.s[i].Close(), nil)
		c.s[i] = reopen(c.t, c.s[1-i])
	}
}

func (c *trial) write() {
	id, data := fmt.Sprint(c.r.IntN(8)), fmt.Sprint("own ", c.steps)
	e := Edit{Key{"t", id}, []byte(data)}
	if c.r.IntN(4) == 0 {
		e.Data, data = nil, ""
	}
	rows, err := c.store().Write(c.now, e)
	if data == "" && c.m.rows[id].data == "" {
		wantErr(c.t, "delete", err, ErrNoRow)
		return
	}
	wantErr(c.t, "write", err, nil)
	if hlc := rows[0].HLC; hlc <= c.m.clock || hlc < before(c.now.UnixMilli()) {
		c.t.Fatalf("%s after %s at %v", hlc, c.m.clock, c.now)
	}
	c.m.write(id, rows[0].HLC, data)
}

func (c *trial) addOrRemove() {
	if id := c.relay(); id != 0 && (len(c.m.relays) > 2 || c.r.IntN(3) == 0) {
		wantErr(c.t, "remove", c.store().RemoveRelay(c.urls[id]), nil)
		c.m.drop(c.m.relays[id])
		delete(c.m.relays, id)
		return
	}
	url := fmt.Sprint("http://", c.steps)
	r := must(c.store().AddRelay(url))(c.t)
	c.urls[r.ID] = url
	c.m.relays[r.ID] = &modelRelay{
		generation: 1, owed: map[string]*modelOwed{}, later: map[string]bool{}, streams: map[string]bool{},
	}
	c.m.seed(c.m.relays[r.ID])
}

func (c *trial) push(id int64) {
	list := must(c.store().Owed(id, 1+c.r.IntN(4), 1<<20))(c.t)
	r, ids := c.m.relays[id], []string(nil)
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	generation := r.generation - int64(c.r.IntN(8)/7) // some are late
	wantErr(c.t, "acknowledge", c.store().Acknowledge(id, generation, ids), nil)
	if generation != r.generation || len(ids) == 0 {
		return
	}
	r.acks++
	for _, hlc := range ids {
		r.owed[hlc].ack = r.acks
	}
}

// event is one of another device, maybe made before, or one of this device that
// the relay has.
func (c *trial) event(r *modelRelay) Event {
	switch n := c.r.IntN(6); {
	case n < 2 && len(c.made) > 0:
		return c.made[c.r.IntN(len(c.made))]
	case n < 4:
		for _, hlc := range slices.Sorted(maps.Keys(r.owed)) {
			if row, written := c.m.outbox[hlc]; written && c.r.IntN(3) > 0 {
				return Event{ID: hlc, Key: Key{"t", row.id}, Deleted: row.data == "", Data: bytesOf(row.data)}
			}
		}
	}
	at := c.now.Add(time.Duration(c.r.IntN(600)-400) * time.Second)
	e := Event{ID: hlcAt(at.Sub(noon), uint16(c.r.IntN(3)), "dev-b"), Key: Key{"t", fmt.Sprint(c.r.IntN(8))}}
	if slices.ContainsFunc(c.made, func(o Event) bool { return o.ID == e.ID }) {
		return c.event(r)
	}
	if e.Data = fmt.Append(nil, "other ", c.steps); c.r.IntN(4) == 0 {
		e.Data, e.Deleted = nil, true
	}
	if c.r.IntN(8) == 0 {
		e.Defer, e.Schema = Unknown, 2+c.r.IntN(2)
	}
	c.made = append(c.made, e)
	return e
}

func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func (c *trial) pull(id int64) {
	r := c.m.relays[id]
	page := Page{After: r.cursor, Next: fmt.Sprint("c", c.steps), Generation: r.generation}
	for range c.r.IntN(8) {
		e := c.event(r)
		if slices.ContainsFunc(page.Events, func(o Event) bool { return o.ID == e.ID }) {
			continue
		}
		if e.ID > before(c.now.Add(MaxAhead).UnixMilli()+1) && e.Defer == Apply {
			e.Defer = Future
		}
		if e.Defer != Apply {
			e.Plain = fmt.Appendf(nil, "%s|%d|%s|%s", e.ID, e.Schema, e.Key.ID, e.Data)
		}
		page.Events = append(page.Events, e)
	}
	if c.r.IntN(6) == 0 {
		page.After = "of before"
	}
	a, err := c.store().ApplyPage(id, page, c.now)
	if page.After != r.cursor {
		if !a.Stale || err != nil {
			c.t.Fatalf("%+v, %v", a, err)
		}
		return
	}
	if deferred := c.fits(page); !deferred {
		wantErr(c.t, "full", err, ErrDeferredFull)
		return
	}
	wantErr(c.t, "page", err, nil)
	c.take(id, page)
}

// fits tells whether the deferred events of a page have room.
func (c *trial) fits(p Page) bool {
	room := modelDeferred - len(c.m.deferred)
	lowest := c.lowest()
	for _, e := range p.Events {
		if e.Defer == Apply || c.m.seen[e.ID] {
			continue
		}
		if _, there := c.m.deferred[e.ID]; there && e.ID >= lowest {
			continue
		}
		if room--; room < 0 {
			return false
		}
	}
	return true
}

func (c *trial) lowest() string {
	if len(c.m.seen) < modelSeen {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(c.m.seen)))
}

func (c *trial) take(id int64, p Page) {
	m, r := &c.m, c.m.relays[id]
	lowest := c.lowest()
	for _, e := range p.Events {
		delete(r.later, e.ID)
		if r.owed[e.ID] != nil {
			m.settle(r, e.ID)
		}
		if m.seen[e.ID] {
			continue
		}
		if e.ID >= lowest {
			m.seen[e.ID] = true
		}
		if e.ID < before(c.now.Add(MaxAhead).UnixMilli()+1) {
			m.clock = max(m.clock, e.ID)
		}
		row := modelRow{id: e.Key.ID, hlc: e.ID, data: string(e.Data)}
		if e.Defer == Apply {
			m.apply(row, id)
			continue
		}
		if row.schema = e.Schema; e.Defer == Future {
			row.schema = 0
		}
		if _, there := m.deferred[e.ID]; !there {
			m.deferred[e.ID] = row
		}
	}
	for len(m.seen) > modelSeen {
		delete(m.seen, slices.Min(slices.Collect(maps.Keys(m.seen))))
	}
	r.cursor = p.Next
}

func (c *trial) drain(id int64) {
	s, r := c.store(), c.m.relays[id]
	mark := must(s.BeginDrain(id))(c.t)
	if c.r.IntN(3) == 0 {
		c.push(id)
	}
	again, withheld, err := s.EndDrain(id, r.generation, mark)
	wantErr(c.t, "drain", err, nil)
	for _, hlc := range slices.Collect(maps.Keys(r.owed)) {
		o := r.owed[hlc]
		current := slices.ContainsFunc(slices.Collect(maps.Values(c.m.rows)), func(row modelRow) bool { return row.hlc == hlc })
		switch {
		case o.ack == 0 || o.ack > mark:
			continue
		case !current:
		case o.tries < MaxTries:
			o.ack, o.tries = 0, o.tries+1
			again--
			continue
		default:
			r.withheld++
			withheld--
		}
		c.m.settle(r, hlc)
	}
	if again != 0 || withheld != 0 {
		c.t.Fatalf("%d and %d too many", again, withheld)
	}
}

func (c *trial) forget(id int64) {
	r := c.m.relays[id]
	late := c.r.IntN(3) == 0
	generation := r.generation
	if late {
		generation--
	}
	ok, err := c.store().Forget(id, generation, c.now)
	if err != nil || ok == late {
		c.t.Fatal(ok, err)
	}
	if !late {
		c.m.forget(r)
	}
}

func (c *trial) due() {
	known := 1 + c.r.IntN(3)
	_, err := c.store().ApplyDue(c.now, known, func(plain []byte) (Event, error) {
		f := strings.Split(string(plain), "|")
		e := Event{ID: f[0], Key: Key{"t", f[2]}, Data: bytesOf(f[3]), Deleted: f[3] == ""}
		_, err := fmt.Sscan(f[1], &e.Schema)
		return e, err
	})
	wantErr(c.t, "due", err, nil)
	for _, hlc := range slices.Sorted(maps.Keys(c.m.deferred)) {
		row := c.m.deferred[hlc]
		switch {
		case row.schema > known, row.schema == 0 && hlc >= before(c.now.UnixMilli()+1):
		case hlc >= before(c.now.Add(MaxAhead).UnixMilli()+1):
			row.schema = 0
			c.m.deferred[hlc] = row
		default:
			delete(c.m.deferred, hlc)
			c.m.clock = max(c.m.clock, hlc)
			row.schema = 0
			c.m.ripen(row)
		}
	}
}

func (c *trial) purge(id int64) {
	earlier := c.now.Add(-time.Duration(c.r.IntN(300)) * time.Second)
	n, err := c.store().Purge(earlier, 0, func(k Key) string { return "s" + k.ID })
	wantErr(c.t, "purge", err, nil)
	for rowID, row := range maps.Clone(c.m.rows) {
		waits := slices.ContainsFunc(slices.Collect(maps.Values(c.m.outbox)), func(o modelRow) bool { return o.id == rowID })
		for _, r := range c.m.relays {
			waits = waits || r.owed[row.hlc] != nil
		}
		if row.data != "" || waits || row.hlc >= before(earlier.UnixMilli()) {
			continue
		}
		n--
		delete(c.m.rows, rowID)
		for _, r := range c.m.relays {
			r.streams["s"+rowID] = true
		}
	}
	if n != 0 {
		c.t.Fatalf("%d too many", n)
	}
	list := must(c.store().Purges(id, 1))(c.t)
	wantErr(c.t, "purged", c.store().Purged(id, list), nil)
	for _, stream := range list {
		delete(c.m.relays[id].streams, stream)
	}
}

func (c *trial) compare() {
	s := c.store()
	verify(c.t, s)
	same := func(what string, got, want any) {
		c.t.Helper()
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			c.t.Fatalf("step %d: %s:\n got %s\nwant %s", c.steps, what, g, w)
		}
	}
	rows := map[string]modelRow{}
	for _, r := range must(s.List("", Key{}, 0, true))(c.t) {
		rows[r.Key.ID] = modelRow{id: r.Key.ID, hlc: r.HLC, data: string(r.Data)}
	}
	same("rows", rows, c.m.rows)
	same("clock", must(s.state())(c.t).lastHLC, c.m.clock)
	st := must(s.Stats())(c.t)
	same("counts", []int64{st.Seen, st.Deferred, st.Outbox}, []int{len(c.m.seen), len(c.m.deferred), len(c.m.outbox)})
	withheld := map[int64]int64{}
	for _, n := range must(s.Refusals())(c.t) {
		withheld[n.Relay] = n.Count
	}
	for id, r := range c.m.relays {
		var want []string
		unseen := 0
		for _, hlc := range slices.Sorted(maps.Keys(r.owed)) {
			if r.owed[hlc].ack > 0 {
				unseen++
				continue
			}
			row, written := c.m.outbox[hlc]
			for _, current := range c.m.rows {
				if !written && current.hlc == hlc {
					row = current
				}
			}
			want = append(want, fmt.Sprint(hlc, row.id, row.data))
		}
		var got []string
		for _, p := range must(s.Owed(id, 0, 1<<40))(c.t) {
			data := string(p.Data)
			if p.Envelope != nil {
				data = strings.TrimPrefix(string(p.Envelope), "sealed "+p.ID+" ")
			}
			got = append(got, fmt.Sprint(p.ID, p.Key.ID, data))
		}
		same("owed", got, want)
		v := relay(c.t, s, id)
		same("relay", fmt.Sprint(v.Cursor, v.Generation, v.Unseen, withheld[id]), fmt.Sprint(r.cursor, r.generation, unseen, r.withheld))
		same("streams", must(s.Purges(id, 0))(c.t), slices.Sorted(maps.Keys(r.streams)))
	}
}
