package firehosestore

import (
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// schema is F71's. A repository without a row in hosts has NULL for it: an
// operator may take down an account that no host has told of.
var schema = sqldb.Schema{Meta: "firehose_meta", Scripts: []string{`
CREATE TABLE firehose_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE hosts (
	id INTEGER PRIMARY KEY,
	hostname TEXT NOT NULL UNIQUE,
	no_ssl INTEGER NOT NULL,
	status TEXT NOT NULL,
	last_seq INTEGER NOT NULL,
	account_limit INTEGER NOT NULL,
	account_count INTEGER NOT NULL,
	created_at TEXT NOT NULL,
	updated_at TEXT NOT NULL
);
CREATE TABLE repos (
	did TEXT PRIMARY KEY,
	host_id INTEGER REFERENCES hosts,
	rev TEXT NOT NULL,
	commit_cid BLOB,
	data_cid BLOB,
	status TEXT NOT NULL,
	upstream_status TEXT NOT NULL
) WITHOUT ROWID;
`}}

// Keys of firehose_meta, besides the schema's version. The last three are those
// of a clean stop (F25): all there, or none.
const (
	keyReserved      = "reserved"
	keyCleanLast     = "clean_last"
	keyCleanOutdated = "clean_outdated"
	keyCleanAt       = "clean_at" // unix milliseconds
)

// timeLayout is ISO 8601 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

func isoTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// prepare takes a file that is empty or ours, and brings its tables up to date.
func prepare(c *sqldb.Conn) error {
	version, err := schema.Version(c)
	if err != nil {
		return err
	}
	if version == 0 {
		others, err := c.Int("SELECT count(*) FROM sqlite_schema")
		if err != nil {
			return err
		}
		if others != 0 {
			return fmt.Errorf("%w: it has tables of something else", ErrUnreadable)
		}
	}
	var mode string
	if err := c.Row("PRAGMA journal_mode = WAL", nil, &mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("firehose store: no write-ahead log on this file system: journal mode is %s", mode)
	}
	return schema.Migrate(c, func(from int) error {
		if from != 0 {
			return nil
		}
		return schema.SetNumber(c, keyReserved, 0)
	})
}

// examine looks at the tables that a start needs, as a whole: both are small. Of
// the repositories, which may be many millions, it reads one.
func examine(c *sqldb.Conn) error {
	for _, table := range []string{"firehose_meta", "hosts"} {
		var found string
		if err := c.Row("PRAGMA quick_check("+table+")", nil, &found); err != nil {
			return err
		}
		if found != "ok" {
			return fmt.Errorf("%w: %s: %s", ErrUnreadable, table, found)
		}
	}
	if _, err := c.Int("SELECT count(*) FROM (SELECT did FROM repos LIMIT 1)"); err != nil {
		return err
	}
	_, err := readState(c)
	return err
}

// explain says what an error of opening means for the numbers.
func explain(err error) error {
	const advice = "numbers would repeat without it; put a copy in its place, " +
		"or move it away with the files beside it, -wal and -shm"
	switch {
	case sqldb.NotDatabase(err), sqldb.Corrupt(err):
		return fmt.Errorf("%w: %w: %s", ErrUnreadable, err, advice)
	case sqldb.Unreachable(err):
		return fmt.Errorf("%w: the file and its directory must be readable and writable", err)
	}
	return err
}
