package eventlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Errors of the log. Each may be wrapped; use errors.Is.
var (
	// ErrBusy: too much waits for the writer, by count or bytes, or another process
	// held the database's lock for longer than the busy timeout. Nothing was
	// stored; it may be tried again.
	ErrBusy = sqldb.ErrBusy
	// ErrDiskFull: there was no room. Nothing was stored; reads go on.
	ErrDiskFull = sqldb.ErrDiskFull
	// ErrTakenAway: the database or its log was removed or replaced under the
	// running relay. Nothing is stored any more until it is back.
	ErrTakenAway = sqldb.ErrTakenAway
	// ErrNewerSchema stops a start: a newer program has made the database.
	ErrNewerSchema = sqldb.ErrNewerSchema
	// ErrUnreadable stops a start: the file is there, and what is in it is not
	// what this package wrote (E7).
	ErrUnreadable = errors.New("event log: the file cannot be read")
	// ErrTwoRelays: another process has given numbers in this database since this
	// one read it. Nothing is stored any more.
	ErrTwoRelays = errors.New("event log: another relay writes to this database")
	// ErrDuplicateID: the log has an event of the same tenant, source and id whose
	// type or payload is another (B56). Nothing was stored.
	ErrDuplicateID = errors.New("event log: the id is taken by another event")
	// ErrInvalid is of values that no row can have. Nothing was stored.
	ErrInvalid = errors.New("event log: invalid value")
	// ErrEvicted: an event that was asked for has left the log (B60, B62).
	ErrEvicted = errors.New("event log: the event has left the log")
	// ErrStopped: the log is closed.
	ErrStopped = errors.New("event log: closed")
)

// Bounds of one event and of one dead letter. Those of the names are the
// contract's (B20, B24); that of the text is above any message limit in use.
const (
	MaxTextBytes   = 64 << 20
	MaxNameBytes   = 512 // tenant and source
	MaxIDBytes     = 128
	MaxTypeBytes   = 128
	MaxDeadLetters = 10_000 // B58
	// MaxDeadLetterBytes bounds their disk, which a count does not: of texts and
	// names together.
	MaxDeadLetterBytes = 256 << 20
)

// MaxSeq is the last number that the log gives: the wire has it as a JSON number.
const MaxSeq = 1<<53 - 1

// Event is what a publisher sent, as it is kept.
type Event struct {
	// Tenant may be empty (B46). Tenant, Source and ID name the event (B56); any
	// bytes may be in them.
	Tenant, Source, ID, Type string
	// Text is the stored form, opaque here. It is transferred with the event, and
	// shared and immutable from then on.
	Text []byte
	// Digest is that of type and payload, which tells a repetition from another
	// event (B56).
	Digest [32]byte
	// ExpiresAt is when the event is no longer delivered (B61), zero for never. It
	// is kept in milliseconds, cut down.
	ExpiresAt time.Time
	// Mode is the delivery mode that the publisher asked for, opaque here.
	Mode uint8
}

// Stored is an event that has a number.
type Stored struct {
	// Seq counts from 1, up to MaxSeq.
	Seq int64
	// StoredAt is the time of its transaction, in milliseconds.
	StoredAt time.Time
	Event
}

// Result is the answer to an append.
type Result struct {
	// Seq is the event's number: for a duplicate, and with ErrDuplicateID, that of
	// the event in the log.
	Seq int64
	// Duplicate: the event was in the log already (B56).
	Duplicate bool
}

// DeadLetter is an event.dead_lettered that the relay has made (B58).
type DeadLetter struct {
	// Tenant is that of the original event. ID is the dead letter's own.
	Tenant, ID string
	// Original and OriginalSeq are the id and the number of the event that was not
	// acknowledged, Subscription the one that did not.
	Original     string
	OriginalSeq  int64
	Subscription string
	// Text is the whole event, opaque here; as Event.Text.
	Text []byte
}

// StoredDeadLetter is a dead letter with its number, which counts from 1 and
// apart from the log's.
type StoredDeadLetter struct {
	Number   int64
	StoredAt time.Time
	DeadLetter
}

// State is what the log holds, as of one commit.
type State struct {
	// Oldest is the lowest number kept (B51's O), 0 when the log is empty.
	Oldest int64
	// Newest is the highest number ever given (H), 0 before the first.
	Newest int64
	// Evicted is the highest number that has left the log (E), 0 if none has.
	Evicted int64
	// Events are kept, which Config.MaxBytes counts as Bytes: their texts and
	// names, and what the database adds.
	Events, Bytes int64
}

