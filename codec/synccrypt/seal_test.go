package synccrypt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// TestSealOpen is D10, D12 and D13 for rows of all kinds.
func TestSealOpen(t *testing.T) {
	id := identity(t, goodPhrase)
	for _, p := range []Payload{
		{SchemaVersion: 1, Table: "todo", ID: "1", HLC: someHLC, Row: []byte(`{}`)},
		{SchemaVersion: 1, Table: "a.B-c_9", ID: "\"\\é😀\u2028 ", HLC: someHLC, Row: []byte(`{"a":[1,{"b":"\n"}],"z":1.0}`)},
		{SchemaVersion: 1, Table: strings.Repeat("t", 64), ID: strings.Repeat("\"", 256), HLC: "0000000000000-0000-" + strings.Repeat("z", 64), Deleted: true},
	} {
		envelope, err := id.Seal([]byte("x"), &p, "device-b", time.UnixMilli(1), nil)
		if err != nil || envelope[0] != 'x' || !json.Valid(envelope[1:]) {
			t.Fatalf("%s, %v", envelope, err)
		}
		got, h, plain, err := id.OpenPayload(envelope[1:])
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", p) {
			t.Errorf("%+v, %v, want %+v", got, err, p)
		}
		want := Header{id.OwnerID, p.HLC, "device-b", "1970-01-01T00:00:00.001Z", id.StreamID(p.Table, p.ID)}
		if h != want {
			t.Errorf("%+v, want %+v", h, want)
		}
		if text, err := p.Append(nil); err != nil || string(text) != string(plain) {
			t.Errorf("%s, %v, want %s", plain, err, text)
		}
		again, err := id.Seal(nil, &p, "device-b", time.UnixMilli(1), nil)
		if err != nil || string(again) == string(envelope[1:]) {
			t.Errorf("the same nonce twice, %v", err)
		}
	}
}

// TestSealRefuses: nothing is appended (K4).
func TestSealRefuses(t *testing.T) {
	id := identity(t, goodPhrase)
	good := Payload{SchemaVersion: 1, Table: "todo", ID: "1", HLC: someHLC, Row: []byte(`{}`)}
	big := good
	big.Row = []byte(`{"a":"` + strings.Repeat("x", MaxEnvelopeBytes) + `"}`)
	bad := good
	bad.Row = []byte(`[]`)
	for _, c := range []struct {
		name    string
		p       *Payload
		device  string
		created time.Time
		random  io.Reader
		want    error
	}{
		{"no device", &good, "", someTime, zeros{}, ErrHeader},
		{"an upper case device", &good, "Device", someTime, zeros{}, ErrHeader},
		{"the year 10000", &good, "a", time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), zeros{}, ErrHeader},
		{"before year 0", &good, "a", time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), zeros{}, ErrHeader},
		{"a bad row", &bad, "a", someTime, zeros{}, ErrPayload},
		{"too large", &big, "a", someTime, zeros{}, ErrTooLarge},
		{"no random bytes", &good, "a", someTime, iotest.ErrReader(io.ErrClosedPipe), io.ErrClosedPipe},
		{"few random bytes", &good, "a", someTime, strings.NewReader("01234567890"), io.ErrUnexpectedEOF},
	} {
		got, err := id.Seal([]byte("x"), c.p, c.device, c.created, c.random)
		if !errors.Is(err, c.want) || string(got) != "x" {
			t.Errorf("%s: %.100s, %v", c.name, got, err)
		}
	}
}

