package upstream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// F53: how the operator names a host.
func TestParseUpstream(t *testing.T) {
	f := func(text, want string, noSSL bool) {
		t.Helper()
		got, gotNoSSL, err := ParseUpstream(text)
		if (err != nil) != (want == "") || err != nil && !errors.Is(err, ErrBadHostname) || got != want || gotNoSSL != noSSL {
			t.Errorf("%q: %q, %v, %v", text, got, gotNoSSL, err)
		}
	}
	f("pds.example.com", "pds.example.com", false)
	f("wss://PDS.Example.com", "pds.example.com", false)
	f("ws://localhost:2583", "localhost:2583", true)
	f("ws://127.0.0.1:1", "127.0.0.1:1", true)
	f("wss://localhost:65535", "localhost:65535", false)
	f("localhost", "localhost", false)
	for _, bad := range []string{
		"", "pds", "pds.example.com.", "pds.example.com:443", "ws://pds.example.com", "https://pds.example.com",
		"wss://pds.example.com/", "wss://pds.example.com/xrpc", "user@pds.example.com", "pds.example.com?x", "10.0.0.1",
		"ws://10.0.0.1:80", "[::1]:80", "ws://[::1]:80", "ws://localhost", "ws://localhost:", "ws://localhost:0", "ws://localhost:65536",
		"ws://localhost:080", "ws://localhost:+80", "ws://localhost:80/", "ws://localhost:80:80", "pds example.com", "-pds.example.com",
		strings.Repeat("a", 300) + ".example.com", "pds.\xff.com", "wss://", "://pds.example.com",
	} {
		f(bad, "", false)
	}
}

