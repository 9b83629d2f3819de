// Package sqldb is what the stores of this relay share below their tables: a
// connection to a SQLite file with its prepared statements, the errors that
// callers branch on, schema versions, and the watch over files that somebody
// took away. It is the only package that imports a SQL driver; a store imports
// it, and nothing else does.
//
// It knows no table but one of keys and values, whose name a store gives, and
// starts no goroutine. Who may write when, and what a transaction holds, is the
// store's business.
//
// Thread rule: a Conn belongs to one goroutine at a time. Whereabouts and Schema
// are immutable; any goroutine may use them.
//
// Invariants:
//
//   - Q1: an error of SQLite that leaves this package answers to errors.Is with
//     ErrBusy or ErrDiskFull if it is one of these.
//   - Q2: a database is migrated in one transaction, or left as it is; that of a
//     newer program is left as it is.
//   - Q3: as many statements are kept as the store has queries, which are
//     constants.
package sqldb
