package aep

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/bytedance/sonic"
)

// ErrFrame is returned for a text that is not a JSON object.
var ErrFrame = errors.New("frame is not a JSON object")

// ErrHelloTooLarge is returned for a hello whose capabilities.control or
// capabilities.emits has more than 4 KiB of JSON text (R312).
var ErrHelloTooLarge = errors.New(
	"capabilities.control and capabilities.emits may have 4096 bytes each")

const maxDeclaredBytes = 4 << 10

// Roles of a connection (R311).
const (
	RoleBoth     = "both"
	RoleConsumer = "consumer"
	RoleEmitter  = "emitter"
)

// frameAPI decodes the frames that the relay itself reads. All texts have been
// checked by a Scanner before, since the decoder skips values leniently.
var frameAPI = sonic.Config{CaseSensitive: true, CopyString: true}.Froze()

// The wire types hold raw JSON only: what a client gets wrong in one member
// must not spoil the others (R311).
type (
	helloWire struct {
		Versions     json.RawMessage `json:"versions"`
		Role         json.RawMessage `json:"role"`
		Identity     json.RawMessage `json:"identity"`
		Capabilities json.RawMessage `json:"capabilities"`
	}
	identityWire struct {
		Agent    json.RawMessage `json:"agent"`
		Instance json.RawMessage `json:"instance"`
	}
	capabilitiesWire struct {
		Control json.RawMessage `json:"control"`
		Emits   json.RawMessage `json:"emits"`
	}
	controlWire struct {
		Accepts json.RawMessage `json:"accepts"`
	}
	subscribeWire struct {
		ID      json.RawMessage `json:"id"`
		Filter  json.RawMessage `json:"filter"`
		From    json.RawMessage `json:"from"`
		Capture json.RawMessage `json:"capture"`
	}
)

func init() {
	// Compile the decoders before the first client pays for it. A failure here
	// would show again, as an error, at the first decoding.
	for _, v := range []any{
		helloWire{},
		identityWire{},
		capabilitiesWire{},
		controlWire{},
		subscribeWire{},
	} {
		_ = sonic.Pretouch(reflect.TypeOf(v))
	}
}

// Hello is what is kept of a client's hello (R311, R312). It owns its bytes.
type Hello struct {
	VersionOK bool   // "0.1" is among the versions
	Role      string // one of the Role constants; any other acts as both
	Identity  []byte // raw JSON object as declared, nil if there is none
	Agent     string // of the identity, "" if absent or not a string
	Instance  string // likewise
	Control   []byte // raw JSON of capabilities.control, nil if undeclared
	Emits     []byte // raw JSON of capabilities.emits, nil if undeclared

	// Accepts is capabilities.control.accepts, and AcceptsDeclared whether it
	// is declared. Declared as anything but an array of strings, it is empty
	// (R395).
	Accepts         []string
	AcceptsDeclared bool
}

// DecodeHello reads a hello frame, which Scanner.Scan has accepted. Members of
// a wrong type count as absent. The error is ErrFrame or ErrHelloTooLarge. Text
// is borrowed until return. Any goroutine.
func DecodeHello(text []byte) (Hello, error) {
	var wire helloWire
	if err := decodeObject(text, &wire); err != nil {
		return Hello{}, err
	}
	h := Hello{Role: RoleBoth}
	if kindOf(wire.Versions) == '[' {
		for e := elementsOf(wire.Versions); e.next(); {
			h.VersionOK = h.VersionOK || rawEqual(e.value, "0.1")
		}
	}
	switch {
	case rawEqual(wire.Role, RoleConsumer):
		h.Role = RoleConsumer
	case rawEqual(wire.Role, RoleEmitter):
		h.Role = RoleEmitter
	}
	var identity identityWire
	if decodeObject(wire.Identity, &identity) == nil {
		h.Identity = wire.Identity
		h.Agent = stringOf(identity.Agent)
		h.Instance = stringOf(identity.Instance)
	}
	return h, h.setCapabilities(wire.Capabilities)
}

func (h *Hello) setCapabilities(raw []byte) error {
	var capabilities capabilitiesWire
	if decodeObject(raw, &capabilities) != nil {
		return nil // not an object: none are declared
	}
	h.Control = orAbsent(capabilities.Control)
	h.Emits = orAbsent(capabilities.Emits)
	if len(h.Control) > maxDeclaredBytes || len(h.Emits) > maxDeclaredBytes {
		return ErrHelloTooLarge
	}
	var control controlWire
	if decodeObject(h.Control, &control) != nil {
		return nil
	}
	accepts := orAbsent(control.Accepts)
	h.AcceptsDeclared = accepts != nil
	if kindOf(accepts) != '[' {
		return nil
	}
	list := []string{}
	for e := elementsOf(accepts); e.next(); {
		if kindOf(e.value) != '"' {
			return nil // one element of another kind: an empty list
		}
		list = append(list, stringOf(e.value))
	}
	h.Accepts = list
	return nil
}

// Subscribe holds the members of a subscribe frame as raw JSON, nil where
// absent. It owns its bytes. Nothing in it is checked yet: the order of the
// checks is the caller's (R321).
type Subscribe struct {
	IDRaw   []byte // for ParseSubscriptionID
	Filter  []byte // for ParseFilter; JSON null is nil (R210)
	From    []byte // for ParseFrom; JSON null is kept, it is refused (R320)
	Capture []byte // for ParseCeiling; JSON null is nil (R240)
}

// DecodeSubscribe reads a subscribe frame, which Scanner.Scan has accepted. The
// error is ErrFrame. Text is borrowed until return. Any goroutine.
func DecodeSubscribe(text []byte) (Subscribe, error) {
	var wire subscribeWire
	if err := decodeObject(text, &wire); err != nil {
		return Subscribe{}, err
	}
	return Subscribe{
		IDRaw:   wire.ID,
		Filter:  orAbsent(wire.Filter),
		From:    wire.From,
		Capture: orAbsent(wire.Capture),
	}, nil
}

// decodeObject decodes raw into v if it is an object.
func decodeObject(raw []byte, v any) error {
	if kindOf(trimSpace(raw)) != '{' {
		return ErrFrame
	}
	if err := frameAPI.Unmarshal(raw, v); err != nil {
		return ErrFrame
	}
	return nil
}

// orAbsent turns JSON null into nil.
func orAbsent(raw []byte) []byte {
	if isNull(raw) {
		return nil
	}
	return raw
}

// stringOf returns the decoded value of a raw string, and "" for another kind.
func stringOf(raw []byte) string {
	if kindOf(raw) != '"' {
		return ""
	}
	return decodeString(raw)
}
