package aep

import "unsafe"

// Event is one admitted event. It is immutable and safe for any goroutine;
// Scanner.Event makes it. Strings and slices that its methods return share its
// bytes and keep them alive; none of the methods allocates, except where told.
//
// Its memory is the struct, one allocation for body, and one for the extension
// attributes if there are any. More than fewAttrs of those get an index.
type Event struct {
	// body is the WebSocket header, the text, and after it the decoded form of
	// attributes that were written with escapes.
	body  string
	attrs []attr
	index *nameIndex
	seq   int64
	epoch int64
	core  [coreSpans]span

	textEnd   uint32 // of the text in body
	sizeBytes uint32
	head      uint8 // length of the WebSocket header
	severity  Severity
	capture   Level
	class     Class
	hasSeq    bool
	hasData   bool
}

// span is a place in Event.body. A core attribute that is absent has length
// zero; one that is present never has.
type span struct{ offset, length uint32 }

// attr is one extension attribute: places in Event.body. The value's is the
// decoded string, or a number or boolean as written.
type attr struct {
	name, value uint32
	valueLength uint32
	nameLength  uint8
	kind        Kind
}

// Text returns the event's JSON text as received, white space around it
// dropped. If it held CR or LF it is one line now (R194). Shared, immutable.
func (e *Event) Text() []byte {
	return e.bytes()[e.head:e.textEnd:e.textEnd]
}

// Frame returns the text as one unmasked, final WebSocket text frame (RFC
// 6455, section 5.2). Shared, immutable.
func (e *Event) Frame() []byte { return e.bytes()[:e.textEnd:e.textEnd] }

func (e *Event) bytes() []byte {
	return unsafe.Slice(unsafe.StringData(e.body), len(e.body))
}

func (e *Event) coreString(c core) string {
	s := e.core[c]
	return e.body[s.offset : s.offset+s.length]
}

// ID returns the attribute `id`, never empty.
func (e *Event) ID() string { return e.coreString(coreID) }

// Type returns the attribute `type`, which fits the grammar of R103.
func (e *Event) Type() string { return e.coreString(coreType) }

// Source returns the attribute `source`, never empty.
func (e *Event) Source() string { return e.coreString(coreSource) }

// Agent returns the attribute `agent`, never empty.
func (e *Event) Agent() string { return e.coreString(coreAgent) }

// Session returns the attribute `session`, or "" when it is absent.
func (e *Event) Session() string { return e.coreString(coreSession) }

// Subject returns the attribute `subject` and whether it is present.
func (e *Event) Subject() (string, bool) {
	subject := e.coreString(coreSubject)
	return subject, subject != ""
}

// Seq returns the attribute `seq` and whether it is present. It is not
// negative (R108).
func (e *Event) Seq() (int64, bool) { return e.seq, e.hasSeq }

// Epoch returns the attribute `epoch`, or 0 when it is absent. It is not
// negative (R108).
func (e *Event) Epoch() int64 { return e.epoch }

// HasEpoch reports whether `epoch` is present.
func (e *Event) HasEpoch() bool { return e.core[coreEpoch].length > 0 }

// Severity returns the severity, SeverityInfo when it is absent.
func (e *Event) Severity() Severity { return e.severity }

// Capture returns the event's own level, LevelMetadata when it is absent.
func (e *Event) Capture() Level { return e.capture }

// Class returns the class of R141 to R144.
func (e *Event) Class() Class { return e.class }

// HasData reports whether `data` is present.
func (e *Event) HasData() bool { return e.hasData }

// SizeBytes returns how many bytes the event keeps alive, text and
// bookkeeping counted.
func (e *Event) SizeBytes() int { return int(e.sizeBytes) }

// Lookup returns the attribute that a filter sees under name (R211, R220).
// severity, capture and epoch give their defaults when they are absent. time,
// seq, aep, data and traceparent are not for filters and never found.
func (e *Event) Lookup(name string) (Value, bool) {
	c := coreOf(name)
	switch {
	case c < coreEpoch:
		text := e.coreString(c)
		return Value{text: text, kind: KindString}, text != ""
	case c == coreEpoch:
		return e.epochValue(), true
	case c == coreSeverity:
		return StringValue(e.severity.String()), true
	case c == coreCapture:
		return StringValue(e.capture.String()), true
	case c == coreNone:
		return e.extension(name)
	}
	return Value{}, false
}

// Attrs yields every attribute that a filter can see (R211, R220), each once:
// the core attributes, severity, capture and epoch even when they are absent,
// then the extension attributes in the order of the text.
func (e *Event) Attrs(yield func(name string, v Value) bool) {
	for c := range coreEpoch {
		text := e.coreString(c)
		if text != "" && !yield(coreNames[c], StringValue(text)) {
			return
		}
	}
	if !yield(coreNames[coreEpoch], e.epochValue()) ||
		!yield(coreNames[coreSeverity], StringValue(e.severity.String())) ||
		!yield(coreNames[coreCapture], StringValue(e.capture.String())) {
		return
	}
	for i := range e.attrs {
		if !yield(e.attrName(i), e.attrValue(i)) {
			return
		}
	}
}

// epochValue returns the epoch as it is spelled, or 0.
func (e *Event) epochValue() Value {
	if text := e.coreString(coreEpoch); text != "" {
		return Value{text: text, kind: KindInteger}
	}
	return Value{text: "0", kind: KindInteger}
}

func (e *Event) attrName(i int) string {
	a := &e.attrs[i]
	return e.body[a.name : a.name+uint32(a.nameLength)]
}

func (e *Event) attrValue(i int) Value {
	a := &e.attrs[i]
	return Value{text: e.body[a.value : a.value+a.valueLength], kind: a.kind}
}

func (e *Event) extension(name string) (Value, bool) {
	if e.index != nil {
		i, ok := e.index.find(hashName(name), func(i int) bool {
			return e.attrName(i) == name
		})
		if !ok {
			return Value{}, false
		}
		return e.attrValue(i), true
	}
	for i := range e.attrs {
		if e.attrName(i) == name {
			return e.attrValue(i), true
		}
	}
	return Value{}, false
}
