package syncwire

import (
	"encoding/json"
	"testing"
	"time"
)

// TestAnswers is S4, S9, S22, S32, S40, S42, S45 and section 9: bodies byte for
// byte, behind what the caller has in its buffer.
func TestAnswers(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 4, 5, 6_999_999, time.FixedZone("", 3600))
	server := Server{Service: "sluice", Version: `v"1`, Time: now}
	account := Account{OwnerID: "o\"", QuotaBytes: 1 << 30, UsedBytes: 52428800, HeadSeq: 1761811660800000, Streams: 2, Events: 3, CreatedAt: "2026-01-01T00:00:00.000Z"}
	for want, add := range map[string]func([]byte) []byte{
		`{"error":"bad_request","message":"a\"b\\c\u000ad` + "é\ufffd" + `"}`: func(b []byte) []byte {
			return AppendError(b, BadRequest, "a\"b\\c\ndé\xff")
		},
		`{"accepted":3,"duplicate":0}`:                       func(b []byte) []byte { return AppendPushed(b, 3, 0) },
		`{"deletedEvents":4,"reclaimedBytes":5}`:             func(b []byte) []byte { return AppendCompacted(b, 4, 5) },
		`{"closed":true,"deletedEvents":6,"deletedBlobs":7}`: func(b []byte) []byte { return AppendClosed(b, 6, 7) },
		`{"stored":true,"duplicate":false}`:                  func(b []byte) []byte { return AppendBlobStored(b, true) },
		`{"stored":false,"duplicate":true}`:                  func(b []byte) []byte { return AppendBlobStored(b, false) },
		`{"ownerId":"o\\","storedBytes":9}`:                  func(b []byte) []byte { return AppendUsage(b, `o\`, 9) },
		`{"events":[],"nextCursor":"0"}`:                     func(b []byte) []byte { return EndPage(BeginPage(b), 0) },
		`{"events":[{"a":[]},{}],"nextCursor":"17"}`: func(b []byte) []byte {
			b = AppendStored(BeginPage(b), []byte(`{"a":[]}`))
			return EndPage(AppendStored(b, []byte(`{}`)), 17)
		},
		`{"ok":true,"service":"sluice","version":"v\"1","serverTime":"2026-11-30T02:04:05.006Z","features":["wait"]}`: func(b []byte) []byte {
			return AppendHealth(b, true, server)
		},
		`{"ok":false,"service":"sluice","version":"v\"1","serverTime":"2026-11-30T02:04:05.006Z","features":["wait"]}`: func(b []byte) []byte {
			return AppendHealth(b, false, server)
		},
		`{"server":{"version":"v\"1","serverTime":"2026-11-30T02:04:05.006Z"},"account":{"ownerId":"o\"",` +
			`"quotaBytes":1073741824,"usedBytes":52428800,"usedPct":4.88,"headSeq":1761811660800000,"streams":2,` +
			`"events":3,"createdAt":"2026-01-01T00:00:00.000Z"}}`: func(b []byte) []byte {
			return AppendStatus(b, server, &account)
		},
	} {
		got := string(add([]byte("head")))
		if got != "head"+want || !json.Valid([]byte(got[4:])) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestPageBytes: the room is enough for any page, and hardly more.
func TestPageBytes(t *testing.T) {
	for _, count := range []int{0, 1, 1000} {
		page, sum := BeginPage(nil), int64(0)
		for range count {
			page = AppendStored(page, []byte(envelope("1", "")))
			sum += int64(len(envelope("1", "")))
		}
		page = EndPage(page, 1<<63-1)
		if room := PageBytes(count, sum) - int64(len(page)); room < 0 || room > 8 {
			t.Errorf("%d events: %d bytes left", count, room)
		}
	}
}