// Settings are refused with a reason, and the defaults are right.
func TestConfig(t *testing.T) {
	good := func() Config {
		return Config{Publish: func(*firehose.Frame) (int64, error) { return 0, nil }, Store: newMemory(t)}
	}
	cfg := good()
	if err := cfg.fill(); err != nil || cfg.Verify != VerifyStructure || cfg.Persist != 4*time.Second || cfg.MaxFrameBytes != 5_000_000 {
		t.Errorf("%v, %+v", err, cfg)
	}
	f := func(want error, change func(*Config)) {
		t.Helper()
		cfg := good()
		change(&cfg)
		if _, err := New(cfg); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	f(nil, func(*Config) {})
	f(ErrConfig, func(c *Config) { c.Verify = "full" })
	f(ErrConfig, func(c *Config) { c.Persist = -1 })
	f(ErrConfig, func(c *Config) { c.MaxFrameBytes = -1 })
	f(ErrConfig, func(c *Config) { c.RepoCount, c.DirtyCount = 10, 11 })
	f(ErrConfig, func(c *Config) { c.DirtyCount = -1 })
	f(ErrConfig, func(c *Config) { c.Publish = nil })
	f(ErrConfig, func(c *Config) { c.Store = nil })
	f(ErrConfig, func(c *Config) { c.Upstreams = []string{"a.example.com", "wss://A.example.com"} })
	f(ErrBadHostname, func(c *Config) { c.Upstreams = []string{"http://a.example.com"} })
}

// F64 and F67: what becomes of a frame.
func TestJudge(t *testing.T) {
	at := func(n int, own, upstream string) state.Repo {
		r := state.Repo{DID: did('a'), HostID: 1, Status: own, UpstreamStatus: upstream}
		if n > 0 {
			r.Rev, r.Commit, r.Data = rev(n), []byte("commit"), dataOf(rev(n))
		}
		return r
	}
	f := func(rule string, message []byte, repo state.Repo, wantDrop string, wantMisfits []string, wantRev int, wantUpstream string) {
		t.Helper()
		var s firehose.Scanner
		var f firehose.Frame
		if err := s.Scan(message, &f); err != nil {
			t.Fatal(err)
		}
		var verified firehose.State
		if f.Kind() <= firehose.KindSync {
			var err error
			if verified, err = s.Verify(&f); err != nil {
				t.Fatal(err)
			}
		}
		v := judge(&f, verified, repo, 2)
		if v.drop != wantDrop || !slices.Equal(v.misfits, wantMisfits) {
			t.Errorf("%s: dropped %q, misfits %q", rule, v.drop, v.misfits)
		}
		if v.drop != "" {
			return
		}
		clear(message) // the state shares nothing with it
		wantHost := int64(2)
		if f.Kind() == firehose.KindAccount && repo.HostID != 0 {
			wantHost = repo.HostID
		}
		if v.repo.DID != did('a') || v.repo.Rev != rev(wantRev) || v.repo.UpstreamStatus != wantUpstream || v.repo.Status != repo.Status || v.repo.HostID != wantHost {
			t.Errorf("%s: %+v", rule, v.repo)
		}
		if f.Kind() <= firehose.KindSync && string(v.repo.Data) != string(dataOf(rev(wantRev))) {
			t.Errorf("%s: data %x", rule, v.repo.Data)
		}
	}
	none := state.Repo{}
	next := func() []byte { return commit(t, 5, did('a'), 3) }
	f("first of a repository", next(), none, "", nil, 3, "")
	f("known by its account alone", next(), at(0, "", ""), "", nil, 3, "")
	f("fits", next(), at(2, "", ""), "", nil, 3, "")
	f("F64 same rev", next(), at(3, "", ""), dropOldRev, nil, 0, "")
	f("F64 older rev", next(), at(4, "", ""), dropOldRev, nil, 0, "")
	f("F64 since and prevData", next(), at(1, "", ""), "", []string{misfitSince, misfitPrevData}, 3, "")
	f("F64 since of a first commit", commit(t, 5, did('a'), 1), state.Repo{DID: did('a'), Rev: tid(revStart)}, "", []string{misfitSince}, 1, "")
	odd := at(2, "", "")
	odd.Data = []byte("other")
	f("F64 prevData", next(), odd, "", []string{misfitPrevData}, 3, "")
	odd.Data = nil
	f("F64 stored data not known", next(), odd, "", nil, 3, "")
	f("F64 sync goes back", syncFrame(t, 5, did('a'), 3), at(9, "", ""), "", nil, 3, "")
	f("F67 taken down", next(), at(2, "takendown", ""), dropInactive, nil, 0, "")
	f("F67 not active", next(), at(2, "", "deactivated"), dropInactive, nil, 0, "")
	f("F67 sync of not active", syncFrame(t, 5, did('a'), 3), at(2, "", state.Inactive), dropInactive, nil, 0, "")
	f("F67 deactivated", account(t, 5, did('a'), false, "deactivated"), at(2, "", ""), "", nil, 2, "deactivated")
	f("F67 active again", account(t, 5, did('a'), true, ""), at(2, "", "deleted"), "", nil, 2, "")
	f("F67 no reason", account(t, 5, did('a'), false, ""), at(2, "", ""), "", nil, 2, state.Inactive)
	f("F67 changes nothing", account(t, 5, did('a'), true, ""), at(2, "", ""), "", nil, 2, "")
	f("F67 the relay's own stays", account(t, 5, did('a'), true, ""), at(2, "takendown", "deleted"), "", nil, 2, "")
	f("F67 not known", account(t, 5, did('a'), true, ""), none, "", nil, 0, "")
	f("a status that is too long", account(t, 5, did('a'), false, strings.Repeat("x", maxStatusBytes+1)), none, "", nil, 0, state.Inactive)
}

// F67: what consumers are told.
func TestEffective(t *testing.T) {
	f := func(own, upstream string, wantActive bool, want string) {
		t.Helper()
		active, status := effective(state.Repo{Status: own, UpstreamStatus: upstream})
		if active != wantActive || status != want {
			t.Errorf("%q, %q: %v, %q", own, upstream, active, status)
		}
	}
	f("", "", true, "")
	f("", "deleted", false, "deleted")
	f("", state.Inactive, false, "")
	f("takendown", "", false, "takendown")
	f("takendown", "deleted", false, "takendown")
}
