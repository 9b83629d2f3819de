package firehosestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// many makes rows of DIDs that lie all over the key space, from number first.
func many(first, n int, host int64) []state.Repo {
	repos := make([]state.Repo, n)
	for i := range repos {
		r := rand.New(rand.NewPCG(uint64(first+i), 1))
		cid := make([]byte, 36)
		for j := range cid {
			cid[j] = byte(r.Uint32())
		}
		repos[i] = state.Repo{
			DID:    fmt.Sprintf("did:plc:%016x%08x", r.Uint64(), first+i),
			HostID: host, Rev: fmt.Sprintf("3k%011d", first+i), Commit: cid, Data: cid,
			Status: "active", UpstreamStatus: "active",
		}
	}
	return repos
}

func wantRepo(t testing.TB, s *Store, want state.Repo) {
	t.Helper()
	got, found, err := s.Repo(want.DID)
	if err != nil || !found || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %t, %v, want %+v", got, found, err, want)
	}
}

// F53.
func TestHosts(t *testing.T) {
	now := at
	s := fresh(t, func(c *Config) { c.Now = func() time.Time { return now } })
	a := state.Host{Hostname: "a.example", Status: state.Active, LastSeq: -1, AccountLimit: 100, CreatedAt: at, UpdatedAt: at}
	b := state.Host{Hostname: "localhost:2583", NoSSL: true, Status: state.Idle, LastSeq: 1<<53 - 1, AccountCount: 7, CreatedAt: at, UpdatedAt: at}
	a.ID, b.ID = saved(t, s, a), saved(t, s, b)
	if a.ID == b.ID || a.ID < 1 || b.ID < 1 {
		t.Fatalf("ids %d and %d", a.ID, b.ID)
	}
	check := func(want ...state.Host) {
		t.Helper()
		for range 2 {
			got, err := s.Hosts()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v, %v, want %+v", got, err, want)
			}
			wantErr(t, "close", s.Close(), nil)
			s = reopen(t, s.cfg.Path, func(c *Config) { c.Now = func() time.Time { return now } })
		}
	}
	check(a, b)
	now = at.Add(time.Hour)
	for _, status := range []string{state.Offline, state.Throttled, state.Banned} {
		a.Status, a.LastSeq, a.AccountCount, a.AccountLimit, a.NoSSL, a.UpdatedAt = status, 12, 3, 5, true, now
		if id := saved(t, s, state.Host{Hostname: a.Hostname, Status: status, LastSeq: 12, AccountCount: 3, AccountLimit: 5, NoSSL: true}); id != a.ID {
			t.Fatalf("id %d, was %d", id, a.ID)
		}
	}
	check(a, b)
	for _, bad := range []state.Host{
		{},
		{Hostname: "c.example", LastSeq: -1},
		{Hostname: "c.example", Status: "asleep"},
		{Hostname: "c.example", Status: state.Active, LastSeq: -2},
		{Hostname: "c.example", Status: state.Active, AccountLimit: -1},
		{Hostname: "c.example", Status: state.Active, AccountCount: -1},
		{Hostname: "C.example", Status: state.Active},
		{Hostname: "https://c.example", Status: state.Active},
		{Hostname: "c .example", Status: state.Active},
		{Hostname: "ü.example", Status: state.Active},
		{Hostname: strings.Repeat("c", 260), Status: state.Active},
	} {
		id, err := s.SaveHost(bad)
		wantErr(t, fmt.Sprintf("%+v", bad), err, ErrInvalid)
		if id != 0 {
			t.Errorf("%+v got id %d", bad, id)
		}
	}
	check(a, b)
}