// Retention's defaults (AEPWS_RETENTION_*), and those of the queue.
const (
	DefaultMaxEvents   = 1_000_000
	DefaultMaxAge      = 24 * time.Hour
	DefaultMaxBytes    = 1 << 30
	DefaultQueueCount  = 8192
	DefaultQueueBytes  = 64 << 20
	DefaultGroupCount  = 256
	DefaultBusyTimeout = 5 * time.Second
)

// Config is what a Log needs. A zero field but Path takes its default; none may
// be negative.
type Config struct {
	// Path is the database file. It and its directory are made when something is
	// first stored.
	Path string
	// MaxEvents, MaxAge and MaxBytes bound the log; the oldest events go when any
	// of them is passed (B62). The age counts from StoredAt; an event that was
	// stored while the clock was ahead keeps those behind it until it is due.
	// MaxBytes alone never takes the newest event.
	MaxEvents int64
	MaxAge    time.Duration
	MaxBytes  int64
	// QueueCount and QueueBytes bound what waits for the writer. One request that
	// is larger than QueueBytes passes an empty queue.
	QueueCount int
	QueueBytes int64
	// GroupCount bounds the requests of one commit; 1 gives each its own.
	GroupCount int
	// BusyTimeout is how long a lock of another process is waited for.
	BusyTimeout time.Duration
	// OnStore, if set, is called once, when the database is opened: by Open if it
	// is there, or on the writer's goroutine before the first commit.
	OnStore func()
	// Now is the clock of StoredAt and MaxAge, default time.Now.
	Now func() time.Time
	// Committed, if set, gets the new events of each commit, after it and before
	// its answers, with State up to date (E3). The slice is borrowed until the
	// return, the events in it are not. They may have left the log already.
	Committed func(batch []Stored)
}

func (c Config) withDefaults() (Config, error) {
	if c.Path == "" {
		return c, errors.New("event log: no path")
	}
	if c.MaxEvents < 0 || c.MaxAge < 0 || c.MaxBytes < 0 || c.QueueCount < 0 || c.QueueBytes < 0 ||
		c.GroupCount < 0 || c.BusyTimeout < 0 {
		return c, fmt.Errorf("event log: %s: a bound is negative", c.Path)
	}
	fill(&c.MaxEvents, DefaultMaxEvents)
	fill(&c.MaxAge, DefaultMaxAge)
	fill(&c.MaxBytes, DefaultMaxBytes)
	fill(&c.QueueCount, DefaultQueueCount)
	fill(&c.QueueBytes, DefaultQueueBytes)
	fill(&c.GroupCount, DefaultGroupCount)
	fill(&c.BusyTimeout, DefaultBusyTimeout)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnStore == nil {
		c.OnStore = func() {}
	}
	if c.Committed == nil {
		c.Committed = func([]Stored) {}
	}
	return c, nil
}

func fill[T int | int64 | time.Duration](value *T, def T) {
	if *value == 0 {
		*value = def
	}
}

func (e *Event) check() error {
	switch {
	case len(e.Tenant) > MaxNameBytes, e.Source == "" || len(e.Source) > MaxNameBytes,
		e.ID == "" || len(e.ID) > MaxIDBytes, e.Type == "" || len(e.Type) > MaxTypeBytes:
		return fmt.Errorf("%w: tenant of %d, source of %d, id of %d, type of %d bytes", ErrInvalid,
			len(e.Tenant), len(e.Source), len(e.ID), len(e.Type))
	case len(e.Text) == 0 || len(e.Text) > MaxTextBytes:
		return fmt.Errorf("%w: text of %d bytes", ErrInvalid, len(e.Text))
	}
	return nil
}

func (d *DeadLetter) check() error {
	switch {
	case len(d.Tenant) > MaxNameBytes, d.ID == "" || len(d.ID) > MaxIDBytes,
		len(d.Original) > MaxIDBytes, len(d.Subscription) > MaxNameBytes, d.OriginalSeq < 0:
		return fmt.Errorf("%w: dead letter: tenant of %d, id of %d, original of %d, subscription of %d bytes, number %d",
			ErrInvalid, len(d.Tenant), len(d.ID), len(d.Original), len(d.Subscription), d.OriginalSeq)
	case len(d.Text) == 0 || len(d.Text) > MaxTextBytes:
		return fmt.Errorf("%w: dead letter: text of %d bytes", ErrInvalid, len(d.Text))
	}
	return nil
}

// rowOverhead is about what the database adds to a row and its index entry.
const rowOverhead = 96

// charge is what MaxBytes counts: names are in the row and in the index.
func (e *Event) charge() int64 {
	return int64(len(e.Text)+len(e.Type)+2*(len(e.Tenant)+len(e.Source)+len(e.ID))) + rowOverhead
}

func (d *DeadLetter) charge() int64 {
	return int64(len(d.Text)+len(d.Tenant)+len(d.ID)+len(d.Original)+len(d.Subscription)) + rowOverhead
}
