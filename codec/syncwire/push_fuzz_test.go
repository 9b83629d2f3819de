package syncwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"unicode/utf8"
)

// model decodes a push with encoding/json: what is stored, and the codes that
// may be answered. It knows nothing of pieces and order.
type model struct {
	owner  string
	stored []string
	faults []Code
}

func (m *model) fault(c Code) { m.faults = append(m.faults, c) }

func modelOf(t *testing.T, text []byte, limits Limits) (m model) {
	t.Helper()
	if !utf8.Valid(text) || !json.Valid(text) || depthOf(text) > maxDepth {
		m.fault(BadRequest)
		// What comes before the fault may be answered instead.
		m.faults = append(m.faults, BadEnvelope, TooManyEvents, EventTooLarge)
		return m
	}
	if bytes.TrimLeft(text, " \t\r\n")[0] != '{' {
		m.fault(BadRequest)
		return m
	}
	var list []byte
	owners, lists := 0, 0
	for _, member := range stdMembers(t, text) {
		switch member.name {
		case "ownerId":
			owners++
			if json.Unmarshal(member.raw, &m.owner) != nil || !ValidOwnerID(m.owner) {
				m.fault(BadRequest)
			}
		case "events":
			lists++
			list = member.raw
		}
	}
	if owners != 1 || lists != 1 || list[0] != '[' {
		m.fault(BadRequest)
	}
	if lists == 0 || list[0] != '[' {
		return m
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(list, &elements); err != nil {
		t.Fatal(err)
	}
	if len(elements) > limits.MaxEvents {
		m.fault(TooManyEvents)
	}
	for _, e := range elements {
		m.envelope(t, e, limits)
	}
	if lists > 1 {
		m.faults = append(m.faults, BadEnvelope, TooManyEvents, EventTooLarge)
	}
	return m
}

func (m *model) envelope(t *testing.T, raw []byte, limits Limits) {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		t.Fatal(err)
	}
	if compact.Len() > limits.MaxEventBytes {
		m.fault(EventTooLarge)
	}
	if raw[0] != '{' {
		m.fault(BadEnvelope)
		return
	}
	m.stored = append(m.stored, compact.String())
	members := stdMembers(t, raw)
	find := func(name string) string {
		for _, member := range members {
			var s string
			if member.name == name && json.Unmarshal(member.raw, &s) == nil {
				return s
			}
		}
		return ""
	}
	for i, member := range members {
		for _, other := range members[:i] {
			if member.name == other.name {
				m.fault(BadEnvelope)
			}
		}
		switch member.name {
		case "version":
			var n json.Number
			if member.raw[0] == '"' || json.Unmarshal(member.raw, &n) != nil || !isOneModel(string(n)) {
				m.fault(BadEnvelope)
			}
		case "streamId":
			if s := find("streamId"); string(member.raw) != "null" && !isVisible(s, 128) {
				m.fault(BadEnvelope)
			}
		}
	}
	hasVersion := slices.ContainsFunc(members, func(x stdMember) bool { return x.name == "version" })
	owner := find("ownerId")
	if !hasVersion || owner == "" || owner != m.owner || !isVisible(find("eventId"), 256) ||
		find("deviceId") == "" || find("createdAt") == "" || find("nonce") == "" || find("ciphertext") == "" {
		m.fault(BadEnvelope)
	}
}

func isOneModel(s string) bool {
	if len(s) > 12 { // exponents that big numbers should not expand
		return isOne([]byte(s))
	}
	r, ok := new(big.Rat).SetString(s)
	return ok && r.Cmp(big.NewRat(1, 1)) == 0
}

type stdMember struct {
	name string
	raw  json.RawMessage
}

// stdMembers walks the members of a valid object.
func stdMembers(t *testing.T, text []byte) []stdMember {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var members []stdMember
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		members = append(members, stdMember{name.(string), raw})
	}
	return members
}

func depthOf(text []byte) int {
	d := json.NewDecoder(bytes.NewReader(text))
	depth, deepest := 0, 0
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// halves tells whether text may hold half a surrogate pair as an escape, which
// encoding/json cannot tell from U+FFFD.
func halves(text []byte) bool {
	return bytes.Contains(bytes.ToLower(text), []byte(`\ud`))
}

// FuzzPush compares with the model, and pieces of any size with the whole.
func FuzzPush(f *testing.F) {
	for _, g := range good {
		f.Add([]byte(g.body), uint8(3))
	}
	for _, b := range bad {
		f.Add([]byte(b.body), uint8(1))
	}
	one := envelope("1", "")
	f.Add([]byte(body(one, one, one, one)), uint8(9))
	f.Add([]byte(body(envelope("1", `,"x":"`+string(bytes.Repeat([]byte("y"), 400))+`"`))), uint8(200))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		limits := Limits{MaxEvents: 3, MaxEventBytes: 400}
		whole, err := push(string(text), limits, len(text)+1)
		pieces, pieceErr := push(string(text), limits, int(size)+1)
		if fmt.Sprint(err) != fmt.Sprint(pieceErr) || !slices.Equal(whole.log, pieces.log) {
			t.Fatalf("whole: %v %q\npieces: %v %q", err, whole.log, pieceErr, pieces.log)
		}
		if halves(text) {
			return
		}
		m := modelOf(t, text, limits)
		if err == nil {
			if len(m.faults) > 0 || !slices.Equal(whole.stored, m.stored) || !slices.Equal(whole.owners, []string{m.owner}) {
				t.Fatalf("accepted %q, want %q, faults %v", whole.log, m.stored, m.faults)
			}
			return
		}
		var fault *Error
		if !errors.As(err, &fault) || !slices.Contains(m.faults, fault.Code) {
			t.Fatalf("%v, want one of %v", err, m.faults)
		}
	})
}

// FuzzSmallBodies: the small decoders take what encoding/json takes.
func FuzzSmallBodies(f *testing.F) {
	for _, c := range compactBodies {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeCompact(text, 3)
		owner, closeErr := DecodeClose(text)
		if err == nil && closeErr != nil || closeErr == nil && owner == "" || r.OwnerID != owner {
			t.Fatalf("%v %q, %v %q", err, r.OwnerID, closeErr, owner)
		}
		if err != nil || halves(text) {
			return
		}
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		var ids []string
		if err := json.Unmarshal(want["streamIds"], &ids); err != nil || !slices.Equal(ids, r.StreamIDs) {
			t.Fatalf("%q, want %q, %v", r.StreamIDs, ids, err)
		}
	})
}
