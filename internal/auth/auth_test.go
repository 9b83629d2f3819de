package auth

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestAllow(t *testing.T) {
	const token = "s3cret"
	f := func(rule, header, query string, want bool) {
		t.Helper()
		var authorization []byte
		if header != "" {
			authorization = []byte(header)
		}
		if got := New(token).Allow(authorization, query); got != want {
			t.Errorf("%s: Allow(%q, %q) = %v, want %v", rule, header, query, got, want)
		}
	}
	f("R40 nothing presented", "", "", false)
	f("R40 header", "Bearer s3cret", "", true)
	f("R40 query", "", "s3cret", true)
	f("R40 wrong header, right query", "Bearer nope", "s3cret", true)
	f("R40 right header, wrong query", "Bearer s3cret", "nope", true)
	f("R40 both wrong", "Bearer nope", "nope", false)
	f("R40 other scheme", "Basic s3cret", "", false)
	f("R43 scheme in lower case", "bearer s3cret", "", true)
	f("R43 scheme in upper case", "BEARER s3cret", "", true)
	f("R43 two spaces", "Bearer  s3cret", "", false)
	f("R43 tab for the space", "Bearer\ts3cret", "", false)
	f("R43 no space", "Bearers3cret", "", false)
	f("R43 no token", "Bearer ", "", false)
	f("R43 scheme alone", "Bearer", "", false)
	f("R43 bare token", "s3cret", "", false)
	f("R43 token in other case", "Bearer S3CRET", "", false)
	f("R43 token with a tail", "Bearer s3cret ", "", false)
	f("R43 prefix of the token", "Bearer s3cre", "", false)
	f("R43 token and more", "Bearer s3cret2", "", false)
	f("R43 query in other case", "", "S3cret", false)
}

// R40: without a token everything is allowed, whatever is presented.
func TestAllowWithoutToken(t *testing.T) {
	for _, a := range []*Auth{New(""), {}} {
		if a.Enabled() {
			t.Error("enabled without a token")
		}
		if !a.Allow(nil, "") || !a.Allow([]byte("Bearer x"), "y") {
			t.Error("refused without a token")
		}
	}
	if !New("x").Enabled() {
		t.Error("not enabled with a token")
	}
}

// R43: the token is octets, so it may hold what is no UTF-8.
func TestAllowOctets(t *testing.T) {
	token := "caf\xe9 \x00"
	if !New(token).Allow([]byte("Bearer "+token), "") || !New(token).Allow(nil, token) {
		t.Error("token of arbitrary octets refused")
	}
}

// R40 with several tokens: each of them passes, wherever it stands, and in
// both forms.
func TestAllowSeveralTokens(t *testing.T) {
	tokens := []string{"first", "", "middle", "last"}
	a := New(tokens...)
	for _, token := range tokens {
		want := token != "" // an empty one does not count
		if got := a.Allow([]byte("Bearer "+token), ""); got != want {
			t.Errorf("header %q: %v, want %v", token, got, want)
		}
		if got := a.Allow(nil, token); got != want {
			t.Errorf("query %q: %v, want %v", token, got, want)
		}
	}
	if !a.Allow([]byte("Bearer first"), "last") {
		t.Error("two valid tokens at once are refused")
	}
	if a.Allow([]byte("Bearer firstlast"), "nope") {
		t.Error("no valid token and let in")
	}
	if New("", "").Enabled() {
		t.Error("enabled by empty tokens")
	}
}

// A digest that differs in one bit only, in any of its words, is no match,
// and a match is found beside others.
func TestMatchLooksAtEveryBit(t *testing.T) {
	presented := digestOf([]byte("token"))
	for bit := range 256 {
		other := presented
		other[bit/64] ^= 1 << (bit % 64)
		if got := (digests{other, other}).match(presented); got != 0 {
			t.Errorf("bit %d: matches", bit)
		}
		if got := (digests{other, presented, other}).match(presented); got != 1 {
			t.Errorf("bit %d: %d beside the match, want 1", bit, got)
		}
	}
}

func TestSet(t *testing.T) {
	a := New("old")
	f := func(name string, set []string, want error, allowed, refused string) {
		t.Helper()
		if err := a.Set(set); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if !a.Enabled() || !a.Allow(nil, allowed) || a.Allow(nil, refused) || a.Allow(nil, "") {
			t.Errorf("%s: want %q in and %q out", name, allowed, refused)
		}
	}
	f("add", []string{"old", "new"}, nil, "old", "other")
	f("both", []string{"old", "new"}, nil, "new", "other")
	f("take out", []string{"new"}, nil, "new", "old")
	f("none keeps what there is", nil, ErrNoToken, "new", "old")
	f("only empty ones", []string{"", ""}, ErrNoToken, "new", "old")
	f("replace", []string{"", "third"}, nil, "third", "new")

	open := New()
	if err := open.Set(nil); err != nil || open.Enabled() {
		t.Errorf("none to none: %v, enabled %v", err, open.Enabled())
	}
	if err := open.Set([]string{"x"}); err != nil || !open.Allow(nil, "x") || open.Allow(nil, "") {
		t.Errorf("none to one: %v", err)
	}
	list := []string{"a"}
	borrowed := New()
	_ = borrowed.Set(list)
	list[0] = "b"
	if !borrowed.Allow(nil, "a") || borrowed.Allow(nil, "b") {
		t.Error("the caller's slice is kept")
	}
}

// A request during replacements sees one whole set: the token that is in all
// of them always passes, one that is in none never does, and of the two that
// take turns neither opens the relay.
func TestSetIsAtomic(t *testing.T) {
	a := New("stays", "odd")
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if !a.Enabled() || !a.Allow([]byte("Bearer stays"), "") || a.Allow([]byte("Bearer never"), "") ||
					a.Allow(nil, "") {
					t.Error("a request saw no whole set")
					return
				}
			}
		})
	}
	for i := range 2000 {
		set := []string{"even", "stays"}
		if i%2 == 1 {
			set = []string{"stays", "odd", "more"}
		}
		if err := a.Set(set); err != nil {
			t.Error(err)
		}
		if err := a.Set(nil); !errors.Is(err, ErrNoToken) {
			t.Errorf("none: %v", err)
		}
	}
	close(done)
	wg.Wait()
}

func TestAllowDoesNotAllocate(t *testing.T) {
	token := strings.Repeat("k", 100) // longer than any small-string buffer
	header := []byte("Bearer " + token)
	query := strings.Repeat("q", 200)
	for _, a := range []*Auth{New(token), New("a", token, "b"), New()} {
		if n := testing.AllocsPerRun(100, func() {
			if !a.Allow(header, query) {
				t.Fatal("refused")
			}
		}); n != 0 {
			t.Errorf("Allow allocates %v times", n)
		}
	}
}

func FuzzAllow(f *testing.F) {
	f.Add([]byte("Bearer t"), "")
	f.Add([]byte("bearer  t"), "t")
	f.Add([]byte(nil), "\x00")
	f.Fuzz(func(t *testing.T, authorization []byte, query string) {
		valid := func(presented string) bool { return presented == "t" || presented == "u" }
		scheme, presented, found := strings.Cut(string(authorization), " ")
		want := valid(query) || (found && strings.EqualFold(scheme, "bearer") && valid(presented))
		if got := New("u", "t").Allow(authorization, query); got != want {
			t.Errorf("Allow(%q, %q) = %v, want %v", authorization, query, got, want)
		}
	})
}
