package eventlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// model is the log, naively.
type model struct {
	cfg     Config
	now     time.Time
	events  []Stored
	last    int64
	evicted int64
}

// append is B55, B56 and B62.
func (m *model) append(e Event) (Result, error) {
	defer m.retain()
	for _, s := range m.events {
		if s.Tenant == e.Tenant && s.Source == e.Source && s.ID == e.ID {
			if s.Digest != e.Digest {
				return Result{Seq: s.Seq}, ErrDuplicateID
			}
			return Result{Seq: s.Seq, Duplicate: true}, nil
		}
	}
	m.last++
	m.events = append(m.events, Stored{Seq: m.last, StoredAt: m.now, Event: e})
	return Result{Seq: m.last}, nil
}

func (m *model) bytes() (n int64) {
	for i := range m.events {
		n += m.events[i].charge()
	}
	return n
}

func (m *model) retain() {
	for len(m.events) > 0 {
		age := m.now.Sub(m.events[0].StoredAt)
		if int64(len(m.events)) <= m.cfg.MaxEvents && age <= m.cfg.MaxAge && (m.bytes() <= m.cfg.MaxBytes || len(m.events) == 1) {
			return
		}
		m.evicted = m.events[0].Seq
		m.events = m.events[1:]
	}
}

func (m *model) state() State {
	st := State{Newest: m.last, Evicted: m.evicted, Events: int64(len(m.events)), Bytes: m.bytes()}
	if len(m.events) > 0 {
		st.Oldest = m.events[0].Seq
	}
	return st
}

func (m *model) page(after int64, maxEvents int, maxBytes int64) (page []Stored, err error) {
	if maxEvents <= 0 {
		return nil, nil
	}
	if after = max(after, 0); after < m.evicted {
		return nil, ErrEvicted
	}
	size := int64(0)
	for _, s := range m.events {
		if s.Seq <= after {
			continue
		}
		if size += int64(len(s.Text)); len(page) == maxEvents || size > maxBytes && len(page) > 0 {
			break
		}
		page = append(page, s)
	}
	return page, nil
}

// Any sequence of appends in groups, pages, clocks and restarts agrees with the
// model.
func TestAgainstModel(t *testing.T) {
	runs, steps := 12, 150
	if raceEnabled {
		runs, steps = 3, 60
	}
	for run := range runs {
		seed := uint64(time.Now().UnixNano()) + uint64(run)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { againstModel(t, rand.New(rand.NewPCG(seed, 1)), steps) })
	}
}

func againstModel(t *testing.T, r *rand.Rand, steps int) {
	m := &model{now: at, cfg: Config{
		MaxEvents: 1 + r.Int64N(40), MaxAge: time.Duration(1+r.Int64N(3000)) * time.Millisecond,
		MaxBytes: 500 + r.Int64N(20_000),
	}}
	var told, want []Stored
	change := func(c *Config) {
		now := m.now
		c.MaxEvents, c.MaxAge, c.MaxBytes = m.cfg.MaxEvents, m.cfg.MaxAge, m.cfg.MaxBytes
		c.GroupCount = 1 + r.IntN(5)
		c.Now = func() time.Time { return now } // it moves with restarts only, so that all is known
		c.Committed = func(batch []Stored) { told = append(told, batch...) }
	}
	l := fresh(t, change)
	path := l.cfg.Path
	for range steps {
		switch k := r.IntN(10); {
		case k < 6:
			events := make([]Event, 1+r.IntN(8))
			for i := range events {
				events[i] = Event{
					Tenant: []string{"", "t"}[r.IntN(2)], Source: []string{"a", "b"}[r.IntN(2)], ID: fmt.Sprint(r.IntN(60)),
					Type: "a.b", Text: make([]byte, 1+r.IntN(400)), Digest: [32]byte{byte(r.IntN(2))}, Mode: uint8(r.IntN(3)),
				}
			}
			want = appendBoth(t, l, m, events, want)
		case k < 9:
			after, n, size := m.last-r.Int64N(50)+r.Int64N(5), r.IntN(20), r.Int64N(3000)
			got, err := l.Page(after, n, size, nil)
			page, wantErr := m.page(after, n, size)
			if !errors.Is(err, wantErr) || len(got) != len(page) || len(got) > 0 && !reflect.DeepEqual(got, page) {
				t.Fatalf("Page(%d, %d, %d): %d events, %v; want %d, %v", after, n, size, len(got), err, len(page), wantErr)
			}
		default:
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			m.now = m.now.Add(time.Duration(r.Int64N(2000)-300) * time.Millisecond)
			m.retain()
			l = reopen(t, path, change)
		}
		eventually(t, "state", func() bool { return l.State() == m.state() || t.Failed() })
	}
	if err := l.Close(); err != nil { // orders the read of told
		t.Fatal(err)
	}
	if !slices.EqualFunc(told, want, func(a, b Stored) bool { return reflect.DeepEqual(a, b) }) {
		t.Fatalf("told of %d events, want %d", len(told), len(want))
	}
}

// appendBoth appends to both and compares the answers. An event that names one
// which retention may or may not have taken within the same group would have two
// right answers, so names repeat only in groups that evict nothing.
func appendBoth(t *testing.T, l *Log, m *model, events []Event, told []Stored) []Stored {
	t.Helper()
	if r := int64(len(events)); m.state().Events+r > m.cfg.MaxEvents || m.bytes()+r*1000 > m.cfg.MaxBytes {
		events = events[:1]
	}
	var waiting []chan reply
	for _, e := range events {
		waiting = append(waiting, begun(l, e))
	}
	for i, c := range waiting {
		got := <-c
		before := m.last
		want, err := m.append(events[i])
		if got.Result != want || !errors.Is(got.err, err) {
			t.Fatalf("append %+v: %+v, want %+v, %v", events[i], got, want, err)
		}
		if m.last != before {
			told = append(told, Stored{Seq: want.Seq, StoredAt: m.now, Event: events[i]})
		}
	}
	return told
}
