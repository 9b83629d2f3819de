package repos

// wantLines has the lines of the contract's frames, with single spaces.
var wantLines = map[string]string{
	"commit-first":         "1 2024-07-09T10:00:00Z commit did:plc:ewvi7nxzyoun6zhxrhs64oiz 3kwtqfvxm2225 1 op +com.example.note/one 513 bytes",
	"commit-update":        "24 2024-07-09T10:00:00Z commit did:plc:ewvi7nxzyoun6zhxrhs64oiz 3kwtqfww4m225 1 op ~com.example.note/one 521 bytes",
	"commit-delete":        "256 2024-07-09T10:00:00Z commit did:plc:ewvi7nxzyoun6zhxrhs64oiz 3kwtqfxun6225 1 op -com.example.note/one 329 bytes",
	"commit-multi":         "65536 2024-07-09T10:00:00Z commit did:plc:ewvi7nxzyoun6zhxrhs64oiz 3kwtqfyt5q225 3 ops +com.example.note/a +com.example.note/b +com.example.note/c 950 bytes",
	"commit-empty":         "4294967296 2024-07-09T10:00:00Z commit did:plc:ewvi7nxzyoun6zhxrhs64oiz 3kwtqfzroc225 0 ops 285 bytes",
	"sync":                 "4294967297 2024-07-09T10:00:00Z sync did:plc:ewvi7nxzyoun6zhxrhs64oiz 3kwtqfzroc225 285 bytes",
	"commit-legacy-blobs":  "1804095140659200 2024-07-09T10:00:00Z commit did:web:pds.example 3lw2pvw5y2s2x 0 ops 0 bytes",
	"identity-with-handle": "1804095140659201 2024-07-09T10:00:00Z identity did:plc:ewvi7nxzyoun6zhxrhs64oiz note.example",
	"identity-no-handle":   "23 2024-07-09T10:00:00.123Z identity did:plc:ewvi7nxzyoun6zhxrhs64oiz",
	"account-active":       "255 2024-07-09T10:00:00Z account did:plc:ewvi7nxzyoun6zhxrhs64oiz active",
	"account-deleted":      "65535 2024-07-09T10:00:00Z account did:plc:ewvi7nxzyoun6zhxrhs64oiz inactive deleted",
	"account-takendown":    "9007199254740991 2024-07-09T10:00:00Z account did:plc:ewvi7nxzyoun6zhxrhs64oiz inactive takendown",
	"info-outdated":        "- - info OutdatedCursor Requested cursor exceeded limit. Possibly missing events",
	"info-no-message":      "- - info OutdatedCursor",
	"error-future-cursor":  "- - error FutureCursor Cursor in the future.",
	"error-too-slow":       "- - error ConsumerTooSlow",
	"unknown-type":         "300 - unknown #future",
	"unknown-field":        "301 2024-07-09T10:00:00Z identity did:plc:ewvi7nxzyoun6zhxrhs64oiz note.example",
}
