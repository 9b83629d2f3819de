package aepws

import (
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"
	"testing"
	"testing/iotest"
	"time"

	"github.com/oklog/ulid/v2"
)

var eventID = regexp.MustCompile(`^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// TestIDs is section 5 and B32: the form, the time inside, and rising order
// within a millisecond.
func TestIDs(t *testing.T) {
	g := NewIDs()
	last := ""
	for range 10_000 {
		id := string(g.AppendEvent(nil, testNow))
		if !eventID.MatchString(id) || id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
	u, err := ulid.ParseStrict(last[len("evt_"):])
	if err != nil || !ulid.Time(u.Time()).Equal(testNow) {
		t.Errorf("%s: %v, %v", last, u.Time(), err)
	}
	if id := string(g.AppendSession([]byte("x"), testNow)); !regexp.MustCompile(`^xsess_[0-9A-Z]{26}$`).MatchString(id) {
		t.Error(id)
	}
}

// TestIDsOfTwoLoops: generators share nothing, and the same millisecond gives
// other ids.
func TestIDsOfTwoLoops(t *testing.T) {
	seen := map[string]bool{}
	for range 8 {
		g := NewIDs()
		for range 1000 {
			id := string(g.AppendEvent(nil, testNow))
			if seen[id] {
				t.Fatalf("%s twice", id)
			}
			seen[id] = true
		}
	}
}

// TestIDsNeverFail: neither times that no ULID holds, nor the end of the 80
// bits, nor a broken source, nor a clock that goes back stops the ids.
func TestIDsNeverFail(t *testing.T) {
	ones := bytes.Repeat([]byte{0xFF}, 1<<16)
	for name, source := range map[string]io.Reader{
		"overflow": bytes.NewReader(ones), "broken": iotest.ErrReader(errors.New("no entropy")), "short": bytes.NewReader(ones[:10]),
	} {
		g := newIDs(source)
		seen := map[string]bool{}
		for range 100 {
			id := string(g.AppendEvent(nil, testNow))
			if !eventID.MatchString(id) || seen[id] {
				t.Fatalf("%s: %s", name, id)
			}
			seen[id] = true
		}
	}
	g := NewIDs()
	for _, now := range []time.Time{{}, time.Unix(-1, 0), time.Unix(0, 0), time.UnixMilli(math.MaxInt64), testNow, testNow.Add(-time.Hour), testNow} {
		if id := string(g.AppendEvent(nil, now)); !eventID.MatchString(id) {
			t.Errorf("%v: %s", now, id)
		}
	}
}
