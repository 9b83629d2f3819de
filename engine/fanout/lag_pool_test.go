package fanout

import "testing"

// A queue that is given back keeps no map that has grown.
func TestFreeLag(t *testing.T) {
	s := &Set{}
	m := &Member{set: s}
	m.lag = s.newLag()
	m.lag.dropped = make(map[groupKeyPos]shedAt)
	for i := range maxPositions {
		m.lag.dropped[groupKeyPos{string(rune(i)), 0}] = shedAt{}
	}
	clear(m.lag.dropped) // as later records do
	m.dropLag()
	if len(s.lags) != 1 {
		t.Fatalf("%d queues are kept", len(s.lags))
	}
	if l := s.newLag(); l.dropped != nil {
		t.Error("the map is kept")
	}
}
