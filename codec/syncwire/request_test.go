package syncwire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const stream = "JTOTvdS5VRsO1WdnFDsSpw"

// compactBodies are bodies of stream compactions, for at most three ids (S40).
// An owner of "" could not be read, so that the fault is told to anyone (S16).
var compactBodies = []struct {
	body, owner string
	ids         []string
	code        Code // Internal: none
}{
	{`{"ownerId":"o","streamIds":[]}`, "o", nil, Internal},
	{` {"streamIds": [ "` + stream + `" , "` + stream + `" ] , "ownerId" : "o"} `, "o", []string{stream, stream}, Internal},
	{`{"ownerId":"\u006f","x":{"streamIds":1},"stream\u0049ds":["\u004aTOTvdS5VRsO1WdnFDsSpw"]}`, "o", []string{stream}, Internal},
	{`{"ownerId":"o","streamIds":["` + stream + `","x"]}`, "o", nil, BadStreamID},
	{`{"ownerId":"o","streamIds":[["` + stream + `"]]}`, "o", nil, BadStreamID},
	{`{"ownerId":"o","streamIds":[1,2,3,4]}`, "o", nil, TooManyStreams},
	{`{"ownerId":"o","streamIds":["` + strings.Repeat(stream+`","`, 3) + stream + `"]}`, "o", nil, TooManyStreams},
	{`{"ownerId":"o"}`, "o", nil, BadRequest},
	{`{"ownerId":"o","streamids":[]}`, "o", nil, BadRequest},
	{`{"ownerId":"o","streamIds":null}`, "o", nil, BadRequest},
	{`{"ownerId":"o","streamIds":{"0":"` + stream + `"}}`, "o", nil, BadRequest},
	{`{"streamIds":[],"streamIds":[],"ownerId":"o"}`, "o", nil, BadRequest},
	{`{"ownerId":"o","ownerId":"o","streamIds":[]}`, "", nil, BadRequest},
	{`{"OwnerId":"o","streamIds":[]}`, "", nil, BadRequest},
	{`{"ownerId":"","streamIds":[]}`, "", nil, BadRequest},
	{`{"ownerId":["o"],"streamIds":[]}`, "", nil, BadRequest},
	{`{"ownerId":"o o","streamIds":[]}`, "", nil, BadRequest},
	{`{"ownerId":"` + strings.Repeat("o", 129) + `","streamIds":[]}`, "", nil, BadRequest},
	{`{"ownerId":"o","streamIds":[]`, "", nil, BadRequest},
	{`{"ownerId":"o","streamIds":[]}}`, "", nil, BadRequest},
	{"\ufeff" + `{"ownerId":"o","streamIds":[]}`, "", nil, BadRequest},
	{`{"ownerId":"o","streamIds":[],"x":"` + "\xff" + `"}`, "", nil, BadRequest},
	{`[]`, "", nil, BadRequest},
	{``, "", nil, BadRequest},
	{`{}`, "", nil, BadRequest},
	{`{"":[],"ownerId":"o","streamIds":[],"":[]}`, "o", nil, Internal},
}

func TestDecodeCompact(t *testing.T) {
	for _, c := range compactBodies {
		text := []byte(c.body)
		r, err := DecodeCompact(text, 3)
		if string(text) != c.body {
			t.Errorf("%s: input modified", c.body)
		}
		if r.OwnerID != c.owner {
			t.Errorf("%s: owner %q", c.body, r.OwnerID)
		}
		if c.code != Internal {
			wantFault(t, c.body, err, c.code, -1)
		} else if err != nil || !slices.Equal(r.StreamIDs, c.ids) {
			t.Errorf("%s: %q, %v", c.body, r.StreamIDs, err)
		}
	}
}

// TestDecodeClose is S42: a close takes any body with a good owner.
func TestDecodeClose(t *testing.T) {
	for _, c := range compactBodies {
		owner, err := DecodeClose([]byte(c.body))
		if c.owner == "" {
			wantFault(t, c.body, err, BadRequest, -1)
		} else if err != nil || owner != c.owner {
			t.Errorf("%s: %q, %v", c.body, owner, err)
		}
	}
}

// TestMaxCompactBytes: a full list fits, even in its longest spelling.
func TestMaxCompactBytes(t *testing.T) {
	id := strings.Repeat(`\u0041`, 22)
	text := `{"ownerId":"` + strings.Repeat(`\u006f`, 128) + `","streamIds":["` +
		strings.Repeat(id+"\",\r\n        \"", 999) + id + `"]}`
	if len(text) > MaxCompactBytes(1000) {
		t.Errorf("%d bytes, limit %d", len(text), MaxCompactBytes(1000))
	}
	if r, err := DecodeCompact([]byte(text), 1000); err != nil || len(r.StreamIDs) != 1000 {
		t.Errorf("%d ids, %v", len(r.StreamIDs), err)
	}
}

