// Package state has what the relay keeps of other hosts' streams over a
// restart: rows of hosts and of repositories, and the batch in which both are
// written (F53, F64, F71). It is values alone, so that the package that stores
// them and the package that makes them need not know each other.
//
// It never reads or writes anything, and it has no rule of its own: what the
// fields may hold is said at each.
//
// Thread rule: values are copied. Byte slices in them are shared and immutable
// once they were handed over.
//
// Rules are cited as F53 to F71 of the stream's contract.
package state
