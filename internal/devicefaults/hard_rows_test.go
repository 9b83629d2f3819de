package devicefaults

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testdevice"
)

// TestHardCase01BothEditOffline: two devices edit one row offline: the greater
// HLC wins on both, with its whole row.
func TestHardCase01BothEditOffline(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		b := newBed(t)
		da, db := b.device("a", device.Options{}), b.device("b", device.Options{})
		b.write(da, "row")
		b.settle()
		early, late := da, db
		if first == "b" {
			early, late = db, da
		}
		b.later(time.Second)
		b.ledger.Wrote(early, devicestore.Edit{Key: key("row"), Data: []byte(`{"early":true,"only here":1}`)})
		b.later(time.Second)
		b.ledger.Wrote(late, devicestore.Edit{Key: key("row"), Data: []byte(`{"late":true}`)})
		for range 3 { // the winner is pushed last, or first
			b.sync(late, early, late)
		}
		for _, d := range b.fleet {
			if row, err := d.Get(key("row")); err != nil || string(row.Data) != `{"late":true}` {
				t.Errorf("%s has %s, %v", d.Name, testdevice.Text(row), err)
			}
		}
		b.same("both", da, db)
	}
}

// TestHardCase02DeleteBeforeOlderEdit: a delete stays, against an older edit
// that arrives later.
func TestHardCase02DeleteBeforeOlderEdit(t *testing.T) {
	b := newBed(t)
	da, db, dc := b.device("a", device.Options{}), b.device("b", device.Options{}), b.device("c", device.Options{})
	b.write(da, "row")
	b.settle()
	b.later(time.Second)
	b.write(db, "row") // and stays offline
	b.later(time.Second)
	b.remove(da, "row")
	b.sync(da, dc)
	if row, err := dc.Get(key("row")); err == nil && !row.Deleted {
		t.Fatalf("c has %s", testdevice.Text(row))
	}
	b.sync(db, dc, da)
	b.same("after the older edit", da, db, dc)
	for _, d := range b.fleet {
		if rows, err := d.List("notes", devicestore.Key{}, 10); err != nil || len(rows) != 0 {
			t.Errorf("%s lists %d rows, %v", d.Name, len(rows), err)
		}
	}
}

// TestHardCase03ClockAhead: D20: a device whose clock is an hour ahead: its
// events are deferred elsewhere and applied when due, and nobody else's clock
// moves.
func TestHardCase03ClockAhead(t *testing.T) {
	b := newBed(t)
	ahead, other := b.device("ahead", device.Options{}), b.device("other", device.Options{})
	b.write(other, "row")
	b.settle()
	ahead.Skew = time.Hour
	b.later(time.Second)
	mine := b.write(ahead, "row", "new")
	b.sync(ahead, other)
	if held := other.Held(); held[key("row")].HLC == mine[0].HLC || held[key("new")].HLC != "" {
		t.Errorf("an event from the future is applied: %v", held)
	}
	if st := other.State(); st.Deferred != 2 || st.NextDue.Before(b.now.Add(50*time.Minute)) {
		t.Errorf("status: %d deferred, due %v", st.Deferred, st.NextDue)
	}
	b.later(time.Second)
	if row := b.write(other, "row")[0]; row.HLC > mine[0].HLC || row.HLC[:13] > millis(b.now) {
		t.Errorf("the other's clock moved to %s, it is %s", row.HLC, millis(b.now))
	}
	other.Reopen(device.Options{}) // what is deferred is kept
	b.later(2 * time.Hour)
	b.sync(other)
	b.same("when due", other)
	if st := other.State(); st.Deferred != 0 {
		t.Errorf("%d are still deferred", st.Deferred)
	}
	b.settle()
}

// millis is a time as an HLC begins (D12).
func millis(t time.Time) string {
	const digits = 13
	text := strings.Repeat("0", digits) + itoa(t.UnixMilli())
	return text[len(text)-digits:]
}

