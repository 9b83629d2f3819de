package syncmodel

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// account speaks to a relay for one owner, in tests that expect each answer.
type account struct {
	*site
	owner, token string
	base         string // path before /v1
}

func (s *site) account(owner string) *account {
	return &account{site: s, owner: owner, token: "token-of-" + owner}
}

// as is the same owner with another token.
func (a *account) as(token string) *account {
	return &account{site: a.site, owner: a.owner, token: token, base: a.base}
}

// envelope is an event of the owner; stream may be empty.
func (a *account) envelope(id, stream, content string) string {
	if stream != "" {
		stream = `"streamId":"` + stream + `",`
	}
	return fmt.Sprintf(`{"version":1,"ownerId":%q,"eventId":%q,%s"deviceId":"d","createdAt":"2026-01-01T00:00:00.000Z","nonce":"n","ciphertext":%q}`,
		a.owner, id, stream, content)
}

func (a *account) envelopes(from, count int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = a.envelope(fmt.Sprintf("%06d", from+i), "", "x")
	}
	return list
}

func (a *account) body(events ...string) string {
	return fmt.Sprintf(`{"ownerId":%q,"events":[%s]}`, a.owner, strings.Join(events, ","))
}

func (a *account) post(path, body string) answer {
	a.t.Helper()
	return a.do("POST", a.base+path, a.token, body)
}

func (a *account) push(events ...string) answer {
	a.t.Helper()
	return a.post("/v1/events", a.body(events...))
}

// pushed pushes, and wants the counts of S22.
func (a *account) pushed(accepted, duplicate int, events ...string) {
	a.t.Helper()
	wantBody(a.t, "push", a.push(events...), fmt.Sprintf(`{"accepted":%d,"duplicate":%d}`, accepted, duplicate))
}

func (a *account) get(path string, more ...string) answer {
	a.t.Helper()
	return a.do("GET", a.base+path+"?ownerId="+url.QueryEscape(a.owner)+strings.Join(more, ""), a.token, "")
}

// pull gets a page with further parameters (&after=...), which must come.
func (a *account) pull(params string) (events []string, next string) {
	a.t.Helper()
	res := a.get("/v1/events", params)
	if res.status != 200 {
		a.t.Fatalf("pull %s: %d %s", params, res.status, res.body)
	}
	events, next, err := parsePage(res.body)
	if err != nil {
		a.t.Fatalf("pull %s: %v in %s", params, err, res.body)
	}
	return events, next
}

func parsePage(body string) (events []string, next string, err error) {
	var page struct {
		Events     []json.RawMessage
		NextCursor *string
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		return nil, "", err
	}
	if page.Events == nil || page.NextCursor == nil {
		return nil, "", fmt.Errorf("a member is missing")
	}
	for _, e := range page.Events {
		events = append(events, string(e))
	}
	return events, *page.NextCursor, nil
}

// drain pulls from after to the end and returns the ids.
func (a *account) drain(after string) (ids []string, next string) {
	a.t.Helper()
	for next = after; ; {
		events, to := a.pull("&after=" + next)
		for _, e := range events {
			ids = append(ids, idOf(a.t, e))
		}
		if to == next || len(events) == 0 {
			return ids, to
		}
		next = to
	}
}

func idOf(t testing.TB, envelope string) string {
	t.Helper()
	var e struct{ EventID string }
	if err := json.Unmarshal([]byte(envelope), &e); err != nil {
		t.Fatalf("%v in %.200s", err, envelope)
	}
	return e.EventID
}

// numbers is the account member of a status.
type numbers struct {
	OwnerID                  string
	QuotaBytes, UsedBytes    int64
	UsedPct                  float64
	HeadSeq, Streams, Events int64
	CreatedAt                string
}

func (a *account) status() numbers {
	a.t.Helper()
	var st struct{ Account numbers }
	res := a.get("/v1/status")
	if err := json.Unmarshal([]byte(res.body), &st); err != nil || res.status != 200 {
		a.t.Fatalf("status: %d %s, %v", res.status, res.body, err)
	}
	return st.Account
}

// unknown wants the owner not to be registered.
func (a *account) unknown(what string) {
	a.t.Helper()
	wantCode(a.t, what+": status", a.get("/v1/status"), 404, "unknown_owner")
}

// holds wants exactly these events of the owner, in order.
func (a *account) holds(what string, ids ...string) {
	a.t.Helper()
	if got, _ := a.drain(""); strings.Join(got, " ") != strings.Join(ids, " ") {
		a.t.Errorf("%s: holds %q, want %q", what, got, ids)
	}
}

func (a *account) blobPath(hash string) string {
	return a.base + "/v1/blobs/" + hash + "?ownerId=" + url.QueryEscape(a.owner)
}

func (a *account) put(body string) answer {
	a.t.Helper()
	return a.do("PUT", a.blobPath(hashOf(body)), a.token, body)
}

func (a *account) compact(streams ...any) answer {
	a.t.Helper()
	list, err := json.Marshal(append([]any{}, streams...))
	if err != nil {
		a.t.Fatal(err)
	}
	return a.post("/v1/streams/compact", fmt.Sprintf(`{"ownerId":%q,"streamIds":%s}`, a.owner, list))
}

func (a *account) closeOwner() answer {
	a.t.Helper()
	return a.post("/v1/owner/close", fmt.Sprintf(`{"ownerId":%q}`, a.owner))
}

// compactAll runs S37 now, and returns how many events went.
func (s *site) compactAll() int {
	s.t.Helper()
	var out struct{ DeletedEvents int }
	res := s.do("POST", "/v1/admin/compact", adminToken, "")
	if err := json.Unmarshal([]byte(res.body), &out); err != nil || res.status != 200 {
		s.t.Fatalf("compact: %d %s, %v", res.status, res.body, err)
	}
	return out.DeletedEvents
}

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func number(t testing.TB, cursor string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		t.Fatalf("cursor %q: %v", cursor, err)
	}
	return n
}

// wantCode wants an error of S4, with its headers.
func wantCode(t testing.TB, what string, a answer, status int, code string) {
	t.Helper()
	var e struct{ Error, Message string }
	err := json.Unmarshal([]byte(a.body), &e)
	if a.status != status || err != nil || e.Error != code || e.Message == "" {
		t.Errorf("%s: %d %.300s, want %d %s", what, a.status, a.body, status, code)
		return
	}
	for name, want := range map[string]string{
		"Content-Type":                "application/json; charset=utf-8",
		"Cache-Control":               "no-store",
		"Access-Control-Allow-Origin": "*",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
}

func wantBody(t testing.TB, what string, a answer, body string) {
	t.Helper()
	if a.status != 200 || a.body != body {
		t.Errorf("%s: %d %.300s, want 200 %s", what, a.status, a.body, body)
	}
}
