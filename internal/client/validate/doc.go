// Package validate checks files of events against the rules of the AEP 0.1
// envelope, and says of each line that breaks one which it is and where.
//
// A file holds one JSON text a line (NDJSON), with LF or CRLF ends; lines of
// nothing but white space are skipped (R74). A file that is one JSON object
// over several lines is taken as one event. An array is not events (R75), and
// the report says what to do about it.
//
// Errors are what a relay refuses: R70 and R80 for a text that is not JSON,
// R76 for a line over the limit of bytes, R100 to R114 for the envelope.
// Warnings are what a relay takes but what seldom is meant: an event that
// occurred before (R161), and a seq or epoch that goes back (R162). Payloads
// are not looked at (R115).
//
// It shares the envelope check with the relay, which is codec/aep, so that the
// two cannot differ, and owns no other: reading, counting, and the memory of
// what was seen.
//
//   - V1: memory is bounded by a few times the limit of bytes of a line, and by
//     twice recentCount entries for each kind of warning; a repetition further
//     apart is not seen.
//   - V2: each line is reported at once, and at most once as an error.
//
// Thread rule: a Checker belongs to one goroutine.
package validate
