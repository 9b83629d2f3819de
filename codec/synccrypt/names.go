package synccrypt

import (
	"unicode"
	"unicode/utf8"
)

const (
	maxTableBytes  = 64
	maxRowIDBytes  = 256
	maxDeviceBytes = 64
)

// ValidTable tells whether s may name a table: 1 to 64 characters of
// [A-Za-z0-9_.-].
func ValidTable(s string) bool {
	if s == "" || len(s) > maxTableBytes {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLower(c|0x20) && !isDigit(c) && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// ValidRowID tells whether s may name a row, or a blob: 1 to 256 bytes of UTF-8
// without control characters.
func ValidRowID(s string) bool {
	if s == "" || len(s) > maxRowIDBytes || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// ValidDeviceID tells whether s may name a device: 1 to 64 of [a-z0-9-] (D12).
func ValidDeviceID(s string) bool {
	if s == "" || len(s) > maxDeviceBytes {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLower(c) && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return c-'a' < 26 }

func isDigit(c byte) bool { return c-'0' < 10 }
