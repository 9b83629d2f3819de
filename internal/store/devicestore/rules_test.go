package devicestore

import (
	"maps"
	"slices"
)

// model is the store as one would write it without a database: it knows the
// rules and no tables.
type model struct {
	rows     map[string]modelRow
	outbox   map[string]modelRow // by id
	relays   map[int64]*modelRelay
	seen     map[string]bool
	deferred map[string]modelRow
	clock    string
}

type modelRow struct {
	id, hlc, data string // data "" is a tombstone
	schema        int    // of one deferred, 0 for one of the future
}

type modelRelay struct {
	cursor     string
	generation int64
	acks       int64
	owed       map[string]*modelOwed
	later      map[string]bool // deferred ids that it is owed once they are rows
	withheld   int64
	streams    map[string]bool
}

type modelOwed struct {
	ack   int64
	tries int
}

func (m *model) write(id, hlc, data string) {
	m.replace(modelRow{id: id, hlc: hlc, data: data}, true, 0)
	m.clock = hlc
	for _, r := range m.relays {
		r.owed[hlc] = &modelOwed{}
		m.outbox[hlc] = modelRow{id: id, hlc: hlc, data: data}
	}
}

// replace puts a row in the place of another, and sees to what is owed of that.
func (m *model) replace(row modelRow, local bool, from int64) {
	old, was := m.rows[row.id]
	m.rows[row.id] = row
	for id, r := range m.relays {
		if !was {
			delete(r.streams, "s"+row.id)
			continue
		}
		_, written := m.outbox[old.hlc]
		if r.owed[old.hlc] == nil || written {
			continue
		}
		delete(r.owed, old.hlc)
		if !local && id != from {
			r.owed[row.hlc] = &modelOwed{}
		}
	}
}

func (m *model) apply(row modelRow, from int64) (applied bool) {
	if applied = row.hlc > m.rows[row.id].hlc; applied {
		m.replace(row, false, from)
	}
	return applied
}

// ripen applies a row that was deferred.
func (m *model) ripen(row modelRow) {
	applied := m.apply(row, 0)
	for _, r := range m.relays {
		if r.later[row.hlc] && applied {
			r.owed[row.hlc] = &modelOwed{}
		}
		delete(r.later, row.hlc)
	}
}

func (m *model) settle(r *modelRelay, hlc string) {
	delete(r.owed, hlc)
	for _, other := range m.relays {
		if other.owed[hlc] != nil {
			return
		}
	}
	delete(m.outbox, hlc)
}

func (m *model) seed(r *modelRelay) {
	for hlc := range m.deferred {
		r.later[hlc] = true
	}
	for _, row := range m.rows {
		if r.owed[row.hlc] == nil {
			r.owed[row.hlc] = &modelOwed{}
		}
	}
}

func (m *model) forget(r *modelRelay) {
	for hlc := range r.owed {
		if _, written := m.outbox[hlc]; !written {
			delete(r.owed, hlc)
		} else {
			r.owed[hlc] = &modelOwed{}
		}
	}
	r.generation++
	r.cursor = ""
	m.seed(r)
}

func (m *model) drop(r *modelRelay) {
	for _, hlc := range slices.Collect(maps.Keys(r.owed)) {
		m.settle(r, hlc)
	}
}
