package firehose

import (
	"bytes"
	"strings"
	"time"
)

// FormatTime writes a time that is made here: RFC 3339, UTC, whole seconds
// (F16).
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

const maxDIDBytes = 2048

// ValidDID reports whether text is a DID: did, a method in lower case, and an
// identifier, of at most 2,048 bytes.
func ValidDID(text []byte) bool {
	rest, found := bytes.CutPrefix(text, []byte("did:"))
	if !found || len(text) > maxDIDBytes {
		return false
	}
	colon := bytes.IndexByte(rest, ':')
	if colon < 1 || colon == len(rest)-1 {
		return false
	}
	for _, c := range rest[:colon] {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	for _, c := range rest[colon+1:] {
		if !alphanumeric(c) && c != '.' && c != '_' && c != ':' && c != '%' && c != '-' {
			return false
		}
	}
	last := rest[len(rest)-1]
	return last != ':' && last != '%'
}

func alphanumeric(c byte) bool { return letter(c) || c >= '0' && c <= '9' }

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

const (
	tidBytes     = 13
	tidClockBits = 10 // the low bits tell the clocks of one repository apart
)

// TIDTime returns the time that a TID has in it, and whether text is a TID: 13
// characters of sortable base32, the first one below k.
func TIDTime(text []byte) (time.Time, bool) {
	if len(text) != tidBytes || text[0] > 'j' {
		return time.Time{}, false
	}
	var n uint64
	for _, c := range text {
		switch {
		case c >= '2' && c <= '7':
			n = n<<5 | uint64(c-'2')
		case c >= 'a' && c <= 'z':
			n = n<<5 | uint64(c-'a'+6)
		default:
			return time.Time{}, false
		}
	}
	return time.UnixMicro(int64(n >> tidClockBits)).UTC(), true
}

// ValidTID reports whether text is a TID.
func ValidTID(text []byte) bool {
	_, ok := TIDTime(text)
	return ok
}

const maxDatetimeBytes = 64

// ValidDatetime reports whether text is a datetime as the lexicon has it: RFC
// 3339 with capital T and Z, seconds, a zone other than -00:00, a year of at
// least 10.
func ValidDatetime(text string) bool {
	const shape = "0000-00-00T00:00:00"
	if len(text) <= len(shape) || len(text) > maxDatetimeBytes || strings.HasPrefix(text, "000") {
		return false
	}
	for i := range len(shape) {
		if c := text[i]; shape[i] == '0' && (c < '0' || c > '9') || shape[i] != '0' && c != shape[i] {
			return false
		}
	}
	// What is left to time.Parse: ranges, the zone, and digits of a fraction,
	// before which it allows a comma.
	if text[len(shape)] == ',' || strings.HasSuffix(text, "-00:00") {
		return false
	}
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

const (
	maxHandleBytes = 253
	maxLabelBytes  = 63
)

// ValidHandle reports whether text is a handle: a domain name of at least two
// labels, the last of which begins with a letter.
func ValidHandle(text string) bool {
	if len(text) > maxHandleBytes {
		return false
	}
	labels, last := 0, ""
	for label := range strings.SplitSeq(text, ".") {
		if len(label) == 0 || len(label) > maxLabelBytes || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !alphanumeric(label[i]) && label[i] != '-' {
				return false
			}
		}
		labels, last = labels+1, label
	}
	return labels >= 2 && letter(last[0])
}
