package store

// submit queues r; refused, it answers through refuse.
func (s *Store) submit(r request, refuse func(error)) {
	if err := s.queue.Put(r, r.bytes()); err != nil {
		s.stats.failure(err)
		refuse(err)
	}
}

// reply carries an answer to a waiting caller.
type reply[T any] struct {
	value T
	err   error
}

// wait calls start with a callback and waits for its answer.
func wait[T any](start func(done func(T, error))) (T, error) {
	c := make(chan reply[T], 1)
	start(func(v T, err error) { c <- reply[T]{v, err} })
	r := <-c
	return r.value, r.err
}

// PushAsync stores a push and answers through done, on the writer's goroutine
// or, when refused at once, before it returns.
func (s *Store) PushAsync(p Push, done func(PushResult, error)) {
	s.submit(&pushRequest{Push: p, done: done}, func(err error) { done(PushResult{}, err) })
}

// Push stores a push's new events, all or none, and returns after the commit
// (S21 to S25).
func (s *Store) Push(p Push) (PushResult, error) {
	return wait(func(done func(PushResult, error)) { s.PushAsync(p, done) })
}

// PutBlobAsync is PutBlob with the answer through done, as PushAsync is Push.
func (s *Store) PutBlobAsync(auth Auth, hash string, body []byte, done func(bool, error)) {
	s.submit(&blobRequest{auth: auth, hash: hash, body: body, done: done}, func(err error) { done(false, err) })
}

// PutBlob stores a chunk whose SHA-256 is hash, as the caller made sure. The
// body is borrowed until the return. False: the owner holds it already (S45).
func (s *Store) PutBlob(auth Auth, hash string, body []byte) (bool, error) {
	return wait(func(done func(bool, error)) { s.PutBlobAsync(auth, hash, body, done) })
}

// CompactStreamsAsync is CompactStreams with the answer through done.
func (s *Store) CompactStreamsAsync(auth Auth, streams []string, done func(Reclaimed, error)) {
	s.submit(newStreamsRequest(auth, streams, done), func(err error) { done(Reclaimed{}, err) })
}

// CompactStreams deletes all events of the named streams (S40). The ids were
// checked; the slice is borrowed until the call has begun.
func (s *Store) CompactStreams(auth Auth, streams []string) (Reclaimed, error) {
	return wait(func(done func(Reclaimed, error)) { s.CompactStreamsAsync(auth, streams, done) })
}

// CloseOwnerAsync is CloseOwner with the answer through done.
func (s *Store) CloseOwnerAsync(auth Auth, done func(Closed, error)) {
	s.submit(&closeRequest{auth: auth, done: done}, func(err error) { done(Closed{}, err) })
}

// CloseOwner closes the owner; closed already, the counts are zero (S42, S43).
func (s *Store) CloseOwner(auth Auth) (Closed, error) {
	return wait(func(done func(Closed, error)) { s.CloseOwnerAsync(auth, done) })
}

// CompactAllAsync is CompactAll with the answer through done.
func (s *Store) CompactAllAsync(done func(Reclaimed, error)) {
	s.submit(&compactRequest{done: done}, func(err error) { done(Reclaimed{}, err) })
}

// CompactAll runs S37 now, or joins the run that goes on, and waits for its end
// (S47).
func (s *Store) CompactAll() (Reclaimed, error) {
	return wait(s.CompactAllAsync)
}
