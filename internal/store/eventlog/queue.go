package eventlog

import "github.com/sluice-relay/sluice/internal/store/sqldb"

// request is one unit of work for the writer.
type request interface {
	// apply does the work in the open transaction. After a failed transaction it
	// is called again from the same state. What it returns and is no error of
	// SQLite has changed nothing.
	apply(w *writer) error
	// answer ends the request. It is called once, with no transaction open.
	answer(err error)
	// bytes is what the request holds until its answer.
	bytes() int64
}

// queue holds the requests that wait for the writer. A request counts from put
// until it is released, which goes before its answer.
type queue = sqldb.Queue[request]
