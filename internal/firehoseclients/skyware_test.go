package firehoseclients

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/nodetest"
)

// skyware starts @skyware/firehose on a stream, and waits until it is connected.
func skyware(t *testing.T, url, cursor string, resume bool) *client {
	t.Helper()
	c := run(t, "skyware.mjs", map[string]any{"relay": url, "cursor": cursor, "resume": resume})
	c.expect("open")
	return c
}

// wantSkyware takes the events of vectors, with all their fields, in order.
func wantSkyware(c *client, all []sent) {
	c.t.Helper()
	for _, want := range all {
		l := c.expect(strings.TrimPrefix(want.Header.T, "#"))
		same(c.t, want.Name, l.Message, want.skyware(c.t, want.seq))
	}
}

// TestSkywareDecodesAll is section 11: all vectors, live and replayed.
func TestSkywareDecodesAll(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1)
	live := skyware(t, s.url(), "", false)
	all := s.publishAll(v.messages(t))
	wantSkyware(live, all)
	wantSkyware(skyware(t, s.url(), "0", false), all)
	wantSkyware(skyware(t, s.url(), "7", false), all[7:]) // F21, F24: after the cursor
}

// TestSkywareResumes: the application goes on at the cursor that its client
// names, after an end without a close frame and after a cut in mid-frame.
func TestSkywareResumes(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1)
	p := nodetest.StartProxy(t, s.addr)
	c := skyware(t, p.URL(), "", true)
	resumes(t, v, s, p, breaks{
		want:  func(all []sent) { wantSkyware(c, all) },
		ended: func() { skywareLost(c) },
		again: func() { c.expect("open") },
	})
	wantTargets(t, p, subscribePath, subscribePath+"?cursor=")
}

// skywareLost takes the end of a connection without a close frame, which RFC
// 6455 section 7.1.5 numbers 1006.
func skywareLost(c *client) {
	c.t.Helper()
	if l := c.expect("closed"); l.Code != 1006.0 {
		c.t.Fatalf("F48: closed with %v %q, want 1006", l.Code, l.Reason)
	}
	c.expect("close")
}

// TestSkywareRelayRestarts is F48 and case 42.
func TestSkywareRelayRestarts(t *testing.T) {
	v, dir := readVectors(t), t.TempDir()
	s := startIn(t, dir, "0", 1)
	c := skyware(t, s.url(), "", true)
	all := v.messages(t)
	wantSkyware(c, s.publishAll(all))
	s = restart(t, s, dir)
	skywareLost(c)
	for l := c.next(); l.Event != "open"; l = c.next() { // tries while nobody listened
		if l.Event != "closed" && l.Event != "close" {
			t.Fatalf("got %+v", l)
		}
	}
	wantSkyware(c, s.publishAll(all))
}

// TestSkywareNotices is F22, F23 and case 5: it sees #info as such, and knows
// an error frame only as a header without t.
func TestSkywareNotices(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1000)
	all := s.publishAll(v.messages(t)[:2])
	c := skyware(t, s.url(), "5", false)
	l := c.expect("info")
	if l.Message["name"] != "OutdatedCursor" || l.Message["$type"] != "com.atproto.sync.subscribeRepos#info" {
		t.Errorf("F22: %v", l.Message)
	}
	wantSkyware(c, all)

	c = skyware(t, s.url(), "2000", false)
	if l := c.expect("error"); l.Text != "Invalid header received" {
		t.Errorf("F23: %q", l.Text)
	}
	if l := c.expect("closed"); l.Code != 1008.0 || l.Reason != "FutureCursor" {
		t.Errorf("F49: closed with %v %q", l.Code, l.Reason)
	}
	if l := c.expect("close"); l.Cursor != "2000" {
		t.Errorf("its cursor is %q", l.Cursor)
	}
}
