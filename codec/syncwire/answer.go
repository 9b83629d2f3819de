package syncwire

import (
	"math/bits"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendError appends an error body (S4). It is read by people: message should
// hold nothing of the input.
func AppendError(dst []byte, code Code, message string) []byte {
	dst = append(dst, `{"error":"`...)
	dst = append(dst, code.String()...)
	dst = append(dst, `","message":`...)
	dst = appendQuoted(dst, message)
	return append(dst, '}')
}

// AppendPushed appends the answer to a push.
func AppendPushed(dst []byte, accepted, duplicate int) []byte {
	dst = appendInt(append(dst, '{'), `"accepted":`, int64(accepted))
	dst = appendInt(dst, `,"duplicate":`, int64(duplicate))
	return append(dst, '}')
}

// AppendCompacted appends the answer of both compactions (S40, S47).
func AppendCompacted(dst []byte, deletedEvents, reclaimedBytes int64) []byte {
	dst = appendInt(append(dst, '{'), `"deletedEvents":`, deletedEvents)
	dst = appendInt(dst, `,"reclaimedBytes":`, reclaimedBytes)
	return append(dst, '}')
}

// AppendClosed appends the answer to a close (S42).
func AppendClosed(dst []byte, deletedEvents, deletedBlobs int64) []byte {
	dst = appendInt(dst, `{"closed":true,"deletedEvents":`, deletedEvents)
	dst = appendInt(dst, `,"deletedBlobs":`, deletedBlobs)
	return append(dst, '}')
}

// AppendBlobStored appends the answer to a blob upload: stored now, or there
// before (S45).
func AppendBlobStored(dst []byte, stored bool) []byte {
	if stored {
		return append(dst, `{"stored":true,"duplicate":false}`...)
	}
	return append(dst, `{"stored":false,"duplicate":true}`...)
}

// Server names the program in status and health bodies.
type Server struct {
	Service string // health only
	Version string
	Time    time.Time
}

// Account is what a status tells of an owner (section 9 of the contract).
type Account struct {
	OwnerID    string
	QuotaBytes int64
	UsedBytes  int64
	HeadSeq    int64 // 0 if none is stored
	Streams    int64
	Events     int64
	CreatedAt  string // in the form of S9
}

// AppendStatus appends the answer of GET /v1/status.
func AppendStatus(dst []byte, s Server, a *Account) []byte {
	dst = append(dst, `{"server":{"version":`...)
	dst = appendServer(dst, s)
	dst = append(dst, `},"account":{"ownerId":`...)
	dst = appendQuoted(dst, a.OwnerID)
	dst = appendInt(dst, `,"quotaBytes":`, a.QuotaBytes)
	dst = appendInt(dst, `,"usedBytes":`, a.UsedBytes)
	dst = append(dst, `,"usedPct":`...)
	dst = appendPercent(dst, a.UsedBytes, a.QuotaBytes)
	dst = appendInt(dst, `,"headSeq":`, a.HeadSeq)
	dst = appendInt(dst, `,"streams":`, a.Streams)
	dst = appendInt(dst, `,"events":`, a.Events)
	dst = append(dst, `,"createdAt":`...)
	dst = appendQuoted(dst, a.CreatedAt)
	return append(dst, "}}"...)
}

// AppendUsage appends the answer of GET /v1/usage.
func AppendUsage(dst []byte, owner string, storedBytes int64) []byte {
	dst = append(dst, `{"ownerId":`...)
	dst = appendQuoted(dst, owner)
	dst = appendInt(dst, `,"storedBytes":`, storedBytes)
	return append(dst, '}')
}

// AppendHealth appends the answer of GET /health; ok is false when the store
// cannot be reached.
func AppendHealth(dst []byte, ok bool, s Server) []byte {
	dst = append(dst, `{"ok":`...)
	dst = strconv.AppendBool(dst, ok)
	dst = append(dst, `,"service":`...)
	dst = appendQuoted(dst, s.Service)
	dst = append(dst, `,"version":`...)
	dst = appendServer(dst, s)
	return append(dst, `,"features":["wait"]}`...)
}

func appendServer(dst []byte, s Server) []byte {
	dst = appendQuoted(dst, s.Version)
	dst = append(dst, `,"serverTime":"`...)
	dst = AppendTime(dst, s.Time)
	return append(dst, '"')
}

// AppendTime appends a time as ISO 8601 in UTC with milliseconds (S9). The year
// is in 0 to 9999.
func AppendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}

func appendInt(dst []byte, prefix string, n int64) []byte {
	return strconv.AppendInt(append(dst, prefix...), n, 10)
}

// appendPercent appends used as a part of quota, in percent, rounded half up to
// two decimals. A quota of 0 is full as soon as anything is stored.
func appendPercent(dst []byte, used, quota int64) []byte {
	if used <= 0 {
		return append(dst, '0')
	}
	if quota <= 0 {
		return append(dst, "100"...)
	}
	// Hundredths of a percent: used * 10000 / quota, exact in 128 bits.
	hi, lo := bits.Mul64(uint64(used), 20_000)
	lo, carry := bits.Add64(lo, uint64(quota), 0)
	hi += carry
	divisor := 2 * uint64(quota)
	if hi >= divisor {
		return append(dst, "100"...) // over by a factor of 1e15: no store is
	}
	hundredths, _ := bits.Div64(hi, lo, divisor)
	dst = strconv.AppendUint(dst, hundredths/100, 10)
	if rest := hundredths % 100; rest != 0 {
		dst = append(dst, '.', byte('0'+rest/10))
		if rest%10 != 0 {
			dst = append(dst, byte('0'+rest%10))
		}
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
