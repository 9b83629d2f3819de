package firehosefaults

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
)

// message is a body to publish and what it is known by afterwards: no two have
// the same id.
type message struct {
	firehoseBody
	id string
}

// firehoseBody is what codec/firehose's messages have in common.
type firehoseBody interface {
	Kind() firehose.Kind
	Check() error
	SizeBytes() int
	Append(dst []byte, seq int64) ([]byte, error)
}

// frame returns the frame of a message. Its number is replaced by the relay.
func (m message) frame(seq int64) []byte {
	b, err := m.Append(nil, seq)
	if err != nil {
		panic(err) // of a number that the tests made
	}
	return b
}

// made counts the messages of all tests, so that each is told apart.
var made atomic.Int64

// epoch is where the times of messages begin: long enough ago that no revision
// is in the future (F64).
var epoch = time.Now().Add(-24 * time.Hour)

// moment returns a time that no other message has.
func moment() time.Time { return epoch.Add(time.Duration(made.Add(1)) * time.Microsecond) }

// tid writes a time as a revision.
func tid(at time.Time) string {
	const digits = "234567abcdefghijklmnopqrstuvwxyz"
	v := uint64(at.UnixMicro()) << 10
	var b [13]byte
	for i := range b {
		b[i] = digits[v>>(60-5*i)&31]
	}
	return string(b[:])
}

// wireTime writes a time with its microseconds, by which #account is known.
func wireTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

// repo is a repository whose commits follow each other. One goroutine.
type repo struct {
	did  string
	rev  string
	data dagcbor.CID
}

func newRepo(n int) *repo { return &repo{did: fmt.Sprintf("did:plc:%024d", n)} }

// commit returns the next commit, with a block of so many bytes beside its own.
func (r *repo) commit(size int) message {
	at := moment()
	rev := tid(at)
	record := make([]byte, size)
	copy(record, rev)
	data := dagcbor.SHA256CID(dagcbor.CodecRaw, record)
	block := commitBlock(r.did, rev, data)
	root := dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, block)
	c := &firehose.Commit{
		Ops: []firehose.RepoOp{{CID: data, Path: "com.example.note/" + rev, Action: firehose.ActionCreate}},
		Rev: rev, Repo: r.did, Time: wireTime(at), Since: r.rev, PrevData: r.data,
		Blocks: archive(root, root, block, data, record), Commit: root,
	}
	r.rev, r.data = rev, data
	return message{c, r.did + " " + rev}
}

// sync returns an announcement of the repository's last commit (F47).
func (r *repo) sync() message {
	at := moment()
	r.rev = tid(at)
	r.data = dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, []byte(r.rev))
	block := commitBlock(r.did, r.rev, r.data)
	root := dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, block)
	return message{&firehose.Sync{DID: r.did, Rev: r.rev, Time: wireTime(at), Blocks: archive(root, root, block)}, r.did + " " + r.rev}
}

// identity returns a message that tells of a handle of its own.
func (r *repo) identity() message {
	at := moment()
	handle := "h" + tid(at) + ".example.com"
	return message{&firehose.Identity{DID: r.did, Time: wireTime(at), Handle: handle}, r.did + " " + handle}
}

// account returns a message that tells that the account is active.
func (r *repo) account() message {
	at := wireTime(moment())
	return message{&firehose.Account{DID: r.did, Time: at, Active: true}, r.did + " " + at}
}

// mixed returns one of these, a commit most often.
func (r *repo) mixed(n int) message {
	switch {
	case n%17 == 5:
		return r.identity()
	case n%17 == 11:
		return r.account()
	case n%51 == 16:
		return r.sync()
	}
	return r.commit(60 + n%500)
}

// idOf returns the id of a frame that was read.
func idOf(f *firehose.Frame) string {
	switch f.Kind() {
	case firehose.KindCommit, firehose.KindSync:
		return string(f.DID) + " " + string(f.Rev)
	case firehose.KindIdentity:
		return string(f.DID) + " " + string(f.Handle)
	}
	return string(f.DID) + " " + string(f.Time)
}

// commitBlock is a commit of version 3 (F66), its keys in canonical order.
func commitBlock(did, rev string, data dagcbor.CID) []byte {
	b := dagcbor.AppendMap(nil, 6)
	b = dagcbor.AppendText(dagcbor.AppendText(b, "did"), did)
	b = dagcbor.AppendText(dagcbor.AppendText(b, "rev"), rev)
	b = dagcbor.AppendBytes(dagcbor.AppendText(b, "sig"), make([]byte, 64))
	b = dagcbor.AppendLink(dagcbor.AppendText(b, "data"), data)
	b = dagcbor.AppendNull(dagcbor.AppendText(b, "prev"))
	return dagcbor.AppendInt(dagcbor.AppendText(b, "version"), 3)
}

// archive is a CAR of pairs of CID and content.
func archive(root dagcbor.CID, blocks ...[]byte) []byte {
	head := dagcbor.AppendMap(nil, 2)
	head = dagcbor.AppendArray(dagcbor.AppendText(head, "roots"), 1)
	head = dagcbor.AppendLink(head, root)
	head = dagcbor.AppendInt(dagcbor.AppendText(head, "version"), 1)
	b := append(binary.AppendUvarint(nil, uint64(len(head))), head...)
	for i := 0; i < len(blocks); i += 2 {
		b = binary.AppendUvarint(b, uint64(len(blocks[i])+len(blocks[i+1])))
		b = append(append(b, blocks[i]...), blocks[i+1]...)
	}
	return b
}