// F64, F67, F71: a row keeps each value, absent ones too, and is replaced whole.
func TestRepos(t *testing.T) {
	s := fresh(t)
	id := saved(t, s, host("a.example"))
	for _, r := range []state.Repo{
		{DID: "did:plc:a", HostID: id, Rev: "3k", Commit: []byte{1, 2}, Data: []byte{3}, Status: "active", UpstreamStatus: "deactivated"},
		{DID: "did:plc:a", HostID: id, Rev: "3l", Commit: []byte{4}, Data: []byte{0}, Status: "takendown", UpstreamStatus: "active"},
		{DID: "did:plc:a", Status: "takendown"},
		{DID: "did:plc:a", HostID: id},
		{DID: strings.Repeat("d", 2048), Rev: strings.Repeat("r", 64), Commit: bytes.Repeat([]byte{9}, 128)},
	} {
		wantErr(t, "apply", s.Apply(state.Batch{Repos: []state.Repo{{DID: r.DID, Rev: "before", Data: []byte("x")}, r}}), nil)
		wantRepo(t, s, r)
	}
	if _, found, err := s.Repo("did:plc:b"); found || err != nil {
		t.Errorf("nobody: %t, %v", found, err)
	}
	if st := s.Stats(); st.Repos != 10 || st.Commits != 6 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// F63, F64: a batch is one transaction: what is wrong with one row stores none.
func TestApplyAllOrNothing(t *testing.T) {
	s := fresh(t)
	id := saved(t, s, host("a.example"))
	good := state.Repo{DID: "did:plc:a", HostID: id, Rev: "1"}
	wantErr(t, "apply", s.Apply(state.Batch{Repos: []state.Repo{good}, Cursors: []state.HostCursor{{ID: id, LastSeq: 5, AccountCount: 1}}}), nil)
	next := good
	next.Rev = "2"
	cursor := state.HostCursor{ID: id, LastSeq: 9, AccountCount: 2}
	for _, c := range []struct {
		name string
		b    state.Batch
		want error
	}{
		{"host of a repository", state.Batch{Repos: []state.Repo{next, {DID: "did:plc:b", HostID: id + 1}}, Cursors: []state.HostCursor{cursor}}, ErrUnknownHost},
		{"host of a cursor", state.Batch{Repos: []state.Repo{next}, Cursors: []state.HostCursor{cursor, {ID: id + 1, LastSeq: 1, AccountCount: 0}}}, ErrUnknownHost},
		{"cursor", state.Batch{Repos: []state.Repo{next}, Cursors: []state.HostCursor{cursor, {ID: id, LastSeq: -2, AccountCount: 0}}}, ErrInvalid},
		{"accounts", state.Batch{Repos: []state.Repo{next}, Cursors: []state.HostCursor{cursor, {ID: id, LastSeq: 1, AccountCount: -1}}}, ErrInvalid},
		{"no DID", state.Batch{Repos: []state.Repo{next, {}}, Cursors: []state.HostCursor{cursor}}, ErrInvalid},
		{"long DID", state.Batch{Repos: []state.Repo{next, {DID: strings.Repeat("d", 2049)}}}, ErrInvalid},
		{"negative host", state.Batch{Repos: []state.Repo{next, {DID: "d", HostID: -1}}}, ErrInvalid},
		{"long rev", state.Batch{Repos: []state.Repo{next, {DID: "d", Rev: strings.Repeat("r", 65)}}}, ErrInvalid},
		{"long commit", state.Batch{Repos: []state.Repo{next, {DID: "d", Commit: make([]byte, dagcbor.MaxCIDBytes+1)}}}, ErrInvalid},
		{"long data", state.Batch{Repos: []state.Repo{next, {DID: "d", Data: make([]byte, dagcbor.MaxCIDBytes+1)}}}, ErrInvalid},
		{"long status", state.Batch{Repos: []state.Repo{next, {DID: "d", Status: strings.Repeat("s", 65)}}}, ErrInvalid},
		{"long upstream status", state.Batch{Repos: []state.Repo{next, {DID: "d", UpstreamStatus: strings.Repeat("s", 65)}}}, ErrInvalid},
		{"too many repositories", state.Batch{Repos: make([]state.Repo, MaxBatchRepos+1)}, ErrInvalid},
		{"too many hosts", state.Batch{Cursors: make([]state.HostCursor, MaxBatchHosts+1)}, ErrInvalid},
	} {
		wantErr(t, c.name, s.Apply(c.b), c.want)
		wantRepo(t, s, good)
		hosts, err := s.Hosts()
		if err != nil || hosts[0].LastSeq != 5 || hosts[0].AccountCount != 1 {
			t.Fatalf("%s: %+v, %v", c.name, hosts, err)
		}
		outside(t, s.cfg.Path, "BEGIN IMMEDIATE") // no lock is left
	}
	if st := s.Stats(); st.Failed != 0 || st.Busy != 0 {
		t.Errorf("what is invalid counts as a failure: %+v", st)
	}
	wantErr(t, "apply", s.Apply(state.Batch{Repos: []state.Repo{next}, Cursors: []state.HostCursor{cursor, {ID: id, LastSeq: -1, AccountCount: 3}}}), nil)
	wantRepo(t, s, next)
	if hosts, err := s.Hosts(); err != nil || hosts[0].LastSeq != -1 || hosts[0].AccountCount != 3 {
		t.Errorf("%+v, %v", hosts, err)
	}
}

// F63, F64: cut at any byte of the log, a host's cursor and its repositories
// are of the same batch.
func TestApplyCutLog(t *testing.T) {
	s := fresh(t)
	id := saved(t, s, host("a.example"))
	const rows, batches = 50, 12
	dids := many(0, rows, id)
	for n := range batches {
		b := state.Batch{Cursors: []state.HostCursor{{ID: id, LastSeq: int64(n), AccountCount: int64(n)}}}
		for _, r := range dids {
			r.Rev = fmt.Sprint(n)
			b.Repos = append(b.Repos, r)
		}
		wantErr(t, "apply", s.Apply(b), nil)
	}
	total, dir, seen := int(s.Stats().WALBytes), t.TempDir(), map[int64]bool{}
	for cut := 0; cut <= total; cut += min(total/60, max(1, total-cut)) {
		path := filepath.Join(dir, fmt.Sprint(cut, ".db"))
		copyDatabase(t, s.cfg.Path, path, cut)
		c := reopen(t, path)
		hosts, err := c.Hosts()
		wantErr(t, "hosts", err, nil)
		if len(hosts) == 0 {
			continue
		}
		last := hosts[0].LastSeq
		seen[last] = true
		for _, r := range dids {
			got, found, err := c.Repo(r.DID)
			if err != nil || found != (last >= 0) || found && got.Rev != fmt.Sprint(last) {
				t.Fatalf("cut at %d: %+v, %t, %v beside cursor %d", cut, got, found, err, last)
			}
		}
		wantErr(t, "close", c.Close(), nil)
	}
	if !seen[batches-1] || len(seen) < batches/2 {
		t.Errorf("cursors seen: %v", seen)
	}
}

// A large batch, and reads beside it.
func TestLargeBatch(t *testing.T) {
	s := fresh(t)
	id := saved(t, s, host("a.example"))
	repos := many(0, 10_000, id)
	wantErr(t, "apply", s.Apply(state.Batch{Repos: repos, Cursors: []state.HostCursor{{ID: id, LastSeq: 10_000, AccountCount: 10_000}}}), nil)
	for i := 0; i < len(repos); i += 97 {
		wantRepo(t, s, repos[i])
	}
	if st := s.Stats(); st.Repos != 10_000 || st.Cursors != 1 || st.Checkpoints != 1 || st.Commits != 2 || st.MaxCommit <= 0 {
		t.Errorf("%+v", st)
	}
}

// Writers of all kinds and readers at once; the log stays bounded meanwhile.
func TestConcurrent(t *testing.T) {
	s := fresh(t)
	id := saved(t, s, host("a.example"))
	const writers, rows = 3, 1500
	rounds := 8
	if raceEnabled {
		rounds = 2
	}
	stop := make(chan struct{})
	var readers, work sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := s.Repo(many(n%1000, 1, id)[0].DID); err != nil {
					t.Error(err)
					return
				}
				if err := s.Ping(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var most int64
	for w := range writers {
		work.Go(func() {
			for n := range rounds {
				b := state.Batch{Repos: many((w*rounds+n)*rows, rows, id), Cursors: []state.HostCursor{{ID: id, LastSeq: int64(n), AccountCount: 0}}}
				if err := s.Apply(b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Go(func() {
		for n := range int64(200) {
			if err := s.Reserve(n + 1); err != nil {
				t.Error(err)
			}
			if _, err := s.SaveHost(host("b.example")); err != nil {
				t.Error(err)
			}
			most = max(most, s.Stats().WALBytes)
		}
	})
	work.Wait()
	close(stop)
	readers.Wait()
	wantState(t, "after", s, unclean(200))
	for n := 0; n < writers*rounds*rows; n += 331 {
		wantRepo(t, s, many(n, 1, id)[0])
	}
	if st := s.Stats(); most > walKeepBytes || st.WALBytes > walKeepBytes || st.Checkpoints == 0 || st.Failed != 0 {
		t.Errorf("the log had up to %d bytes: %+v", most, st)
	}
}

// BenchmarkApply stores the state of 1,000 repositories with their host's
// cursor, into a table of that many rows.
func BenchmarkApply(b *testing.B) {
	for _, rows := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			s := fresh(b)
			id := saved(b, s, host("a.example"))
			all := many(0, rows, id)
			wantErr(b, "apply", s.Apply(state.Batch{Repos: all}), nil)
			batch := state.Batch{Repos: make([]state.Repo, 1000)}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for j := range batch.Repos {
					batch.Repos[j] = all[(i*1000+j)%rows]
				}
				batch.Cursors = []state.HostCursor{{ID: id, LastSeq: int64(i), AccountCount: 0}}
				wantErr(b, "apply", s.Apply(batch), nil)
			}
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "repos/s")
			b.ReportMetric(float64(s.Stats().CommitTime.Milliseconds())/float64(s.Stats().Commits), "ms/commit")
		})
	}
}

// BenchmarkReserve is what a publisher waits for when a block is used up.
func BenchmarkReserve(b *testing.B) {
	s := fresh(b)
	b.ReportAllocs()
	for i := int64(1); b.Loop(); i++ {
		wantErr(b, "reserve", s.Reserve(i), nil)
	}
}

// BenchmarkRepo reads one of 100,000 repositories.
func BenchmarkRepo(b *testing.B) {
	s := fresh(b)
	id := saved(b, s, host("a.example"))
	all := many(0, 100_000, id)
	wantErr(b, "apply", s.Apply(state.Batch{Repos: all}), nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, found, err := s.Repo(all[i*7919%len(all)].DID); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}

// F64: every CID that the codec accepts can be stored. A batch that is refused is
// tried again for ever, so a host could hold up all others with one commit.
func TestLongestCID(t *testing.T) {
	cid := []byte{1}
	for range 2 { // codec and hash function
		cid = append(append(cid, bytes.Repeat([]byte{0xff}, 8)...), 0x7f)
	}
	cid = append(append(cid, 0x80, 0x01), make([]byte, 128)...)
	if _, err := dagcbor.ParseCID(cid); err != nil {
		t.Fatal(err)
	}
	s := fresh(t)
	want := state.Repo{DID: "did:web:a.example", Rev: "3kaaaaaaaaaaa", Commit: cid, Data: cid}
	wantErr(t, "the longest CID", s.Apply(state.Batch{Repos: []state.Repo{want}}), nil)
	wantRepo(t, s, want)
	want.Data = append(bytes.Clone(cid), 0)
	wantErr(t, "a byte more", s.Apply(state.Batch{Repos: []state.Repo{want}}), ErrInvalid)
}
