package relay

import (
	"errors"

	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/upstream"
)

// upstreamRoutes implements firehose.Upstream: it words the manager's errors for
// who asked (F70).
type upstreamRoutes struct{ m *upstream.Manager }

// RepoStatus implements firehose.Upstream.
func (u upstreamRoutes) RepoStatus(did string) (firehose.RepoStatus, bool, error) {
	s, known, err := u.m.RepoStatus(did)
	return firehose.RepoStatus{DID: s.DID, Active: s.Active, Status: s.Status, Rev: s.Rev}, known, asked(err)
}

// Account implements firehose.Upstream.
func (u upstreamRoutes) Account(did, action string) error { return asked(u.m.Account(did, action)) }

// Host implements firehose.Upstream.
func (u upstreamRoutes) Host(hostname, action string) error { return asked(u.m.Host(hostname, action)) }

// faults are the errors that who asked has made, by their names in answers.
var faults = []struct {
	err  error
	name string
}{
	{upstream.ErrBadHostname, "InvalidRequest"},
	{upstream.ErrBadDID, "InvalidRequest"},
	{upstream.ErrBadAction, "InvalidRequest"},
	{upstream.ErrTooManyHosts, "InvalidRequest"},
	{upstream.ErrUnknownHost, "HostNotFound"},
	{upstream.ErrUnknownAccount, "RepoNotFound"},
	{upstream.ErrBanned, "HostBanned"},
}

// asked makes a firehose.RequestError of an error that who asked has made.
func asked(err error) error {
	for _, f := range faults {
		if errors.Is(err, f.err) {
			return &firehose.RequestError{Name: f.name, Message: err.Error()}
		}
	}
	return err
}

// upstreamStats adds the numbers of all hosts.
func upstreamStats(s *admin.FirehoseStats, m *upstream.Manager) {
	st := m.Stats()
	s.PublishFailures, s.StateWrites, s.StateFailures = st.PublishFailures, st.Writes, st.WriteFailures
	s.Dropped, s.Misfits, s.Failures = map[string]int64{}, map[string]int64{}, map[string]int64{}
	for i := range st.Hosts {
		h := &st.Hosts[i]
		s.Frames += h.Frames
		s.Sequenced += h.Published
		for _, sum := range []struct{ to, from map[string]int64 }{
			{s.Dropped, h.Dropped}, {s.Misfits, h.Misfits}, {s.Failures, h.Failures},
		} {
			for reason, n := range sum.from {
				sum.to[reason] += n
			}
		}
		s.Hosts = append(s.Hosts, admin.FirehoseHost{Name: h.Hostname, Connected: h.Connected, LastSeq: h.LastSeq})
	}
}