// TestHardCase05Scrambled: D11: one bit of a ciphertext, of a header member,
// and two swapped bodies: those events are refused, counted and named, and all
// others of the same page are applied.
func TestHardCase05Scrambled(t *testing.T) {
	seed := newSeed(t)
	for _, name := range []string{"flipped ciphertext", "flipped nonce", "flipped createdAt", "flipped deviceId", "flipped streamId", "flipped eventId", "swapped bodies"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			writer := b.device("writer", device.Options{})
			for _, id := range []string{"0", "1", "2", "3", "4", "5"} {
				b.write(writer, id)
			}
			b.sync(writer)
			i := slices.IndexFunc(pageLies, func(l lie) bool { return l.name == name })
			scramble := pageLies[i]
			l := liarFor(t, seed, lie{name: name, page: func(l *liar, p *page, after string) {
				if len(p.Events) == 6 {
					some := page{Events: p.Events[1:3]} // of six events the second and third
					scramble.page(l, &some, after)
					copy(p.Events[1:3], some.Events)
				}
			}})
			b.lie(l.answer)
			reader := b.device("reader", device.Options{})
			must(t, reader.Cycle())
			b.ledger.True(reader)
			bad := int64(6 - len(reader.Held()))
			if bad < 1 || bad > 2 || refused(reader, "bad_tag") != bad {
				t.Errorf("%d rows are missing, %d events were refused: %+v", bad, refused(reader, "bad_tag"), reader.State().Relays)
			}
			for _, id := range []string{"0", "3", "4", "5"} {
				if _, err := reader.Get(key(id)); err != nil {
					t.Errorf("row %s of the same page: %v", id, err)
				}
			}
			for _, r := range reader.State().Relays[0].Refusals {
				if r.LastEvent == "" || r.LastAt.IsZero() {
					t.Errorf("H4: %+v names no event", r)
				}
			}
			b.lie(l.late)
			b.write(writer, "one more")
			b.settle()
		})
	}
}

// TestHardCase06OrderAndRepeats: events in reverse, twice, withheld and given
// later: the same final state.
func TestHardCase06OrderAndRepeats(t *testing.T) {
	seed := newSeed(t)
	var orders []lie
	for _, l := range pageLies {
		if slices.Contains([]string{"reversed", "twice", "withheld", "all withheld", "an old page"}, l.name) {
			orders = append(orders, l)
		}
	}
	if len(orders) != 5 {
		t.Fatalf("%d lies", len(orders))
	}
	for _, page := range []int{1, 3, 100} {
		b := newBed(t)
		writer := b.device("writer", device.Options{})
		b.fill(writer, 12)
		for i := range 12 {
			b.write(writer, "row "+itoa(int64(i%3)))
		}
		b.remove(writer, "row 1")
		b.sync(writer)
		l := liarFor(t, seed, orders...)
		b.lie(l.answer)
		reader := b.device("reader", device.Options{PullEvents: page})
		for range 4 {
			_ = reader.Cycle() // a page that leads nowhere is an error
			b.ledger.True(reader)
		}
		b.lie(l.late)
		b.write(writer, "one more")
		b.settle()
		for _, reason := range []string{"bad_tag", "bad_envelope", "bad_payload", "other_owner"} {
			if n := refused(reader, reason); n != 0 {
				t.Errorf("H4: %d honest events are refused as %s", n, reason)
			}
		}
	}
}

// TestHardCase11NewerSchema: a payload of schema version 2 at a device of
// version 1 is kept and deferred, and applied after the upgrade; a version 1
// write to the same row meanwhile wins only if it is later.
func TestHardCase11NewerSchema(t *testing.T) {
	b := newBed(t)
	newer, older := b.device("newer", device.Options{SchemaVersion: 2}), b.device("older", device.Options{})
	b.write(newer, "a", "b", "c")
	b.later(time.Second)
	b.remove(newer, "c")
	b.sync(newer, older)
	if held := older.Held(); len(held) != 0 {
		t.Errorf("version 1 has %v", held)
	}
	if st := older.State(); st.Deferred != 4 {
		t.Errorf("%d deferred, want 4", st.Deferred)
	}
	b.later(time.Second)
	b.write(older, "b")
	older.Reopen(device.Options{})
	b.sync(older)
	if held := older.Held(); len(held) != 1 {
		t.Errorf("version 1, opened again, has %v", held)
	}
	older.Reopen(device.Options{SchemaVersion: 2})
	b.sync(older, newer)
	b.same("after the upgrade", older, newer)
	if st := older.State(); st.Deferred != 0 {
		t.Errorf("%d are still deferred", st.Deferred)
	}
}

