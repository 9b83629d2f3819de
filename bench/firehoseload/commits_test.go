package firehoseload

import (
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// TestCommits: all messages have one length and the number at one place, the
// structure is right (F66), and each repository's revisions rise (F64).
func TestCommits(t *testing.T) {
	s, err := newSample()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.frame()); n < 1150 || n > 1250 {
		t.Errorf("a frame of %d bytes is not of about 1.2 KB", n)
	}
	c := newCommits(time.Now())
	scanner := firehose.Scanner{MaxFrameBytes: firehose.MaxFrameBytes}
	revs := map[string]string{}
	for n := range 3 * repositories {
		seq := firstSeq + int64(n)*1_000_003
		message, err := c.appendMessage(nil, n, seq)
		if err != nil || len(message) != len(s.message) {
			t.Fatalf("commit %d: %d bytes, %v; want %d", n, len(message), err, len(s.message))
		}
		if n > 2 && n%997 != 0 {
			revs[c.at(n).Repo] = c.at(n).Rev
			continue
		}
		var frame firehose.Frame
		if err := scanner.Scan(message[messageHeader:], &frame); err != nil {
			t.Fatalf("commit %d: %v", n, err)
		}
		if _, err := scanner.Verify(&frame); err != nil || frame.Seq != seq {
			t.Errorf("commit %d: number %d, %v", n, frame.Seq, err)
		}
		did, rev := string(frame.DID), string(frame.Rev)
		if last := revs[did]; rev <= last || last != "" && string(frame.Since) != last {
			t.Errorf("commit %d of %s: revision %s since %s, after %s", n, did, rev, frame.Since, last)
		}
		revs[did] = rev
	}
	if len(revs) != repositories {
		t.Errorf("%d repositories, want %d", len(revs), repositories)
	}
}

// TestSample: a copy has another number and nothing else.
func TestSample(t *testing.T) {
	s, err := newSample()
	if err != nil {
		t.Fatal(err)
	}
	scanner := firehose.Scanner{MaxFrameBytes: firehose.MaxFrameBytes}
	var frame firehose.Frame
	for _, seq := range []int64{firstSeq, firstSeq + 1, firehose.MaxSeq} {
		message := s.append([]byte("before"), seq)[len("before"):]
		if err := scanner.Scan(message[messageHeader:], &frame); err != nil || frame.Seq != seq {
			t.Errorf("number %d of %d, %v", frame.Seq, seq, err)
		}
	}
	if at := numberAt([]byte("no number")); at != 0 {
		t.Errorf("a number at %d of what has none", at)
	}
}
