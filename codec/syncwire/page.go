package syncwire

import "strconv"

// A page (S32) is written envelope by envelope, as the store reads them:
// BeginPage, AppendStored for each, EndPage.

// PageBytes returns the room for a page of count envelopes of storedBytes in
// all.
func PageBytes(count int, storedBytes int64) int64 {
	const around = len(`{"events":[],"nextCursor":""}`) + 20
	return storedBytes + int64(count) + int64(around)
}

// BeginPage appends the start of a page.
func BeginPage(dst []byte) []byte { return append(dst, `{"events":[`...) }

// AppendStored appends a stored envelope to a page as it is (S19), and a comma
// before it unless it is the first. It is copied.
func AppendStored(dst, stored []byte) []byte {
	if len(dst) > 0 && dst[len(dst)-1] != '[' { // an envelope ends in a brace
		dst = append(dst, ',')
	}
	return append(dst, stored...)
}

// EndPage appends the end of a page. next is the number of its last event, or
// the cursor that was asked for when it is empty (S32).
func EndPage(dst []byte, next int64) []byte {
	dst = append(dst, `],"nextCursor":"`...)
	dst = strconv.AppendInt(dst, next, 10)
	return append(dst, `"}`...)
}
