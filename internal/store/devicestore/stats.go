package devicestore

// Stats are counts that are kept, so that reading them costs one row.
type Stats struct {
	Rows, Tombstones        int64 // live rows, and deleted ones
	Deferred, DeferredBytes int64
	Seen                    int64 // ids in the seen set
	Outbox, Unsealed        int64 // events kept for relays; those without an envelope
	Purges                  int64 // streams to be compacted, over all relays
}

// Stats returns the counts of this moment.
func (s *Store) Stats() (Stats, error) {
	st, err := s.state()
	return Stats{
		Rows: st.live, Tombstones: st.tombstones, Deferred: st.deferred, DeferredBytes: st.deferredBytes,
		Seen: st.seen, Outbox: st.outbox, Unsealed: st.unsealed, Purges: st.due,
	}, err
}
