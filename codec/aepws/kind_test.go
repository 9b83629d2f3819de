package aepws

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKinds is B28 and B30.
func TestKinds(t *testing.T) {
	relayOnly := map[string]bool{
		"subscription.created": true, "subscription.rejected": true, "subscription.expired": true,
		"capabilities.declared": true, "event.redelivered": true, "event.replayed": true, "event.dead_lettered": true,
	}
	for k := KindSessionOpened; k < kindCount; k++ {
		_, e := admitted(t, `{"type":"`+k.String()+`"}`)
		if e.Kind != k || !e.Kind.Control() || string(e.Payload) != "{}" {
			t.Errorf("B28: %s: kind %d, payload %s", k, e.Kind, e.Payload)
		}
		if k.RelayOnly() != relayOnly[k.String()] {
			t.Errorf("B30: %s: %v", k, k.RelayOnly())
		}
	}
	if KindDomain.Control() || KindDomain.RelayOnly() || kindCount.String() != "" || modeCount.String() != "" {
		t.Error("kinds without a name")
	}
	if _, e := scanned(t, `{"type":"session.foo"}`); e.Kind != KindUnknownControl {
		t.Errorf("B24: kind %d", e.Kind)
	}
}

func TestRegistry(t *testing.T) {
	r, bad := NewRegistry("custom.foo", "Custom.foo", "session.extra", "x")
	if strings.Join(bad, " ") != "Custom.foo session.extra x" {
		t.Errorf("bad: %q", bad)
	}
	plain, _ := NewRegistry()
	if r.Len() != plain.Len()+1 || plain.Len() != 91 {
		t.Errorf("%d and %d types", r.Len(), plain.Len())
	}
	for typ := range plain.types {
		if !ValidType(typ) || kindOf([]byte(typ)) != KindDomain || !r.Has([]byte(typ)) {
			t.Errorf("registered: %s", typ)
		}
	}
}

// TestRegistryIsTheContracts compares with the appendix, where that is at hand.
func TestRegistryIsTheContracts(t *testing.T) {
	text := contract(t)
	_, list, ok := strings.Cut(text, "Accepted domain types:")
	if !ok {
		t.Fatal("no appendix")
	}
	_, list, _ = strings.Cut(list, "\n\n")
	list, _, _ = strings.Cut(list, "and the control families")
	r, _ := NewRegistry()
	count := 0
	for _, m := range regexp.MustCompile("`([a-z.]+)`([^;]*);").FindAllStringSubmatch(list, -1) {
		for name := range strings.FieldsSeq(m[2]) {
			count++
			if !r.Has([]byte(m[1] + name)) {
				t.Errorf("B24: %s%s is missing", m[1], name)
			}
		}
	}
	if count != r.Len() {
		t.Errorf("B24: %d types, the contract has %d", r.Len(), count)
	}
}

// contract returns the text of the binding's contract from beside the module.
func contract(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the package")
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "..", "shared", "spec", "aep-ws-binding.md"))
	if err != nil {
		t.Skip("the contract is not beside the module")
	}
	return string(text)
}