// TestHardCase13BadPhrase: D5: a wrong checksum, 13 words, a word of no list: a
// clear error that names the place and not the words, and nothing is created.
func TestHardCase13BadPhrase(t *testing.T) {
	phrase, _ := newOwner(t)
	words := strings.Fields(phrase)
	swapped := slices.Clone(words)
	for { // until the checksum is wrong; one in sixteen is right
		swapped[0], swapped[1] = swapped[1], swapped[0]
		if swapped[2], swapped[3] = swapped[3], swapped[2]; !valid(strings.Join(swapped, " ")) {
			break
		}
		swapped = append(swapped[1:], swapped[0])
	}
	noWord := slices.Clone(words)
	noWord[4] = "sluicegate"
	for name, c := range map[string]struct{ phrase, says string }{
		"checksum": {strings.Join(swapped, " "), "checksum"},
		"13 words": {phrase + " abandon", "13"},
		"no word":  {strings.Join(noWord, " "), "5"},
		"empty":    {"", ""},
		"half key": {"sf1_AAAA", ""},
	} {
		dir := filepath.Join(t.TempDir(), "device")
		_, err := device.Create(dir, c.phrase, "d", device.Options{})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		words := strings.Fields(c.phrase)
		for i := range words {
			if i > 0 && strings.Contains(err.Error(), words[i-1]+" "+words[i]) || strings.Contains(err.Error(), "sluicegate") {
				t.Errorf("D5: %s: the error has words of the phrase: %v", name, err)
			}
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was created: %v", name, err)
		}
	}
}

// TestHardCase14OwnerClosed: D34: a closed owner is terminal, says to re-key,
// and nothing is lost on the device; without another call it is not asked
// again.
func TestHardCase14OwnerClosed(t *testing.T) {
	b := newBed(t)
	da, db := b.device("a", device.Options{}), b.device("b", device.Options{})
	b.write(da, "row")
	b.settle()
	req := `{"ownerId":"` + b.owner.OwnerID + `"}`
	if a := b.ask("POST", "/v1/owner/close", req); a.status != http.StatusOK {
		t.Fatalf("close: %d %s", a.status, a.body)
	}
	b.write(db, "too late")
	for _, d := range b.fleet {
		err := d.Cycle()
		if !errors.Is(err, device.ErrOwnerClosed) || !strings.Contains(device.ErrOwnerClosed.Error(), "re-key") {
			t.Errorf("%s: %v", d.Name, err)
		}
		if state := string(d.State().Relays[0].State); state != "closed" {
			t.Errorf("%s: state %q", d.Name, state)
		}
		b.ledger.True(d)
	}
	if _, err := db.Get(key("too late")); err != nil {
		t.Errorf("a write to a closed owner is gone: %v", err)
	}
}

// ask sends the relay a request as the owner.
func (b *bed) ask(method, path, body string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url()+path, nil)
	must(b.t, err)
	req.Header.Set("Authorization", "Bearer "+b.owner.RelayAuth)
	return b.front.pass(req, []byte(body))
}

// createdAt is what the relay calls the beginning of the account.
func (b *bed) createdAt() string {
	b.t.Helper()
	var st struct{ Account struct{ CreatedAt string } }
	a := b.ask("GET", "/v1/status?ownerId="+b.owner.OwnerID, "")
	must(b.t, json.Unmarshal(a.body, &st))
	return st.Account.CreatedAt
}