// TestBearer is S10.
func TestBearer(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		token, ok := Bearer([]byte(value))
		if ok != (want != "") || ok && string(token) != want {
			t.Errorf("%q: %q %v, want %q", value, token, ok, want)
		}
	}
	f("Bearer abc", "abc")
	f("bEARER   !~", "!~")
	f("Bearer "+strings.Repeat("x", 512), strings.Repeat("x", 512))
	f("Bearer "+strings.Repeat("x", 513), "")
	for _, s := range []string{
		"", "Bearer", "Bearer ", "Bearer    ", "Bearerabc", "Bearer\tabc", "Basic abc",
		"Bearer a b", "Bearer abc ", "Bearer é", "Bearer a\x7f", " Bearer abc", "\"earer abc", "Bearer,abc",
		"\x02earer abc",
	} {
		f(s, "")
	}
}

// TestParsePull is S11, S32 and S52; hard cases 13 and 14.
func TestParsePull(t *testing.T) {
	f := func(query string, after int64, limit, wait int) {
		t.Helper()
		q, err := ParsePull([]byte(query), PullLimits{Default: 500, Max: 1000})
		if err != nil || q.OwnerID != "o" || q.After != after || q.Limit != limit || q.Wait.Milliseconds() != int64(wait) {
			t.Errorf("%s: %+v, %v", query, q, err)
		}
	}
	const most = 1<<63 - 1
	f("ownerId=o", 0, 500, 25_000)
	f("ownerId=o&after=12&limit=7&timeout=100", 12, 7, 100)
	f("limit=7&x&ownerId=%6F&=&after=0012&", 12, 7, 25_000)
	for _, after := range []string{"abc", "", "-1", "1e3", "+1", "1.0", "%201", "1x", "٣", "0x10"} {
		f("ownerId=o&after="+after, 0, 500, 25_000)
	}
	f("ownerId=o&after=%31", 1, 500, 25_000)
	f("ownerId=o&after=5&after=6&limit=5&limit=6", 5, 5, 25_000)
	f("ownerId=o&after=9223372036854775807", most, 500, 25_000)
	f("ownerId=o&after=9223372036854775808", most, 500, 25_000)
	f("ownerId=o&after=9223372036854775806", most-1, 500, 25_000)
	f("ownerId=o&after="+strings.Repeat("9", 500), most, 500, 25_000)
	f("ownerId=o&after="+strings.Repeat("9", 500)+"x", 0, 500, 25_000)
	f("ownerId=o&after="+strings.Repeat("0", 500)+"8", 8, 500, 25_000)
	for limit, want := range map[string]int{
		"0": 1, "-5": 1, "99999": 1000, "x": 500, "": 500, "1": 1, "1000": 1000, "1001": 1000,
		"-": 500, "1.5": 500, "1e2": 500, "--1": 500, "99999999999999999999": 1000, "-99999999999999999999": 1,
	} {
		f("ownerId=o&limit="+limit, 0, want, 25_000)
	}
	for timeout, want := range map[string]int{
		"0": 0, "-1": 0, "60000": 60_000, "60001": 60_000, "99999999999999999999": 60_000, "x": 25_000, "": 25_000,
	} {
		f("ownerId=o&timeout="+timeout, 0, 500, want)
	}
}

// TestParseOwner is S11.
func TestParseOwner(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		owner, err := ParseOwner([]byte(query))
		if want == "" {
			wantFault(t, query, err, BadRequest, -1)
		} else if err != nil || owner != want {
			t.Errorf("%s: %q, %v", query, owner, err)
		}
	}
	long := strings.Repeat("x", 128)
	f("ownerId="+long, long)
	f("a=b&owner%49d=a%2Bb%3d=", "a+b==")
	for _, query := range []string{
		"", "ownerId", "ownerId=", "OwnerId=o", "ownerId=o&ownerId=o", "ownerId=&ownerId=o",
		"ownerId=o&owner%49d=", "ownerId=a+b", "ownerId=a%20b", "ownerId=%C3%A9", "ownerId=%00",
		"ownerId=" + long + "x", "xownerId=o", "ownerIdx=o", "?ownerId=o", strings.Repeat("ownerId", 9) + "=o",
	} {
		f(query, "")
	}
}

// TestError: each code of S4 has a name and a status of its own, and unknown
// ones are internal.
func TestError(t *testing.T) {
	names := map[string]bool{}
	for c := range codeCount {
		if c.String() == "" || c.Status() < 400 || names[c.String()] {
			t.Errorf("code %d: %q %d", c, c, c.Status())
		}
		names[c.String()] = true
		if retry := c.RetryAfter(); (retry > 0) != (c.Status() == 503 || c.Status() == 429) {
			t.Errorf("%s: Retry-After %d", c, retry)
		}
	}
	if c := codeCount; c.String() != "internal" || c.Status() != 500 {
		t.Errorf("%s %d", c, c.Status())
	}
	e := &Error{Code: BadEnvelope, Index: 17, Reason: "nonce is missing"}
	if got := fmt.Sprint(e); got != "events[17]: nonce is missing" {
		t.Error(got)
	}
}
