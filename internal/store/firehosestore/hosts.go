package firehosestore

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/upstream/state"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// maxHostname is that of a DNS name, with a port.
const maxHostname = 253 + len(":65535")

// checkHost holds a row to F53.
func checkHost(h *state.Host) error {
	switch {
	case h.Hostname == "" || len(h.Hostname) > maxHostname:
		return fmt.Errorf("%w: host name of %d bytes", ErrInvalid, len(h.Hostname))
	case h.LastSeq < -1:
		return fmt.Errorf("%w: last_seq %d of %s", ErrInvalid, h.LastSeq, h.Hostname)
	case h.AccountLimit < 0 || h.AccountCount < 0:
		return fmt.Errorf("%w: %d accounts of %d of %s", ErrInvalid, h.AccountCount, h.AccountLimit, h.Hostname)
	}
	for i := range len(h.Hostname) {
		if b := h.Hostname[i]; b >= 'A' && b <= 'Z' || b <= ' ' || b == '/' || b > '~' {
			return fmt.Errorf("%w: host name %q", ErrInvalid, h.Hostname)
		}
	}
	switch h.Status {
	case state.Active, state.Idle, state.Offline, state.Throttled, state.Banned:
		return nil
	}
	return fmt.Errorf("%w: status %q of %s", ErrInvalid, h.Status, h.Hostname)
}

// Hosts returns all hosts in the order of their first save.
func (s *Store) Hosts() ([]state.Host, error) {
	var hosts []state.Host
	err := s.read(func(c *sqldb.Conn) error {
		return c.Rows(`SELECT id, hostname, no_ssl, status, last_seq, account_limit, account_count,
			created_at, updated_at FROM hosts ORDER BY id`, nil, func(rows *sql.Rows) error {
			var h state.Host
			var created, updated string
			err := rows.Scan(&h.ID, &h.Hostname, &h.NoSSL, &h.Status, &h.LastSeq,
				&h.AccountLimit, &h.AccountCount, &created, &updated)
			if err != nil {
				return err
			}
			if h.CreatedAt, err = time.Parse(timeLayout, created); err == nil {
				h.UpdatedAt, err = time.Parse(timeLayout, updated)
			}
			if err != nil {
				return fmt.Errorf("firehose store: host %s: %w", h.Hostname, err)
			}
			hosts = append(hosts, h)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return hosts, nil
}

// SaveHost makes the row of h.Hostname, or replaces all of it but its id and
// created_at, and returns the id. h.ID and the times are not looked at. LastSeq
// and AccountCount are replaced too: who saves a host that is being read passes
// what its last Apply stored, or a later one.
func (s *Store) SaveHost(h state.Host) (id int64, err error) {
	if err := checkHost(&h); err != nil {
		return 0, err
	}
	now := isoTime(s.cfg.Now())
	err = s.write(func(c *sqldb.Conn) (err error) {
		id, err = c.Int(`INSERT INTO hosts
			(hostname, no_ssl, status, last_seq, account_limit, account_count, created_at, updated_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
			ON CONFLICT (hostname) DO UPDATE SET no_ssl = excluded.no_ssl, status = excluded.status,
			last_seq = excluded.last_seq, account_limit = excluded.account_limit,
			account_count = excluded.account_count, updated_at = excluded.updated_at RETURNING id`,
			h.Hostname, h.NoSSL, string(h.Status), h.LastSeq, h.AccountLimit, h.AccountCount, now)
		return err
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}