// TestMaxRowBytes: the largest row fits whatever is around it, and the bound is
// tight.
func TestMaxRowBytes(t *testing.T) {
	id := identity(t, goodPhrase)
	worst := Payload{
		SchemaVersion: 1, Table: strings.Repeat("t", maxTableBytes), ID: strings.Repeat("\"", maxRowIDBytes),
		HLC: "0000000000000-0000-" + strings.Repeat("z", maxDeviceBytes),
	}
	seal := func(size int) (int, error) {
		worst.Row = []byte(`{"a":"` + strings.Repeat("x", size-len(`{"a":""}`)) + `"}`)
		envelope, err := id.Seal(nil, &worst, strings.Repeat("d", maxDeviceBytes), someTime, zeros{})
		if err == nil {
			if p, _, _, err := id.OpenPayload(envelope); err != nil || len(p.Row) != size {
				t.Errorf("%d bytes of %d came back, %v", len(p.Row), size, err)
			}
		}
		return len(envelope), err
	}
	if n, err := seal(MaxRowBytes); err != nil || n > MaxEnvelopeBytes || n < MaxEnvelopeBytes-3 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := seal(MaxRowBytes + 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// TestOpenForms: an envelope may be spelled in any way that says the same
// (S19).
func TestOpenForms(t *testing.T) {
	id := identity(t, goodPhrase)
	e := sealed(t, id, "1")
	_, to := memberText(t, e, "nonce")
	for name, text := range map[string]string{
		"unknown members":  strings.Replace(e, `{`, `{"a":{"b":[1,"\u0041"]},"é":null,"":true,`, 1),
		"a spelled name":   strings.Replace(e, `"nonce"`, `"\u006eonc\u0065"`, 1),
		"a spelled header": strings.Replace(e, `"device-a"`, `"d\u0065vice\u002Da"`, 1),
		"a spelled nonce":  e[:to-1] + fmt.Sprintf(`\u%04x`, e[to-1]) + e[to:],
		"version 1.0":      strings.Replace(e, `"version":1`, `"version":1.0`, 1),
		"version 10e-1":    strings.Replace(e, `"version":1`, `"version":10e-1`, 1),
		"white space":      " \n" + strings.ReplaceAll(strings.ReplaceAll(e, `":`, `" : `), `,"`, "\t,\r\n\"") + " ",
	} {
		if text == e {
			t.Fatalf("%s: nothing has changed", name)
		}
		p, h, _, err := id.OpenPayload([]byte(text))
		if err != nil || p.ID != "1" || h.DeviceID != "device-a" || h.EventID != someHLC {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	bare := sealPlain(t, id, "x", "é\n\"", "")
	withNull := strings.Replace(string(bare), `"nonce"`, `"streamId":null,"nonce"`, 1)
	for _, text := range []string{string(bare), withNull} {
		if plain, h, err := id.Open(nil, []byte(text)); err != nil || string(plain) != "x" || h.StreamID != "" || h.EventID != "é\n\"" {
			t.Errorf("without a stream: %+v, %v", h, err)
		}
	}
}

// TestOpenRefuses is D10 and D11: what is no envelope, and whose it is.
func TestOpenRefuses(t *testing.T) {
	id := identity(t, goodPhrase)
	e := sealed(t, id, "1")
	cipherFrom, cipherTo := memberText(t, e, "ciphertext")
	nonceFrom, nonceTo := memberText(t, e, "nonce")
	withCipher := func(s string) string { return e[:cipherFrom] + s + e[cipherTo:] }
	withNonce := func(s string) string { return e[:nonceFrom] + s + e[nonceTo:] }
	cipher, nonce := e[cipherFrom:cipherTo], e[nonceFrom:nonceTo]
	without := func(name string) string { return strings.Replace(e, `"`+name+`":`, `"x":`, 1) }
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"empty", "", ErrEnvelope},
		{"no object", "[" + e + "]", ErrEnvelope},
		{"an empty object", "{}", ErrEnvelope},
		{"trailing data", e + "{}", ErrEnvelope},
		{"cut off", e[:len(e)-1], ErrEnvelope},
		{"no version", without("version"), ErrEnvelope},
		{"version 2", strings.Replace(e, `"version":1`, `"version":2`, 1), ErrEnvelope},
		{"version as text", strings.Replace(e, `"version":1`, `"version":"1"`, 1), ErrEnvelope},
		{"version 1.5", strings.Replace(e, `"version":1`, `"version":1.5`, 1), ErrEnvelope},
		{"version -1", strings.Replace(e, `"version":1`, `"version":-1`, 1), ErrEnvelope},
		{"no owner", without("ownerId"), ErrEnvelope},
		{"no event id", without("eventId"), ErrEnvelope},
		{"no device id", without("deviceId"), ErrEnvelope},
		{"no time", without("createdAt"), ErrEnvelope},
		{"no nonce", without("nonce"), ErrEnvelope},
		{"no ciphertext", without("ciphertext"), ErrEnvelope},
		{"names fold no case", strings.Replace(e, `"eventId"`, `"EventId"`, 1), ErrEnvelope},
		{"a member twice", strings.Replace(e, `{`, `{"nonce":"`+nonce+`",`, 1), ErrEnvelope},
		{"a member twice, escaped", strings.Replace(e, `{`, `{"\u006eonce":"`+nonce+`",`, 1), ErrEnvelope},
		{"an unknown member twice", strings.Replace(e, `{`, `{"x":1,"x":1,`, 1), ErrEnvelope},
		{"many members", `{` + manyMembers(maxNames) + e[1:], ErrEnvelope},
		{"a number as event id", strings.Replace(e, `"`+someHLC+`"`, `5`, 1), ErrEnvelope},
		{"an empty device id", strings.Replace(e, `"device-a"`, `""`, 1), ErrEnvelope},
		{"an empty stream id", strings.Replace(e, `"streamId":"`, `"streamId":"","x":"`, 1), ErrEnvelope},
		{"a wrong literal as stream id", strings.Replace(e, `"streamId":"`, `"streamId":nul,"x":"`, 1), ErrEnvelope},
		{"an unknown member of no JSON", strings.Replace(e, `{`, `{"x":tru,`, 1), ErrEnvelope},
		{"a padded nonce", withNonce(nonce + "="), ErrEnvelope},
		{"a short nonce", withNonce(nonce[4:]), ErrEnvelope},
		{"a long nonce", withNonce(nonce + "AAAA"), ErrEnvelope},
		{"a nonce of the standard alphabet", withNonce("+" + nonce[1:]), ErrEnvelope},
		{"a nonce as number", strings.Replace(e, `"nonce":"`, `"nonce":1,"x":"`, 1), ErrEnvelope},
		{"an empty ciphertext", withCipher(""), ErrEnvelope},
		{"a ciphertext shorter than a tag", withCipher(strings.Repeat("A", 20)), ErrEnvelope},
		{"a padded ciphertext", withCipher(cipher + "="), ErrEnvelope},
		{"a ciphertext with a line break", withCipher(cipher[:8] + "\n" + cipher[8:]), ErrEnvelope},
		{"a ciphertext with an escaped break", withCipher(cipher[:8] + `\n` + cipher[8:]), ErrEnvelope},
		{"a ciphertext with bits that say nothing", withCipher(strings.Repeat("A", 29) + "B"), ErrEnvelope},
		{"a cut ciphertext", withCipher(cipher[:len(cipher)-4]), ErrTag},
		{"a ciphertext of a tag alone", withCipher(strings.Repeat("A", 22)), ErrTag},
		{"without its stream id", without("streamId"), ErrTag},
		{"another owner's", sealed(t, identity(t, goodNative), "1"), ErrOtherOwner},
		{"another owner's, broken", strings.Replace(sealed(t, identity(t, goodNative), "1"), `"ciphertext":"`, `"ciphertext":"*`, 1), ErrOtherOwner},
		{"relabelled", strings.Replace(sealed(t, identity(t, goodNative), "1"), identity(t, goodNative).OwnerID, id.OwnerID, 1), ErrTag},
	} {
		plain, h, err := id.Open([]byte("x"), []byte(c.text))
		if !errors.Is(err, c.want) || string(plain) != "x" || h != (Header{}) {
			t.Errorf("%s: %q, %+v, %v", c.name, plain, h, err)
		}
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":0,`, i)
	}
	return b.String()
}

// TestEveryBit is hard case 5: each bit of an envelope's members matters.
func TestEveryBit(t *testing.T) {
	id := identity(t, goodPhrase)
	e := sealed(t, id, "1")
	if _, _, _, err := id.OpenPayload([]byte(e)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ownerId", "eventId", "deviceId", "createdAt", "streamId", "nonce", "ciphertext"} {
		from, to := memberText(t, e, name)
		for at := from; at < to; at++ {
			for bit := range 8 {
				changed := []byte(e)
				changed[at] ^= 1 << bit
				_, _, err := id.Open(nil, changed)
				if !errors.Is(err, ErrTag) && !errors.Is(err, ErrEnvelope) && (name != "ownerId" || !errors.Is(err, ErrOtherOwner)) {
					t.Fatalf("%s, byte %d, bit %d: %v", name, at-from, bit, err)
				}
			}
		}
	}
}

// TestSwappedBodies is hard case 5: a body opens under its own header alone.
func TestSwappedBodies(t *testing.T) {
	id := identity(t, goodPhrase)
	a, b := sealed(t, id, "1"), sealed(t, id, "2")
	cut := func(e string) (head, body string) {
		at := strings.Index(e, `"nonce"`)
		return e[:at], e[at:]
	}
	headA, bodyA := cut(a)
	headB, bodyB := cut(b)
	for _, text := range []string{headA + bodyB, headB + bodyA} {
		if _, _, err := id.Open(nil, []byte(text)); !errors.Is(err, ErrTag) {
			t.Errorf("%v", err)
		}
	}
}

// TestOpenPayloadHoldsTogether is D12, D13 and D32: what is authentic and still
// is not what its header says.
func TestOpenPayloadHoldsTogether(t *testing.T) {
	id := identity(t, goodPhrase)
	const upsert = `{"hlc":"` + someHLC + `","id":"1","op":"upsert","row":{},"schemaVersion":1,"table":"todo"}`
	newer := strings.Replace(upsert, `"schemaVersion":1`, `"schemaVersion":2`, 1)
	stream := id.StreamID("todo", "1")
	for _, c := range []struct {
		name, plain, event, stream string
		want                       error
	}{
		{"right", upsert, someHLC, stream, nil},
		{"no stream", upsert, someHLC, "", nil},
		{"another clock", upsert, "1720519200000-0002-device-a", stream, ErrPayload},
		{"another row's stream", upsert, someHLC, id.StreamID("todo", "2"), ErrPayload},
		{"no payload", "{}", someHLC, stream, ErrPayload},
		{"no JSON", "x", someHLC, stream, ErrPayload},
		{"a later version", newer, someHLC, stream, ErrUnknown},
		{"a later version of another clock", newer, "1720519200000-0002-device-a", stream, ErrPayload},
		{"a later version of another stream", newer, someHLC, id.StreamID("todo", "2"), ErrPayload},
		{"a later version without names", `{"schemaVersion":9}`, "x", "y", ErrUnknown},
	} {
		p, h, plain, err := id.OpenPayload(sealPlain(t, id, c.plain, c.event, c.stream))
		if !errors.Is(err, c.want) || h.EventID != c.event || string(plain) != c.plain {
			t.Errorf("%s: %+v, %v", c.name, h, err)
		}
		if errors.Is(c.want, ErrPayload) != (p.SchemaVersion == 0) {
			t.Errorf("%s: payload %+v", c.name, p)
		}
	}
}

// TestIdentityIsShared: many goroutines use one identity (run with -race).
func TestIdentityIsShared(t *testing.T) {
	id := identity(t, goodPhrase)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				row := fmt.Sprint(g, "-", i)
				p := Payload{SchemaVersion: 1, Table: "todo", ID: row, HLC: someHLC, Row: []byte(`{"b":1,"a":"` + row + `"}`)}
				e, err := id.Seal(nil, &p, "a", someTime, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if got, _, _, err := id.OpenPayload(e); err != nil || got.ID != row || string(got.Row) != `{"a":"`+row+`","b":1}` {
					t.Errorf("%s: %+v, %v", row, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestAllocations: sealing into room that is there costs nothing; opening costs
// the header's strings.
func TestAllocations(t *testing.T) {
	id := identity(t, goodPhrase)
	p := Payload{SchemaVersion: 1, Table: "todo", ID: "1", HLC: someHLC, Row: []byte(`{"b":[1,2,3],"a":"text"}`)}
	dst := make([]byte, 0, 4096)
	e := sealPayload(t, id, &p)
	for _, c := range []struct {
		name string
		most float64
		run  func() error
	}{
		{"seal", 0, func() error { _, err := id.Seal(dst, &p, "a", someTime, zeros{}); return err }},
		{"open", 1, func() error { _, _, err := id.Open(dst, e); return err }},
		{"canonical", 0, func() error { _, err := Canonical(dst, p.Row); return err }},
	} {
		n := testing.AllocsPerRun(200, func() {
			if err := c.run(); err != nil {
				t.Fatal(err)
			}
		})
		if n > c.most && !raceEnabled {
			t.Errorf("%s: %v allocations, at most %v", c.name, n, c.most)
		}
	}
}
