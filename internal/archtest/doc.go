// Package archtest holds the repository to its own rules. It has tests only
// and is imported by nothing.
//
// It checks:
//
//   - Import arrows: cmd -> internal -> engine, codec. The allowed arrows,
//     the packages with narrower rules and the one home of each third-party
//     library stand as tables in rules_test.go, with the same content as the
//     package map of ARCHITECTURE.md. A new arrow is a change to both.
//   - Documents: every path that README.md, ARCHITECTURE.md, CHANGELOG.md or
//     a file under docs names exists.
//   - Protocol pages: what a file under docs/protocols names in a file of ours is
//     declared there, and no rule is missing.
//   - doc.go: every package has one, with a package comment.
//
// The graph is read from the source with go/parser, all build tags and test
// files included, so that an import for another operating system counts too.
// The checker is itself tested with graphs that are wrong on purpose.
//
// Thread rule: tests only; no state.
package archtest
