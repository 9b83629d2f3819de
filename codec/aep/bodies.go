package aep

import "strconv"

// AppendCapabilities appends the `capabilities` object of the discovery
// document and of the relay's hello (R55, R56). Buffer is the number of events
// kept for each session, boot the id drawn at start.
func AppendCapabilities(dst []byte, buffer int, boot string) []byte {
	dst = append(dst, `{"filters":["attr-match"],"replay":{"buffer":`...)
	dst = strconv.AppendInt(dst, int64(buffer), 10)
	dst = append(dst, `,"all":true},"capture":["none","metadata","redacted",`+
		`"full"],"control":{"accepts":[]},"roster":{},"experimental":{"boot":`...)
	dst = appendQuoted(dst, boot)
	return append(dst, "}}"...)
}

// AppendDiscovery appends the discovery document (R55).
func AppendDiscovery(dst []byte, buffer int, boot string) []byte {
	dst = append(dst, `{"aep":["0.1"],"role":"collector","endpoints":{`+
		`"events":"/events","stream":"/stream","socket":"/socket"},`+
		`"capabilities":`...)
	dst = AppendCapabilities(dst, buffer, boot)
	return append(dst, '}')
}

// AppendVersions appends the body of a 426 (R70 check 2).
func AppendVersions(dst []byte) []byte {
	return append(dst, `{"versions":["0.1"]}`...)
}

// AppendInvalidEvent appends the body that refuses an event (R70 check 8).
// Line counts non-blank lines from 0 (R72); detail is free text.
func AppendInvalidEvent(dst []byte, line int, detail string) []byte {
	return appendLineError(dst, "invalid-event", line, detail)
}

// AppendInvalidJSON appends the body that refuses a text which is not JSON
// (R73). A negative line is left out.
func AppendInvalidJSON(dst []byte, line int, detail string) []byte {
	return appendLineError(dst, "invalid-json", line, detail)
}

// AppendControlRefused appends the body that refuses a command sent by HTTP
// (R70 check 9).
func AppendControlRefused(dst []byte, line int, detail string) []byte {
	return appendLineError(dst, "control-requires-duplex", line, detail)
}

// AppendTooLarge appends the body that refuses a body of more than maxBytes
// octets (R70 check 4).
func AppendTooLarge(dst []byte, maxBytes int64) []byte {
	dst = append(dst, `{"error":"payload-too-large","max_bytes":`...)
	dst = strconv.AppendInt(dst, maxBytes, 10)
	return append(dst, '}')
}

// AppendTooMany appends the body that refuses a batch of count events where
// limit are allowed (R70 check 6).
func AppendTooMany(dst []byte, limit, count int) []byte {
	dst = append(dst, `{"error":"too-many-events","max":`...)
	dst = strconv.AppendInt(dst, int64(limit), 10)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(count), 10)
	return append(dst, '}')
}

func appendLineError(dst []byte, name string, line int, detail string) []byte {
	dst = append(dst, `{"error":"`...)
	dst = append(dst, name...)
	dst = append(dst, '"')
	if line >= 0 {
		dst = append(dst, `,"line":`...)
		dst = strconv.AppendInt(dst, int64(line), 10)
	}
	dst = appendStringMember(dst, "detail", detail)
	return append(dst, '}')
}
