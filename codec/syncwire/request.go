package syncwire

// MaxCloseBytes is the longest body of a close that is worth reading.
const MaxCloseBytes = 16 << 10

// CompactRequest is a body of POST /v1/streams/compact (S40).
type CompactRequest struct {
	OwnerID   string
	StreamIDs []string // each of 22 base64url characters; repeats are kept
}

// MaxCompactBytes returns the longest body of a stream compaction of at most
// maxStreams entries that is worth reading: room for any spelling of them.
func MaxCompactBytes(maxStreams int) int {
	return maxStreams*(6*streamChars+16) + MaxCloseBytes
}

// DecodeClose decodes the whole body of POST /v1/owner/close (S42). The error
// is an *Error. body is borrowed until return.
func DecodeClose(body []byte) (owner string, err error) {
	fields, fault := decodeFields(body, "")
	if fault != nil {
		return "", fault
	}
	return fields.owner, nil
}

// DecodeCompact decodes the whole body of POST /v1/streams/compact (S40). The
// error is an *Error: bad_request, too_many_streams or bad_stream_id. OwnerID
// is set even then if it could be read: who the client is has to be settled
// before the error is answered (S16). body is borrowed until return.
func DecodeCompact(body []byte, maxStreams int) (CompactRequest, error) {
	fields, fault := decodeFields(body, "streamIds")
	r := CompactRequest{OwnerID: fields.owner}
	if fault != nil {
		return r, fault
	}
	if r.StreamIDs, fault = streamList(fields.list, maxStreams); fault != nil {
		return r, fault
	}
	return r, nil
}

// bodyFields are the members that count in a small body.
type bodyFields struct {
	owner string
	list  []byte // raw
}

// decodeFields reads ownerId and, unless list is empty, the member of that
// name. A fault of the list is told only when the owner is known (S16).
func decodeFields(body []byte, list string) (f bodyFields, fault *Error) {
	text, fault := compactObject(body)
	if fault != nil {
		return f, fault
	}
	var owner, scratch []byte
	for m := (members{text: text}); m.next(); {
		var name []byte
		name, scratch = decoded(m.name, scratch[:0])
		switch string(name) {
		case "ownerId":
			if owner != nil {
				return bodyFields{}, badRequest("ownerId occurs twice")
			}
			owner = m.value
		case list:
			if list != "" && f.list != nil {
				fault = badRequest(list + " occurs twice")
			}
			f.list = m.value
		}
	}
	if owner == nil {
		return f, badRequest("ownerId is missing")
	}
	id, _, ok := stringContent(owner, nil)
	if !ok || !isVisible(id, maxOwnerChars) {
		return f, badRequest("ownerId is not a string of 1 to 128 visible ASCII characters")
	}
	f.owner = string(id)
	if list != "" && fault == nil && (f.list == nil || f.list[0] != '[') {
		fault = badRequest(list + " is not an array")
	}
	return f, fault
}

// compactObject checks that body is one JSON object and returns it without
// white space, in body or as a copy.
func compactObject(body []byte) ([]byte, *Error) {
	var x lexer
	var text []byte
	for i := 0; ; {
		var m mark
		switch i, m = x.run(body, i); m {
		case markMore:
			if x.state != wantNothing {
				return nil, badRequest("the body ends early")
			}
			return text, nil
		case markFail:
			return nil, badRequest(x.reason)
		case markBegin:
			if body[i-1] != '{' {
				return nil, badRequest("the body is not an object")
			}
			x.capture(i-1, len(body))
		case markEnd:
			text, _ = x.captured(body, i)
		}
	}
}

// streamList checks and copies a raw array of stream ids.
func streamList(raw []byte, maxStreams int) ([]string, *Error) {
	count := 0
	for e := (elements{text: raw}); e.next(); {
		if count++; count > maxStreams {
			return nil, &Error{Code: TooManyStreams, Index: -1, Reason: "more streams than a request may have"}
		}
	}
	ids := make([]string, 0, count)
	var scratch []byte
	for e := (elements{text: raw}); e.next(); {
		var id []byte
		var ok bool
		if id, scratch, ok = stringContent(e.value, scratch[:0]); !ok || !ValidStreamID(id) {
			return nil, &Error{Code: BadStreamID, Index: -1, Reason: "a stream id is not 22 base64url characters"}
		}
		ids = append(ids, string(id))
	}
	return ids, nil
}
