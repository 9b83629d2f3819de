package store

import "github.com/sluice-relay/sluice/internal/store/sqldb"

// request is one unit of work for the writer.
type request interface {
	// apply does the work, or its next slice, inside the open savepoint. After a
	// failed transaction it is called again from the same state. more asks for
	// another slice in a later transaction.
	apply(w *writer) (more bool, err error)
	// committed follows the commit of what apply did last.
	committed(w *writer)
	// answer ends the request. It is called once, with no transaction open.
	answer(w *writer, err error)
	// bytes is what the request holds until its answer.
	bytes() int64
}

// queue holds the requests that wait for the writer. A request counts from put
// until it is released, which follows its answer, so that slices count too.
type queue = sqldb.Queue[request]
