package firehoseload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

const (
	// fillBytes makes a frame of about 1.2 KB.
	fillBytes = 480
	// firstSeq is where the numbers begin. From 2^32 on all are encoded in nine
	// bytes, so that all frames have one length.
	firstSeq = 1 << 40
	// repositories is how many accounts the commits are of.
	repositories = 1000
)

// tids are the digits of a TID.
const tids = "234567abcdefghijklmnopqrstuvwxyz"

// tid returns the TID of a time in microseconds.
func tid(micros int64) string {
	var b [13]byte
	v := uint64(micros) << 10
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = tids[v&31]
		v >>= 5
	}
	return string(b[:])
}

// commits makes commits whose structure is right (F66), all of one length: of
// many repositories in turns, each with rising revisions.
type commits struct {
	began  int64 // microseconds
	record []byte
	cid    dagcbor.CID // of the record
}

// newCommits returns commits whose revisions begin at a time, one a microsecond.
func newCommits(at time.Time) *commits {
	record := dagcbor.AppendMap(nil, 2)
	record = dagcbor.AppendText(dagcbor.AppendText(record, "text"), bytes.Repeat([]byte("x"), fillBytes))
	record = dagcbor.AppendText(dagcbor.AppendText(record, "$type"), "com.example.post")
	return &commits{began: at.UnixMicro(), record: record, cid: dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, record)}
}

// at returns commit n. The next one of the same repository is n + repositories.
func (c *commits) at(n int) *firehose.Commit {
	did := fmt.Sprintf("did:plc:%024d", n%repositories)
	rev, since := tid(c.began+int64(n)+repositories), tid(c.began+int64(n))
	block := dagcbor.AppendMap(nil, 6)
	block = dagcbor.AppendText(dagcbor.AppendText(block, "did"), did)
	block = dagcbor.AppendText(dagcbor.AppendText(block, "rev"), rev)
	block = dagcbor.AppendBytes(dagcbor.AppendText(block, "sig"), make([]byte, 64))
	block = dagcbor.AppendLink(dagcbor.AppendText(block, "data"), c.cid)
	block = dagcbor.AppendNull(dagcbor.AppendText(block, "prev"))
	block = dagcbor.AppendInt(dagcbor.AppendText(block, "version"), 3)
	root := dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, block)
	return &firehose.Commit{
		Ops:  []firehose.RepoOp{{CID: c.cid, Path: "com.example.post/" + rev, Action: firehose.ActionCreate}},
		Rev:  rev,
		Repo: did, Time: "2026-07-09T10:00:00Z", Since: since,
		Blocks: archive(root, block, c.cid, c.record), Commit: root, PrevData: c.cid,
	}
}

// archive writes a CAR of two blocks, the first its root.
func archive(root dagcbor.CID, block []byte, cid dagcbor.CID, record []byte) []byte {
	header := dagcbor.AppendMap(nil, 2)
	header = dagcbor.AppendArray(dagcbor.AppendText(header, "roots"), 1)
	header = dagcbor.AppendLink(header, root)
	header = dagcbor.AppendInt(dagcbor.AppendText(header, "version"), 1)
	b := append(binary.AppendUvarint(nil, uint64(len(header))), header...)
	b = binary.AppendUvarint(b, uint64(len(root)+len(block)))
	b = append(append(b, root...), block...)
	b = binary.AppendUvarint(b, uint64(len(cid)+len(record)))
	return append(append(b, cid...), record...)
}

// appendMessage appends commit n with a number as a WebSocket message (F9). Its
// length is that of all others if seq is from 2^32 on.
func (c *commits) appendMessage(dst []byte, n int, seq int64) ([]byte, error) {
	frame, err := c.at(n).Append(nil, seq)
	if err != nil {
		return dst, err
	}
	return append(wsframe.AppendHeader(dst, wsframe.OpBinary, len(frame)), frame...), nil
}

// sample is the message of which all others are copies with another number.
type sample struct {
	message []byte
	at      int // where the eight bytes of the number stand
}

// newSample makes it.
func newSample() (sample, error) {
	message, err := newCommits(time.Now().Add(-time.Hour)).appendMessage(nil, 0, firstSeq)
	if err != nil {
		return sample{}, err
	}
	other, err := newCommits(time.Now().Add(-time.Hour)).appendMessage(nil, 0, firstSeq)
	if err != nil || len(other) != len(message) {
		return sample{}, fmt.Errorf("firehoseload: messages of %d and %d bytes: %w", len(message), len(other), err)
	}
	at := numberAt(message)
	if at == 0 {
		return sample{}, fmt.Errorf("firehoseload: a message without a number")
	}
	return sample{message, at}, nil
}

// numberAt finds the number of a message that has firstSeq, 0 if there is none.
func numberAt(message []byte) int {
	mark := binary.BigEndian.AppendUint64([]byte("\x63seq\x1b"), firstSeq)
	for i := 0; i+len(mark) <= len(message); i++ {
		if string(message[i:i+len(mark)]) == string(mark) {
			return i + len(mark) - 8
		}
	}
	return 0
}

// append appends the message with another number.
func (s *sample) append(dst []byte, seq int64) []byte {
	from := len(dst)
	dst = append(dst, s.message...)
	binary.BigEndian.PutUint64(dst[from+s.at:], uint64(seq))
	return dst
}

// frame returns the frame in the message.
func (s *sample) frame() []byte { return s.message[messageHeader:] }

// messageHeader is the header of a message of 126 to 65,535 bytes (RFC 6455,
// section 5.2).
const messageHeader = 4
