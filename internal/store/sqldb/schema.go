package sqldb

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// versionKey is the key of the number of scripts that a database was made by.
const versionKey = "schema_version"

// Schema is how the tables of one kind of database are made. Immutable.
type Schema struct {
	// Meta names a table of keys and values (key TEXT PRIMARY KEY, value), which
	// the first script makes. It holds the schema's version.
	Meta string
	// Scripts has one for each version, the first for an empty file. A script is
	// never edited once released: a change is another script.
	Scripts []string
}

// Migrate brings the database to the newest version in one transaction, or
// refuses that of a newer program with ErrNewerSchema. finish runs before the
// commit with the version that was found, 0 for an empty file.
func (s Schema) Migrate(c *Conn, finish func(from int) error) error {
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := s.migrateInside(c, finish); err != nil {
		return errors.Join(err, c.Exec("ROLLBACK"))
	}
	return c.Exec("COMMIT")
}

func (s Schema) migrateInside(c *Conn, finish func(from int) error) error {
	from, err := s.Version(c)
	if err != nil {
		return err
	}
	if from > len(s.Scripts) {
		return fmt.Errorf("%w: version %d, known %d", ErrNewerSchema, from, len(s.Scripts))
	}
	for v := max(from, 0); v < len(s.Scripts); v++ {
		if err := c.Script(s.Scripts[v]); err != nil {
			return fmt.Errorf("store: migration to %d: %w", v+1, err)
		}
	}
	if from != len(s.Scripts) {
		if err := s.SetNumber(c, versionKey, int64(len(s.Scripts))); err != nil {
			return err
		}
	}
	return finish(from)
}

// Version is the number of scripts that the database was made by, 0 for an
// empty file.
func (s Schema) Version(c *Conn) (int, error) {
	tables, err := c.Int("SELECT count(*) FROM sqlite_schema WHERE name = ?", s.Meta)
	if err != nil || tables == 0 {
		return 0, err
	}
	v, _, err := s.Number(c, versionKey)
	return int(v), err
}

// Number reads a number of the table of keys and values; found tells whether
// the key is there. Text is accepted: an import may write it.
func (s Schema) Number(c *Conn, key string) (n int64, found bool, err error) {
	var text string
	err = c.Row("SELECT CAST(value AS TEXT) FROM "+s.Meta+" WHERE key = ?", []any{key}, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, true, fmt.Errorf("store: %s %s: %w", s.Meta, key, err)
	}
	return n, true, nil
}

// SetNumber writes a number of the table of keys and values.
func (s Schema) SetNumber(c *Conn, key string, n int64) error {
	return c.Exec("INSERT INTO "+s.Meta+" (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, n)
}
